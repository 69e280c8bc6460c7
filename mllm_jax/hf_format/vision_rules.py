"""What released vision towers share: keys of configurations, and the format of a tower alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.configs import check_head_dim
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import (
    ReleaseFormat,
    Values,
    encoder_format,
    identity_norm,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.encoder import ImageEncoderConfig

#: Defaults of the keys that say how large a tower is, the same in all classes.
SIZES: Mapping[str, int] = MappingProxyType(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_channels": 3,
    }
)
_NAMES = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "channels": "num_channels",
    "norm_eps": "layer_norm_eps",
}
#: Norms of a layer.
NORMS = ("layer_norm1", "layer_norm2")
_NORM = "vision_model.post_layernorm"
#: Tensors of the towers of texts.
_TEXT = (r"text_model\..*", r"logit_(scale|bias)", r"(visual|text)_projection\..*")
_BARE = ((r"^(embeddings|encoder|pre_layrnorm|post_layernorm|head)\.", r"vision_model.\1."),)


def vision_format(
    name: str,
    kind: type[Any],
    read: Callable[[Values], ImageEncoderConfig],
    rules: Callable[[Any], list[TensorRule]],
    write: Callable[[Any], dict[str, Any]],
    unused_pattern: str,
) -> ReleaseFormat:
    """The format of a vision tower alone, as `encoder_format`.

    Every released tower has a norm after its layers, also where no parameter comes from it.

    Args:
        name, kind, read, rules, write: as of `encoder_format`.
        unused_pattern: pattern of the tower's tensors that no parameter comes from.
    """

    def filler_tensors(config: Any) -> Mapping[str, NDArray[np.float32]]:
        used = any(rule.released.startswith(_NORM) for rule in rules(config))
        return {} if used else identity_norm(_NORM, config)

    functions = read, rules, write
    unused = (*_TEXT, unused_pattern)
    return encoder_format(name, "vision", kind, *functions, unused, _BARE, filler_tensors)


def read_vision_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of all vision transformers; a grid of fixed size is square.

    Raises:
        PretrainedError: sizes that are no whole numbers, or no square.
    """
    patch = _read_integer(values, "patch_size")
    if "num_patches" in values:
        count = _read_integer(values, "num_patches")
        side = round(count**0.5)
        if side**2 != count:
            raise PretrainedError(f"num_patches: {count} is not supported; valid: a square number")
    else:
        side = _read_integer(values, "image_size") // patch
    shared = {key: values[released] for key, released in _NAMES.items()}
    return {**shared, "patch": (patch, patch), "grid": (side, side)}


def _read_integer(values: Mapping[str, Any], key: str) -> int:
    if not isinstance(values[key], int):
        raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: one number")
    return values[key]


def write_vision_keys(config: ImageEncoderConfig, kind: str, architecture: str) -> dict[str, Any]:
    """The inverse of `read_vision_keys`, for `model_type` `kind` and its class in transformers.

    Raises:
        PretrainedError: patches, positions or heads that no released tower has.
    """
    patch, grid = config.patch, config.grid
    if patch[0] != patch[1] or grid[0] != grid[1]:
        raise PretrainedError(
            f"patches of {list(patch)} pixels on a grid of {list(grid)} have no released format; "
            "valid: squares"
        )
    check_head_dim(config)
    area = (
        {"num_patches": grid[0] ** 2} if "siglip2" in kind else {"image_size": patch[0] * grid[0]}
    )
    return {
        "architectures": [architecture],
        "model_type": kind,
        "patch_size": patch[0],
        **area,
        **{released: getattr(config, key) for key, released in _NAMES.items()},
    }
