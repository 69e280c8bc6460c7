"""Released configurations of encoders as typed ones, and back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.models.config.model import (
    Activation,
    ClipConfig,
    ImageEncoderConfig,
    SiglipConfig,
    WhisperConfig,
)
from mllm_jax.models.pretrained.files import PretrainedError, listed

#: `model_type` of vision towers, with the class of the public implementation.
VISION: Mapping[str, str] = MappingProxyType(
    {
        "siglip_vision_model": "SiglipVisionModel",
        "siglip2_vision_model": "Siglip2VisionModel",
        "clip_vision_model": "CLIPVisionModel",
    }
)
#: Activations under their released names.
ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "quick_gelu": "quick_gelu"}
)
_SIZES = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
}
_SIGLIP = {**_SIZES, "patch_size": 16, "layer_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh"}
#: Defaults that configurations may leave out, by their class.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "siglip_vision_model": {**_SIGLIP, "image_size": 224},
        "siglip2_vision_model": {**_SIGLIP, "num_patches": 256},
        "clip_vision_model": {
            **_SIZES,
            "image_size": 224,
            "patch_size": 32,
            "layer_norm_eps": 1e-5,
            "hidden_act": "quick_gelu",
        },
        "whisper": {"activation_function": "gelu", "scale_embedding": False},
        "qwen2_audio_encoder": {
            "d_model": 1280,
            "encoder_ffn_dim": 5120,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "num_mel_bins": 128,
            "max_source_positions": 1500,
            "activation_function": "gelu",
            "scale_embedding": False,
        },
    }
)
_TRANSFORMER = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "channels": "num_channels",
    "norm_eps": "layer_norm_eps",
}
_WHISPER = {
    "layers": "encoder_layers",
    "d_model": "d_model",
    "heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "mels": "num_mel_bins",
    "max_positions": "max_source_positions",
}


def siglip_config(values: Mapping[str, Any]) -> SiglipConfig:
    """The vision tower of a released SigLIP or SigLIP 2, or a configuration of that tower alone.

    Raises:
        PretrainedError: the configuration is of another kind, or has an unsupported value.
    """
    own = _own(values, "vision_config", ("siglip_vision_model", "siglip2_vision_model"))
    _check_value(own, "hidden_act", "gelu_pytorch_tanh")
    naflex = own["model_type"] == "siglip2_vision_model"
    return SiglipConfig.model_validate(
        {**_of_patches(own), "family": "siglip", "antialias": naflex}
    )


def clip_config(values: Mapping[str, Any]) -> ClipConfig:
    """The vision tower of a released CLIP, or a configuration of that tower alone.

    Raises:
        PretrainedError: as in `siglip_config`.
    """
    own = _own(_as_one(values), "vision_config", ("clip_vision_model",))
    activation = activation_of(own["hidden_act"], "hidden_act")
    return ClipConfig.model_validate(
        {**_of_patches(own), "family": "clip", "activation": activation}
    )


def whisper_config(values: Mapping[str, Any]) -> WhisperConfig:
    """The encoder of a released Whisper, or of Qwen2-Audio.

    Raises:
        PretrainedError: the configuration is of another kind, lacks a key, or has a wrong value.
    """
    own = _own(values, "audio_config", ("whisper", "qwen2_audio_encoder"))
    _check_value(own, "activation_function", "gelu")
    _check_value(own, "scale_embedding", False)
    missing = [key for key in _WHISPER.values() if own.get(key) is None]
    if missing:
        raise PretrainedError(f"the configuration of {own['model_type']} lacks {listed(missing)}")
    if own.get("num_hidden_layers") is not None:  # another name of the same
        _check_value(own, "num_hidden_layers", own["encoder_layers"])
    return WhisperConfig.model_validate(
        {"family": "whisper", **{ours: own[theirs] for ours, theirs in _WHISPER.items()}}
    )


def activation_of(released: Any, key: str) -> Activation:
    """An activation under its name here.

    Raises:
        PretrainedError: the activation is not supported; the message names the released `key`.
    """
    if released not in ACTIVATIONS:
        raise PretrainedError(
            f"{key}: {released!r} is not supported; valid: {listed(list(ACTIVATIONS))}"
        )
    return ACTIVATIONS[released]


def released_activation(activation: Activation) -> str:
    """The inverse of `activation_of`."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def _as_one(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Old releases of CLIP have a tower twice; all of `vision_config_dict` counts."""
    whole = values.get("vision_config_dict")
    if not whole:
        return values
    tower = {**(values.get("vision_config") or {}), **_DEFAULTS["clip_vision_model"], **whole}
    return {**values, "vision_config": tower}


def _own(values: Mapping[str, Any], key: str, valid: tuple[str, ...]) -> dict[str, Any]:
    """The part under `key`, or `values` if there is none, with the defaults of its class.

    A part that does not say its kind is of the whole's, or else of the first one.
    """
    part = values.get(key)
    own = {"model_type": _part_of(values, valid), **part} if part else values
    kind = own.get("model_type")
    if kind not in valid:
        where = f"{key}.model_type" if part else f"no {key} is there, and model_type"
        raise PretrainedError(f"{where} {kind!r} is no such encoder; valid: {listed([*valid])}")
    return {**_DEFAULTS[kind], **own}


def _part_of(values: Mapping[str, Any], valid: tuple[str, ...]) -> str:
    kind = f"{values.get('model_type')}_vision_model"
    return kind if kind in valid else valid[0]


def _check_value(values: Mapping[str, Any], key: str, valid: Any) -> None:
    if values[key] != valid:
        raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid!r}")


def _of_patches(own: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of all vision transformers; a grid of fixed size is square."""
    patch = _whole(own, "patch_size")
    if "num_patches" in own:
        count = _whole(own, "num_patches")
        side = round(count**0.5)
        if side**2 != count:
            raise PretrainedError(f"num_patches: {count} is not supported; valid: a square number")
    else:
        side = _whole(own, "image_size") // patch
    shared = {ours: own[theirs] for ours, theirs in _TRANSFORMER.items()}
    return {**shared, "patch": (patch, patch), "grid": (side, side)}


def _whole(own: Mapping[str, Any], key: str) -> int:
    if not isinstance(own[key], int):
        raise PretrainedError(f"{key}: {own[key]!r} is not supported; valid: one number")
    return own[key]


# ---- the inverses --------------------------------------------------------------------------------


def released_siglip(config: SiglipConfig) -> dict[str, Any]:
    """The inverse of `siglip_config`: a vision tower alone, without pooling head.

    A released tower has a last norm; of one without, the features come before that norm. How
    images become tiles is the processor's to say.

    Raises:
        PretrainedError: patches or positions that no released tower has.
    """
    kind = "siglip2_vision_model" if config.antialias else "siglip_vision_model"
    head = {"hidden_act": "gelu_pytorch_tanh", "vision_use_head": False}
    return {**_released_patches(config, kind), **head}


def released_clip(config: ClipConfig) -> dict[str, Any]:
    """The inverse of `clip_config`: a vision tower alone.

    Raises:
        PretrainedError: patches or positions that no released tower has.
    """
    activation = released_activation(config.activation)
    return {**_released_patches(config, "clip_vision_model"), "hidden_act": activation}


def released_whisper(config: WhisperConfig, kind: str = "whisper") -> dict[str, Any]:
    """The inverse of `whisper_config`; of a Whisper, its decoder's keys are those of its class.

    Args:
        config: configuration of the encoder.
        kind: `whisper`, or `qwen2_audio_encoder`.

    Raises:
        PretrainedError: strides or positions that no released encoder has.
    """
    if config.strides != (1, 2) or config.max_positions is None:
        raise PretrainedError(
            f"an encoder with strides {list(config.strides)} and max_positions "
            f"{config.max_positions} has no released format; valid: [1, 2] and a number"
        )
    _check_head_dim(config)
    whole = {"architectures": ["WhisperForConditionalGeneration"]} if kind == "whisper" else {}
    return {
        **whole,
        "model_type": kind,
        "activation_function": "gelu",
        "scale_embedding": False,
        **{theirs: getattr(config, ours) for ours, theirs in _WHISPER.items()},
    }


def _released_patches(config: ImageEncoderConfig, kind: str) -> dict[str, Any]:
    patch, grid = config.patch, config.grid
    if patch[0] != patch[1] or grid[0] != grid[1]:
        raise PretrainedError(
            f"patches of {list(patch)} pixels on a grid of {list(grid)} have no released format; "
            "valid: squares"
        )
    _check_head_dim(config)
    area = (
        {"num_patches": grid[0] ** 2} if "siglip2" in kind else {"image_size": patch[0] * grid[0]}
    )
    return {
        "architectures": [VISION[kind]],
        "model_type": kind,
        "patch_size": patch[0],
        **area,
        **{theirs: getattr(config, ours) for ours, theirs in _TRANSFORMER.items()},
    }


def _check_head_dim(config: ImageEncoderConfig | WhisperConfig) -> None:
    if config.heads * config.head_dim != config.d_model:
        raise PretrainedError(
            f"{config.heads} heads of {config.head_dim} in a width of {config.d_model} have no "
            f"released format; valid: head_dim {config.d_model / config.heads:g}"
        )
