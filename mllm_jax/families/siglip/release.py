"""Released forms of SigLIP and SigLIP 2: configurations both ways, and names of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.hf_format.configs import check_value, encoder_values
from mllm_jax.hf_format.release_format import ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule, encoder_layer_rules, norm_rules
from mllm_jax.hf_format.transforms import dense_kernel, identity_transform, patch_kernel
from mllm_jax.hf_format.vision_rules import (
    NORMS,
    SIZES,
    read_vision_keys,
    vision_format,
    write_vision_keys,
)

#: `model_type` of a tower, with the class in transformers.
_CLASSES = {
    "siglip_vision_model": "SiglipVisionModel",
    "siglip2_vision_model": "Siglip2VisionModel",
}
_ACTIVATION = "gelu_pytorch_tanh"
_SHARED = {**SIZES, "patch_size": 16, "layer_norm_eps": 1e-6, "hidden_act": _ACTIVATION}
#: Defaults that configurations may leave out, by their class.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "siglip_vision_model": {**_SHARED, "image_size": 224},
        "siglip2_vision_model": {**_SHARED, "num_patches": 256},
    }
)


def read_siglip(values: Mapping[str, Any]) -> SiglipConfig:
    """The vision tower of a released SigLIP or SigLIP 2, or a configuration of that tower alone.

    Raises:
        PretrainedError: the configuration is of another kind, or has an unsupported value.
    """
    encoder = encoder_values(values, "vision_config", _DEFAULTS)
    check_value(encoder, "hidden_act", _ACTIVATION)
    naflex = encoder["model_type"] == "siglip2_vision_model"
    return SiglipConfig.model_validate(
        {**read_vision_keys(encoder), "family": "siglip", "antialias": naflex}
    )


def write_siglip(config: SiglipConfig) -> dict[str, Any]:
    """The inverse of `read_siglip`: a vision tower alone, without pooling head.

    A released tower has a last norm; of one without, the features come before that norm. How
    images become tiles is the processor's to say.

    Raises:
        PretrainedError: patches or positions that no released tower has.
    """
    kind = "siglip2_vision_model" if config.antialias else "siglip_vision_model"
    head = {"hidden_act": _ACTIVATION, "vision_use_head": False}
    return {**write_vision_keys(config, kind, _CLASSES[kind]), **head}


def siglip_rules(config: SiglipConfig, prefix: str = "vision_model.") -> list[TensorRule]:
    """Rules of SigLIP's and SigLIP 2's vision towers, without the pooling head.

    The patches of NaFlex, which alone antialiases positions, are a linear layer.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width, (height, breadth) = (config.d_model,), config.patch
    stem, entries = f"{prefix}embeddings.", config.grid[0] * config.grid[1]
    kernel = patch_kernel(height, breadth, config.channels, config.d_model)
    if config.antialias:
        kernel = dense_kernel((config.features,), width)
    return [
        TensorRule("embeddings.patch_embedding.kernel", f"{stem}patch_embedding.weight", kernel),
        TensorRule(
            "embeddings.patch_embedding.bias",
            f"{stem}patch_embedding.bias",
            identity_transform(width),
        ),
        TensorRule(
            "embeddings.position_embedding",
            f"{stem}position_embedding.weight",
            identity_transform((entries, config.d_model)),
        ),
        *(norm_rules("norm", f"{prefix}post_layernorm", width) if config.final_norm else ()),
        *encoder_layer_rules(config, f"{prefix}encoder.layers.{{layer}}.", NORMS),
    ]


def _release_format(name: str) -> ReleaseFormat:
    return vision_format(
        name, SiglipConfig, read_siglip, siglip_rules, write_siglip, r"vision_model\.head\..*"
    )


FORMATS = tuple(
    map(_release_format, ("siglip", "siglip_vision_model", "siglip2", "siglip2_vision_model"))
)
