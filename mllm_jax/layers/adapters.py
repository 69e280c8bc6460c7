"""Adapters in the modules of a model: how linear layers get them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from flax import nnx

from mllm_jax.layers.config.adapters import LoraAdapters
from mllm_jax.layers.dense import Dense
from mllm_jax.layers.parameters import Build, ModuleBlocks, ParameterBlock


def adapt_blocks(
    blocks: ModuleBlocks, module: str, adapters: LoraAdapters | None
) -> dict[str, ParameterBlock]:
    """The blocks of a module with their adapters.

    Args:
        module: `"decoder"` or the encoder's name, with which names of layers begin.
    """
    if adapters is None:
        return dict(blocks)
    return {
        name: _add_to_block(block, f"{module}.{name}", adapters) if has_linear(name) else block
        for name, block in blocks.items()
    }


def has_linear(block: str) -> bool:
    """Whether a block is one of layers, a connector or a head, and no embedding or lone norm."""
    return block in ("layers", "connector", "lm_head") or (
        block.startswith("deepstack") and not block.endswith("_norm")
    )


def _add_to_block(block: ParameterBlock, name: str, adapters: LoraAdapters) -> ParameterBlock:
    add_adapters = partial(_with_adapters, name=name, adapters=adapters)
    others = tuple(partial(add_adapters, build) for build in block.others)
    return replace(block, build=partial(add_adapters, block.build), others=others)


def _with_adapters(
    build: Build, rngs: nnx.Rngs, *, name: str, adapters: LoraAdapters
) -> nnx.Module:
    """The module, whose other parameters are as without adapters."""
    module = build(rngs)
    for layer, dense in _list_linear(module, name):
        if layer in adapters.names:
            dense.add_adapter(adapters.rank, adapters.scale, rngs)
    return module


def _list_linear(module: nnx.Module, name: str) -> Iterator[tuple[str, Dense]]:
    """Linear layers of a module, by the order of their attributes."""
    if isinstance(module, Dense):
        yield name, module
        return
    for attribute, value in vars(module).items():
        if isinstance(value, nnx.Module):
            yield from _list_linear(value, f"{name}.{attribute}")
