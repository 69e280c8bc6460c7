"""Released `config.json` files as typed configurations of the model, and back.

A released configuration says more than ours does; what would change the result is checked, and
refused where this framework does something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mllm_jax.models.config import DecoderConfig, RopeScaling, SiglipConfig, WhisperConfig
from mllm_jax.models.pretrained.files import PretrainedError

CONFIG = "config.json"

#: `model_type` of decoders, with the family and the class of the public implementation.
DECODERS: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
#: Of a decoder: what is released under a name of its own.
_SAME = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "vocab": "vocab_size",
    "norm_eps": "rms_norm_eps",
    "max_positions": "max_position_embeddings",
}
#: What released configurations say of things that decoders here do in one way only.
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "mlp_bias": (False, None),
    "use_sliding_window": (False, None),
    "attention_dropout": (0, None),
    "pretraining_tp": (1, None),
}
_ROPE = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_positions": "original_max_position_embeddings",
}


def read_config(folder: Path) -> dict[str, Any]:
    """The released configuration of a folder.

    Raises:
        PretrainedError: it is not there, or no JSON object.
    """
    path = folder / CONFIG
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PretrainedError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise PretrainedError(f"{path} holds a {type(values).__name__}, not an object")
    return values


def decoder_config(values: Mapping[str, Any]) -> DecoderConfig:
    """The decoder of a released configuration, or of its `text_config`.

    Raises:
        PretrainedError: a key is missing, or says what decoders here do not do.
    """
    family = values.get("model_type")
    if family not in DECODERS:
        raise PretrainedError(f"model_type {family!r} is no decoder's; valid: {_listed(DECODERS)}")
    missing = [key for key in _SAME.values() if values.get(key) is None]
    if missing:
        raise PretrainedError(f"the configuration of {family} lacks {_listed(missing)}")
    _check_fixed(values)
    return DecoderConfig(
        family=family,
        kv_heads=values.get("num_key_value_heads"),
        head_dim=values.get("head_dim"),
        tie_embeddings=values.get("tie_word_embeddings", False),
        **_rope(values),
        **{ours: values[theirs] for ours, theirs in _SAME.items()},
    )


def _check_fixed(values: Mapping[str, Any]) -> None:
    fixed = dict(_FIXED)
    if values["model_type"] != "qwen2":  # which has its biases whatever it says
        fixed["attention_bias"] = (False, None)
    for key, valid in fixed.items():
        if values.get(key, valid[0]) not in valid:
            raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid[0]!r}")


def _rope(values: Mapping[str, Any]) -> dict[str, Any]:
    """Base and scaling; newer configurations have both in `rope_parameters`."""
    given = values.get("rope_parameters") or values.get("rope_scaling") or {}
    theta = given.get("rope_theta", values.get("rope_theta", 10_000.0))
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return {"rope_theta": theta, "rope_scaling": None}
    if kind != "llama3":
        raise PretrainedError(f"rope_type {kind!r} is not supported; valid: 'default', 'llama3'")
    try:
        scaling = RopeScaling(**{ours: given[theirs] for ours, theirs in _ROPE.items()})
    except KeyError as error:
        raise PretrainedError(f"the rope of type llama3 lacks {error}") from error
    return {"rope_theta": theta, "rope_scaling": scaling}


#: What encoders' configurations leave out where it is the default of their class.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "siglip": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "layer_norm_eps": 1e-6,
        "hidden_act": "gelu_pytorch_tanh",
    },
    "whisper": {"activation_function": "gelu", "scale_embedding": False},
}
_WHISPER = {
    "layers": "encoder_layers",
    "d_model": "d_model",
    "heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "mels": "num_mel_bins",
}


def siglip_config(values: Mapping[str, Any]) -> SiglipConfig:
    """The vision tower of a released SigLIP, or a configuration of that tower alone.

    Raises:
        PretrainedError: it is of another kind, or says what is not done here.
    """
    own = {**_DEFAULTS["siglip"], **values.get("vision_config", values)}
    _check_kind(own, ("siglip_vision_model",))
    _check_value(own, "hidden_act", "gelu_pytorch_tanh")
    patch, side = own["patch_size"], own["image_size"] // own["patch_size"]
    return SiglipConfig.model_validate(
        {
            "family": "siglip",
            "layers": own["num_hidden_layers"],
            "d_model": own["hidden_size"],
            "heads": own["num_attention_heads"],
            "d_ff": own["intermediate_size"],
            "patch": (patch, patch),
            "channels": own["num_channels"],
            "grid": (side, side),
            "norm_eps": own["layer_norm_eps"],
        }
    )


def whisper_config(values: Mapping[str, Any]) -> WhisperConfig:
    """The encoder of a released Whisper.

    Raises:
        PretrainedError: it is of another kind, lacks a key, or says what is not done here.
    """
    own = {**_DEFAULTS["whisper"], **values}
    _check_kind(own, ("whisper",))
    _check_value(own, "activation_function", "gelu")
    _check_value(own, "scale_embedding", False)
    missing = [key for key in _WHISPER.values() if own.get(key) is None]
    if missing:
        raise PretrainedError(f"the configuration of whisper lacks {_listed(missing)}")
    return WhisperConfig.model_validate(
        {"family": "whisper", **{ours: own[theirs] for ours, theirs in _WHISPER.items()}}
    )


def _check_kind(values: Mapping[str, Any], valid: tuple[str, ...]) -> None:
    if (kind := values.get("model_type")) not in valid:
        raise PretrainedError(f"model_type {kind!r} is not the encoder's; valid: {_listed(valid)}")


def _check_value(values: Mapping[str, Any], key: str, valid: Any) -> None:
    if values[key] != valid:
        raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid!r}")


def released_decoder(config: DecoderConfig) -> dict[str, Any]:
    """The inverse of `decoder_config`, as the public implementation reads it.

    Raises:
        PretrainedError: nothing released is of this family.
    """
    if config.family not in DECODERS:
        raise PretrainedError(
            f"model.decoder.family: {config.family} has no released format; valid: "
            f"{_listed(DECODERS)}"
        )
    values: dict[str, Any] = {
        "architectures": [DECODERS[config.family]],
        "model_type": config.family,
        **{theirs: getattr(config, ours) for ours, theirs in _SAME.items()},
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_act": "silu",
        "attention_bias": config.family == "qwen2",
    }
    if config.rope_scaling is not None:
        own = {theirs: getattr(config.rope_scaling, ours) for ours, theirs in _ROPE.items()}
        values["rope_scaling"] = {"rope_type": "llama3", **own}
    return values


def _listed(names: Any) -> str:
    return ", ".join(map(str, names))
