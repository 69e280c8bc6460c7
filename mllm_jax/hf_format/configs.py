"""Released `config.json` files: reading them, and values that several families share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.layers.config.connector import Activation
from mllm_jax.layers.config.encoder import EncoderConfig

CONFIG = "config.json"
#: That of a folder of adapters in PEFT's format.
ADAPTER_CONFIG = "adapter_config.json"

#: Activations under their released names.
ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "quick_gelu": "quick_gelu"}
)


def read_config(folder: Path) -> dict[str, Any]:
    """Read the released configuration of a folder.

    Raises:
        PretrainedError: the file does not exist, or is no JSON object.
    """
    path = folder / CONFIG
    if not path.exists() and (folder / ADAPTER_CONFIG).exists():
        raise PretrainedError(
            f"{folder} has adapters and no model; valid: the folder of a whole release, such as "
            "`export` writes without --adapters, or a run with train.lora.begin_with"
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PretrainedError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise PretrainedError(f"{path} holds a {type(values).__name__}, not an object")
    return values


def merge_aliases(values: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Put `values` under the keys that are read here.

    transformers renames keys between its versions, and reads the old and the new name.

    Args:
        values: a released configuration.
        aliases: other names of keys, with the names that are read here.

    Raises:
        PretrainedError: two names of one key have different values.
    """
    merged = {key: value for key, value in values.items() if key not in aliases}
    for alias, key in aliases.items():
        value = values.get(alias)
        if value is None:
            continue
        if merged.get(key) not in (None, value):
            raise PretrainedError(
                f"{alias}: {value!r:.80} and {key}: {merged[key]!r:.80} are two names of one "
                "setting; valid: one of them, or both with the same value"
            )
        merged[key] = value
    return merged


def encoder_values(
    values: Mapping[str, Any],
    key: str,
    defaults: Mapping[str, Mapping[str, Any]],
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The values of an encoder: those under `key`, or all if there are none, with their defaults.

    An encoder without a `model_type` has that of the model around it, or else the first valid one.

    Args:
        values: configuration of an encoder, or of a model that has one.
        key: key of the encoder's configuration in that of a model.
        defaults: `model_type` of each class that is read here to the defaults of its keys.
        aliases: other names of keys, see `merge_aliases`.

    Raises:
        PretrainedError: the configuration is of another class, or has two values for one key.
    """
    valid = (*defaults,)
    nested = values.get(key)
    encoder = {"model_type": _encoder_kind(values, valid), **nested} if nested else values
    kind = encoder.get("model_type")
    if kind not in valid:
        where = f"{key}.model_type" if nested else f"no {key} is there, and model_type"
        raise PretrainedError(f"{where} {kind!r} is no such encoder; valid: {list_names([*valid])}")
    return {**defaults[kind], **merge_aliases(encoder, aliases)}


def _encoder_kind(values: Mapping[str, Any], valid: tuple[str, ...]) -> str:
    kind = f"{values.get('model_type')}_vision_model"
    return kind if kind in valid else valid[0]


def check_value(values: Mapping[str, Any], key: str, valid: Any) -> None:
    """Check that a key has the only value that is computed here.

    Raises:
        PretrainedError: the key has another value.
    """
    if values[key] != valid:
        raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid!r}")


def check_head_dim(config: EncoderConfig) -> None:
    """Check that the heads fill the width, as in every released encoder.

    Raises:
        PretrainedError: the heads do not fill the width.
    """
    if config.heads * config.head_dim != config.d_model:
        raise PretrainedError(
            f"{config.heads} heads of {config.head_dim} in a width of {config.d_model} have no "
            f"released format; valid: head_dim {config.d_model / config.heads:g}"
        )


def read_activation(released: Any, key: str) -> Activation:
    """The activation that has a released name.

    Raises:
        PretrainedError: the activation is not supported; the message names the released `key`.
    """
    if released not in ACTIVATIONS:
        raise PretrainedError(
            f"{key}: {released!r} is not supported; valid: {list_names(list(ACTIVATIONS))}"
        )
    return ACTIVATIONS[released]


def write_activation(activation: Activation) -> str:
    """The released name of an activation."""
    return next(name for name, value in ACTIVATIONS.items() if value == activation)
