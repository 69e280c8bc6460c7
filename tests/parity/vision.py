"""Image encoders: SigLIP, SigLIP 2 (fixed resolution and NaFlex) and CLIP, alone and with texts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    CLIPImageProcessorPil,
    CLIPModel,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    SiglipImageProcessorPil,
    SiglipModel,
)

from tests.models.pretrained import pairs
from tests.parity.checkpoint import CLOSE, Checkpoint, Tensors, probe, write_arrays, write_json
from tests.parity.media import IMAGES, image

CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]
HALVES = [0.5, 0.5, 0.5]
#: The released towers of texts, as small as they get: an importer takes none of it.
_TEXT: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "max_position_embeddings": 8,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 16,
}
# 18 pixels are 4 patches of 4, as 384 are 27 of 14: the last two are not seen.
SIGLIP = {
    "architectures": ["SiglipModel"],
    "initializer_factor": 1.0,
    "model_type": "siglip",
    "text_config": {**_TEXT, "model_type": "siglip_text_model", "projection_size": 16},
    "torch_dtype": "float32",
    "transformers_version": "4.37.0.dev0",
    "vision_config": {
        "hidden_size": 16,
        "image_size": 18,
        "intermediate_size": 32,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "patch_size": 4,
    },
}
SIGLIP_PROCESSOR = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": HALVES,
    "image_processor_type": "SiglipImageProcessor",
    "image_std": HALVES,
    "processor_class": "SiglipProcessor",
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 18, "width": 18},
}
# Fixed resolutions of SigLIP 2 are released as SigLIP, resized bilinearly.
SIGLIP2 = {
    **SIGLIP,
    "vision_config": {
        "attention_dropout": 0.0,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 16,
        "image_size": 16,
        "intermediate_size": 32,
        "layer_norm_eps": 1e-06,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 2,
        "num_channels": 3,
        "num_hidden_layers": 2,
        "patch_size": 4,
    },
}
SIGLIP2_PROCESSOR = {
    **SIGLIP_PROCESSOR,
    "do_convert_rgb": None,
    "resample": 2,
    "size": {"height": 16, "width": 16},
}
NAFLEX = {
    "architectures": ["Siglip2Model"],
    "initializer_factor": 1.0,
    "model_type": "siglip2",
    "text_config": {**_TEXT, "model_type": "siglip2_text_model", "projection_size": 16},
    "torch_dtype": "float32",
    "transformers_version": "4.49.0.dev0",
    "vision_config": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "model_type": "siglip2_vision_model",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_patches": 16,
        "patch_size": 4,
    },
}
NAFLEX_PROCESSOR = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": HALVES,
    "image_processor_type": "Siglip2ImageProcessor",
    "image_std": HALVES,
    "max_num_patches": 24,
    "patch_size": 4,
    "processor_class": "Siglip2Processor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
}
CLIP = {
    "architectures": ["CLIPModel"],
    "initializer_factor": 1.0,
    "logit_scale_init_value": 2.6592,
    "model_type": "clip",
    "projection_dim": 8,
    "text_config": {
        **_TEXT,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "model_type": "clip_text_model",
        "projection_dim": 8,
    },
    "torch_dtype": "float32",
    "transformers_version": None,
    "vision_config": {
        "dropout": 0.0,
        "hidden_act": "quick_gelu",
        "hidden_size": 16,
        "image_size": 16,
        "intermediate_size": 32,
        "layer_norm_eps": 1e-05,
        "model_type": "clip_vision_model",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "patch_size": 4,
        "projection_dim": 8,
    },
}
# The old form: sizes as numbers, no word of rescaling.
CLIP_PROCESSOR = {
    "crop_size": 16,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "feature_extractor_type": "CLIPFeatureExtractor",
    "image_mean": CLIP_MEAN,
    "image_std": CLIP_STD,
    "resample": 3,
    "size": 16,
}


def _position_ids(stored: Tensors) -> Tensors:
    """Buffers that released CLIP checkpoints hold."""
    return {
        f"{tower}.embeddings.position_ids": torch.arange(
            len(stored[f"{tower}.embeddings.position_embedding.weight"])
        )[None]
        for tower in ("vision_model", "text_model")
    }


CHECKPOINTS = (
    Checkpoint("siglip", SiglipModel, SIGLIP),
    Checkpoint("siglip2", SiglipModel, SIGLIP2),
    Checkpoint("siglip2_naflex", Siglip2Model, NAFLEX),
    Checkpoint("clip", CLIPModel, CLIP, extra=_position_ids),
)
PROCESSORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "siglip": (SiglipImageProcessorPil, SIGLIP_PROCESSOR),
    "siglip2": (SiglipImageProcessorPil, SIGLIP2_PROCESSOR),
    "siglip2_naflex": (Siglip2ImageProcessorPil, NAFLEX_PROCESSOR),
    "clip": (CLIPImageProcessorPil, CLIP_PROCESSOR),
}
_LAYER = "vision_model.encoder.layers.0."
_COMMON = (
    "vision_model.embeddings.patch_embedding.weight",
    "vision_model.embeddings.position_embedding.weight",
    f"{_LAYER}layer_norm1.weight",
    *(f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv"),
)
#: Gradients that are stored, by the names of the released weights.
GRADIENTS: dict[str, tuple[str, ...]] = {
    "siglip": (*_COMMON, "vision_model.post_layernorm.bias"),
    "clip": ("vision_model.embeddings.class_embedding", "vision_model.pre_layrnorm.weight"),
}


def make(checkpoint: Checkpoint) -> None:
    """Write one image encoder's folder."""
    model = checkpoint.build()
    checkpoint.save(model)
    kind, config = PROCESSORS[checkpoint.name]
    write_json(checkpoint.folder / "preprocessor_config.json", config)
    processor = kind.from_pretrained(checkpoint.folder)
    inputs = dict(processor([image(name) for name in IMAGES], return_tensors="pt"))
    write_arrays(checkpoint.folder / "inputs.npz", inputs)
    write_arrays(checkpoint.folder / "expected.npz", _expected(checkpoint, model, inputs))


def _expected(checkpoint: Checkpoint, model: Any, inputs: Tensors) -> dict[str, Any]:
    arrays = _states(model, inputs)
    for row in range(len(IMAGES)):
        _check_alone(model, inputs, row, arrays)
    if checkpoint.name not in GRADIENTS:
        return arrays
    weights = probe(arrays["hidden"])
    loss = (arrays["hidden"] * weights).sum()
    gradients = checkpoint.gradients(model, loss, GRADIENTS[checkpoint.name])
    return {**arrays, "probe": weights, "loss": loss, **gradients}


def _states(model: Any, inputs: Tensors) -> Tensors:
    """States of all images; NaFlex's zero at padding."""
    found = model.vision_model(**inputs, output_hidden_states=True)
    first, _, last = found.hidden_states
    states = {"embeddings": first, "layer_1": last, "hidden": found.last_hidden_state}
    mask = inputs.get("pixel_attention_mask", torch.ones(states["hidden"].shape[:2]))
    return {name: state * mask[..., None] for name, state in states.items()}


def _check_alone(model: Any, inputs: Tensors, row: int, batch: Tensors) -> None:
    """An image gives what it gives without others and without padding."""
    alone = {name: values[row : row + 1] for name, values in inputs.items()}
    if "spatial_shapes" in alone:
        count = int(alone["spatial_shapes"].prod())
        for name in ("pixel_values", "pixel_attention_mask"):
            alone[name] = alone[name][:, :count]
    for name, state in _states(model, alone).items():
        torch.testing.assert_close(batch[name][row, : state.shape[1]], state[0], **CLOSE)


#: The token that ends a text, whose output is that of the text; it has no other place in texts.
END = 261
#: Side of an image and of a patch, in pixels.
SIDE, PATCH = 48, 12
_WIDTHS = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "projection_dim": 8,
    "layer_norm_eps": 1e-5,
}
# The text's activation is that of GPT; OpenAI's models have quick_gelu in both.
PAIRS_CONFIG = {
    "architectures": ["CLIPModel"],
    "logit_scale_init_value": float(np.log(1 / 0.07)),
    "model_type": "clip",
    "projection_dim": 8,
    "text_config": {
        **_WIDTHS,
        "bos_token_id": 259,
        "eos_token_id": END,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 256,
        "model_type": "clip_text_model",
        "pad_token_id": 0,
        "vocab_size": 320,
    },
    "vision_config": {
        **_WIDTHS,
        "hidden_act": "quick_gelu",
        "image_size": SIDE,
        "model_type": "clip_vision_model",
        "patch_size": PATCH,
    },
}
#: CLIP whole: the loss of a step of images and captions, and its gradients by all weights.
PAIRS = Checkpoint("pairs", CLIPModel, PAIRS_CONFIG)


def make_pairs() -> None:
    """Write the folder of CLIP whole."""
    model = PAIRS.build()
    PAIRS.save(model)
    with tempfile.TemporaryDirectory() as folder:
        samples = pairs.inputs(pairs.experiment(Path(folder)))
    found = model(**_pairs(samples), return_loss=True)
    names = tuple(PAIRS.released(model, model.state_dict()))
    gradients = PAIRS.gradients(model, found.loss, names)
    write_arrays(PAIRS.folder / "expected.npz", {"loss": found.loss, **gradients})


def _pairs(samples: list[tuple[np.ndarray, np.ndarray]]) -> Tensors:
    """Texts padded on the right, and pixels of patches row by row."""
    longest = max(len(tokens) for tokens, _ in samples)
    ids, mask = (np.zeros((len(samples), longest), np.int64) for _ in range(2))
    for row, (tokens, _) in enumerate(samples):
        if np.flatnonzero(tokens == END).tolist() != [len(tokens) - 1]:
            raise ValueError(f"text {row} does not end with its one token {END}")
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    count = SIDE // PATCH
    patches = np.stack([own for _, own in samples])
    pixels = patches.reshape(-1, count, count, PATCH, PATCH, 3).transpose(0, 5, 1, 3, 2, 4)
    return {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(mask),
        "pixel_values": torch.from_numpy(pixels.reshape(-1, 3, SIDE, SIDE).copy()),
    }
