"""Whisper's encoder, and its log-mel features at the released sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from tests.parity.checkpoint import Checkpoint, Tensors, probe, write_arrays, write_json
from tests.parity.media import CLIPS, RATE, clip, wave

WHISPER = {
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "architectures": ["WhisperForConditionalGeneration"],
    "attention_dropout": 0.0,
    "begin_suppress_tokens": None,
    "bos_token_id": 30,
    "d_model": 16,
    "decoder_attention_heads": 1,
    "decoder_ffn_dim": 8,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 1,
    "decoder_start_token_id": 31,
    "dropout": 0.0,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 2,
    "eos_token_id": 30,
    "is_encoder_decoder": True,
    "max_source_positions": 50,
    "max_target_positions": 8,
    "model_type": "whisper",
    "num_hidden_layers": 2,
    "num_mel_bins": 16,
    "pad_token_id": 30,
    "scale_embedding": False,
    "torch_dtype": "float32",
    "transformers_version": "4.27.0.dev0",
    "use_cache": True,
    "vocab_size": 32,
}
#: Released: 80 or 128 mel bins, 30 s; here for the tiny encoder 16 and one second.
EXTRACTOR = {
    "chunk_length": 1,
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 16,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 16000,
    "nb_max_frames": 100,
    "padding_side": "right",
    "padding_value": 0.0,
    "processor_class": "WhisperProcessor",
    "return_attention_mask": False,
    "sampling_rate": RATE,
}
CHECKPOINTS = (Checkpoint("whisper", WhisperForConditionalGeneration, WHISPER),)
#: The clips that the encoder is given, and those whose features at the released sizes are stored.
ENCODED, RELEASED = ("odd", "long"), ("blip", "odd")
#: Frames that the encoder is given in the case `short`, in place of 100.
SHORT = 36
_LAYER = "model.encoder.layers.0."
GRADIENTS = (
    "model.encoder.conv1.weight",
    "model.encoder.conv2.bias",
    "model.encoder.layer_norm.weight",
    f"{_LAYER}self_attn_layer_norm.weight",
    *(f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv"),
)


def make(checkpoint: Checkpoint) -> None:
    """Write the folder of Whisper."""
    model = checkpoint.build()
    checkpoint.save(model)
    write_json(checkpoint.folder / "preprocessor_config.json", EXTRACTOR)
    extractor = WhisperFeatureExtractor.from_pretrained(checkpoint.folder)
    features = torch.from_numpy(log_mel(extractor, [wave(clip(name)) for name in ENCODED]))
    write_arrays(checkpoint.folder / "inputs.npz", {"input_features": features})
    write_arrays(checkpoint.folder / "expected.npz", _expected(checkpoint, model, features))
    write_arrays(checkpoint.folder / "processed.npz", _released_features())


def log_mel(extractor: Any, waves: list[np.ndarray]) -> np.ndarray:
    """Features [clips, mels, frames] by the processor's numpy path.

    Raises:
        AssertionError: its torch path, which it takes where torch is, differs.
    """
    padded = extractor.pad(
        {"input_features": [wave[:, None] for wave in waves]},
        padding="max_length",
        max_length=extractor.n_samples,
        truncation=True,
        return_attention_mask=False,
    )["input_features"]
    features = extractor._np_extract_fbank_features(np.stack(padded)[..., 0], "cpu")
    by_torch = extractor(waves, sampling_rate=RATE, return_tensors="np")["input_features"]
    np.testing.assert_allclose(features, by_torch, atol=5e-5)
    return np.asarray(features, np.float32)


def _expected(checkpoint: Checkpoint, model: Any, features: torch.Tensor) -> dict[str, Any]:
    encoder = model.get_encoder()
    states = _states(encoder, features)
    states |= {f"short.{name}": s for name, s in _short(model, features[..., :SHORT]).items()}
    weights = probe(states["hidden"])
    loss = (states["hidden"] * weights).sum()
    gradients = checkpoint.gradients(model, loss, GRADIENTS)
    return {**states, "probe": weights, "loss": loss, **gradients}


def _states(encoder: Any, features: torch.Tensor) -> Tensors:
    found = encoder(features, output_hidden_states=True)
    return {
        "embeddings": found.hidden_states[0],
        "layer_0": found.hidden_states[1],
        "hidden": found.last_hidden_state,
    }


def _short(model: Any, features: torch.Tensor) -> Tensors:
    """The results with a window of `SHORT` frames, as if nothing were after a clip."""
    whole = model.get_encoder()
    config = type(model.config).from_dict(model.config.to_dict())
    config.max_source_positions = SHORT // 2
    encoder = type(whole)(config).eval()
    encoder.set_attn_implementation("eager")
    weights = whole.state_dict()
    table = weights["embed_positions.weight"][: SHORT // 2]
    encoder.load_state_dict(weights | {"embed_positions.weight": table})
    return {"hidden": _states(encoder, features)["hidden"]}


def _released_features() -> dict[str, Any]:
    """Log-mel features in windows of 30 s: the frames of a clip and 8 after it, and statistics."""
    arrays: dict[str, Any] = {}
    for mels in (80, 128):
        extractor = WhisperFeatureExtractor(feature_size=mels)
        for name in RELEASED:
            features = log_mel(extractor, [wave(clip(name))])[0]
            count = -(-CLIPS[name] // extractor.hop_length) + 8
            arrays[f"mels_{mels}.{name}.frames"] = features[:, :count]
            arrays[f"mels_{mels}.{name}.rest"] = _statistics(features[:, count:])
        # Longer than the window: what is after 30 s is cut off.
        features = log_mel(extractor, [np.tile(wave(clip("long")), 90)])[0]
        arrays[f"mels_{mels}.tiled.last"] = features[:, -4:]
        arrays[f"mels_{mels}.tiled.all"] = _statistics(features)
    return arrays


def _statistics(values: np.ndarray) -> np.ndarray:
    """Minimum, mean, standard deviation and maximum."""
    wide = values.astype(np.float64)
    return np.array([wide.min(), wide.mean(), wide.std(), wide.max()])
