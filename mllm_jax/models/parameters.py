"""From NNX modules to plain trees of parameters and back.

A `Block` is a module of a tower, perhaps stacked: its parameters live outside as a nested dict of
arrays, with a leading `layers` dimension when stacked, and come back as a module only inside the
computation, once their fsdp shards have been gathered. The gather is repeated in the backward,
whatever else is kept for it, which is ZeRO-3::

    scan over layers:  shards -> all-gather -> module(x) -> forget
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.models.varying import vary_like
from scheduling.executor.layers import LayerRun, apply_layers
from sharding.grid import View
from sharding.rules import gather_parameters

Params = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """A module of a tower.

    Attributes:
        build: makes the module (one layer of it, if stacked) from random keys.
        layers: number of stacked copies; None = a single module without a `layers` dimension.
    """

    build: Callable[[nnx.Rngs], nnx.Module]
    layers: int | None = None

    @cached_property
    def _abstract(self) -> tuple[Any, Any]:
        return nnx.split(nnx.eval_shape(lambda: self.build(nnx.Rngs(params=0))))

    @cached_property
    def axes(self) -> Any:
        """Logical axes of the parameters of one copy, without `layers`."""
        flat = nnx.to_flat_state(self._abstract[1])
        return nnx.to_pure_dict(
            nnx.from_flat_state((path, leaf.get_metadata("axes")) for path, leaf in flat)
        )

    def init(self, key: jax.Array) -> Params:
        """Initial parameters; every layer has its own key."""

        def one(key: jax.Array) -> Params:
            return nnx.to_pure_dict(nnx.state(self.build(nnx.Rngs(params=key)), nnx.Param))

        if self.layers is None:
            return one(key)
        return jax.vmap(one)(jax.random.split(key, self.layers))

    def stacked_axes(self) -> Any:
        """Logical axes of the parameters as `init` returns them."""
        if self.layers is None:
            return self.axes
        return jax.tree.map(
            lambda names: ("layers", *names), self.axes, is_leaf=lambda x: isinstance(x, tuple)
        )

    def bind(self, params: Params, view: View, dtype: jnp.dtype | None = None) -> Any:
        """The module with the local shards `params` of one copy, whole along fsdp.

        Args:
            dtype: in which they are gathered, if the module uses them so; None for their own.
        """
        return nnx.merge(self._abstract[0], gather_parameters(params, self.axes, view, dtype))


Tower = Mapping[str, Block]


def init_tower(tower: Tower, key: jax.Array) -> Params:
    """Initial parameters of all blocks; a block's values depend on its name and `key` alone."""
    return {
        name: block.init(jax.random.fold_in(key, zlib.crc32(name.encode())))
        for name, block in tower.items()
    }


def tower_axes(tower: Tower) -> dict[str, Any]:
    """Logical axes of `init_tower`'s result, in the same structure."""
    return {name: block.stacked_axes() for name, block in tower.items()}


def run_layers(
    block: Block, params: Params, x: jax.Array, segments: Any, view: View, remat: str
) -> jax.Array:
    """Apply the stacked layers `params` of `block` in order.

    Args:
        params: local shards with a leading dimension of layers; it may hold fewer layers than
            the block (a pipeline stage).
        x: `[rows, tokens / shards, d_model]`.
        segments: passed to every layer.
        remat: `full`, `layer` or `none`, see `ModelConfig`.
    """

    def layer(params: Params, x: jax.Array, segments: Any) -> jax.Array:
        return block.bind(params, view, x.dtype)(x, segments, view)

    count = jax.tree.leaves(params)[0].shape[0]
    run = LayerRun(layer, params, count, remat, ())
    return apply_layers(run, vary_like(x, (x, params)), segments)
