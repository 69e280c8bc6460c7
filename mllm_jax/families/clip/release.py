"""CLIP's released form: its configuration both ways, and where its parameters come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.hf_format.configs import activation_of, own_part, released_activation
from mllm_jax.hf_format.family import Family
from mllm_jax.hf_format.forms import patches, same
from mllm_jax.hf_format.rules import Rule, encoder_layers, norm
from mllm_jax.hf_format.vision_rules import (
    NORMS,
    SIZES,
    released_tower,
    vision_alone,
    vision_keys,
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


def clip_config(values: Mapping[str, Any]) -> ClipConfig:
    """The vision tower of a released CLIP, or a configuration of that tower alone.

    Raises:
        PretrainedError: as in `siglip_config`.
    """
    own = own_part(_as_one(values), "vision_config", {_KIND: _DEFAULTS})
    activation = activation_of(own["hidden_act"], "hidden_act")
    return ClipConfig.model_validate(
        {**vision_keys(own), "family": "clip", "activation": activation}
    )


def _as_one(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Old releases of CLIP have a tower twice; all of `vision_config_dict` counts."""
    whole = values.get("vision_config_dict")
    if not whole:
        return values
    tower = {**(values.get("vision_config") or {}), **_DEFAULTS, **whole}
    return {**values, "vision_config": tower}


def released_clip(config: ClipConfig) -> dict[str, Any]:
    """The inverse of `clip_config`: a vision tower alone.

    Raises:
        PretrainedError: patches or positions that no released tower has.
    """
    activation = released_activation(config.activation)
    return {**released_tower(config, _KIND, "CLIPVisionModel"), "hidden_act": activation}


def clip_rules(config: ClipConfig, prefix: str = "vision_model.") -> list[Rule]:
    """Rules of CLIP's vision tower, without the norm after its layers.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width, (height, breadth) = (config.d_model,), config.patch
    stem, entries = f"{prefix}embeddings.", 1 + config.grid[0] * config.grid[1]
    kernel = patches(height, breadth, config.channels, config.d_model)
    return [
        Rule("embeddings.patch_embedding.kernel", f"{stem}patch_embedding.weight", kernel),
        Rule("embeddings.class_embedding", f"{stem}class_embedding", same(width)),
        Rule(
            "embeddings.position_embedding",
            f"{stem}position_embedding.weight",
            same((entries, config.d_model)),
        ),
        *norm("embeddings.pre_layrnorm", f"{prefix}pre_layrnorm", width),
        *encoder_layers(config, f"{prefix}encoder.layers.{{layer}}.", NORMS),
    ]


def _alone(name: str) -> Family:
    functions = clip_config, clip_rules, released_clip
    return vision_alone(name, ClipConfig, *functions, unused=r"vision_model\.post_layernorm\..*")


CLIP = tuple(map(_alone, ("clip", _KIND)))
