"""CLIP's release format: its configuration both ways, and where its parameters come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.hf_format.configs import encoder_values, read_activation, write_activation
from mllm_jax.hf_format.release_format import ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule, encoder_layer_rules, norm_rules
from mllm_jax.hf_format.transforms import identity_transform, patch_kernel
from mllm_jax.hf_format.vision_rules import (
    NORMS,
    SIZES,
    read_vision_keys,
    vision_format,
    write_vision_keys,
)

_KIND = "clip_vision_model"
#: Defaults that configurations may leave out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        **SIZES,
        "image_size": 224,
        "patch_size": 32,
        "layer_norm_eps": 1e-5,
        "hidden_act": "quick_gelu",
    }
)


def read_clip(values: Mapping[str, Any]) -> ClipConfig:
    """The vision tower of a released CLIP, or a configuration of that tower alone.

    Raises:
        PretrainedError: as in `read_siglip`.
    """
    encoder = encoder_values(_merge_towers(values), "vision_config", {_KIND: _DEFAULTS})
    activation = read_activation(encoder["hidden_act"], "hidden_act")
    return ClipConfig.model_validate(
        {**read_vision_keys(encoder), "family": "clip", "activation": activation}
    )


def _merge_towers(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge the two configurations of a tower in old releases: `vision_config_dict` counts."""
    complete = values.get("vision_config_dict")
    if not complete:
        return values
    tower = {**(values.get("vision_config") or {}), **_DEFAULTS, **complete}
    return {**values, "vision_config": tower}


def write_clip(config: ClipConfig) -> dict[str, Any]:
    """The inverse of `read_clip`: a vision tower alone.

    Raises:
        PretrainedError: patches or positions that no released tower has.
    """
    activation = write_activation(config.activation)
    return {**write_vision_keys(config, _KIND, "CLIPVisionModel"), "hidden_act": activation}


def clip_rules(config: ClipConfig, prefix: str = "vision_model.") -> list[TensorRule]:
    """Rules of CLIP's vision tower, without the norm after its layers.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width, (height, breadth) = (config.d_model,), config.patch
    stem, entries = f"{prefix}embeddings.", 1 + config.grid[0] * config.grid[1]
    kernel = patch_kernel(height, breadth, config.channels, config.d_model)
    return [
        TensorRule("embeddings.patch_embedding.kernel", f"{stem}patch_embedding.weight", kernel),
        TensorRule(
            "embeddings.class_embedding", f"{stem}class_embedding", identity_transform(width)
        ),
        TensorRule(
            "embeddings.position_embedding",
            f"{stem}position_embedding.weight",
            identity_transform((entries, config.d_model)),
        ),
        *norm_rules("embeddings.pre_layrnorm", f"{prefix}pre_layrnorm", width),
        *encoder_layer_rules(config, f"{prefix}encoder.layers.{{layer}}.", NORMS),
    ]


def _release_format(name: str) -> ReleaseFormat:
    functions = read_clip, clip_rules, write_clip
    return vision_format(
        name, ClipConfig, *functions, unused_pattern=r"vision_model\.post_layernorm\..*"
    )


FORMATS = tuple(map(_release_format, ("clip", _KIND)))
