"""The functions by which a module of a family computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from data.batch import ModuleRows
from mllm_jax.families import registry
from mllm_jax.families.family import load_reference
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.modules import LayerContext
from mllm_jax.layers.parameters import ModuleBlocks


@dataclass(frozen=True)
class ModuleFunctions:
    """The computation of a module; its configuration tells its cost.

    Attributes:
        build_blocks: makes the blocks from a configuration and an attention backend: those that
            embed, `layers` and perhaps `norm`, without connectors. A layer maps `(x, context,
            view)` to activations like `x` and auxiliary losses by name, none in most families.
        embed: a batch to `[rows, positions / shards, d_model]`, as in `patches.embed`.
        context: what the layers read of rows, of a batch and a configuration.
    """

    build_blocks: Callable[[Any, str], ModuleBlocks]
    embed: Callable[..., jax.Array]
    context: Callable[[ModuleRows, Any], LayerContext]


def load_functions(config: ModuleConfig, shared: ModuleFunctions | None = None) -> ModuleFunctions:
    """The functions of the family of a configuration.

    Args:
        shared: those of a family that names none.

    Raises:
        UnknownFamilyError: there is no such family.
        TypeError: what the family names are no such functions.
    """
    reference = registry.find_module(config.family).functions
    functions = load_reference(reference) if reference else shared
    if not isinstance(functions, ModuleFunctions):
        raise TypeError(f"{reference} is {functions!r:.80}; valid: ModuleFunctions")
    return functions
