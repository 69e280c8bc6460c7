"""Checkpoints across pipelines: the decoder's layers grouped otherwise on disk than in memory.

Without stages a parameter of the layers is stored as `[layers, ...]`, in a pipeline as `[chunks,
padded layers / chunks, ...]` (see `LayerStack`). Both list the layers in their order, so that one
becomes the other by a reshape, and by cutting or adding padding at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.train.pipeline_plan import LayerStack

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Regrouping:
    """From any grouping of the decoder's layers to that of the running plan.

    Attributes:
        layers: of the model.
        stack: how the running plan groups them; None without a pipeline.
    """

    layers: int
    stack: LayerStack | None

    def fits(self, name: str, stored: Shape, wanted: Shape) -> bool:
        """Whether a leaf `stored` on disk can become one of shape `wanted`."""
        if stored == wanted or ".decoder.layers." not in name:
            return stored == wanted
        rest = self._rest(wanted)
        if len(stored) == len(rest) + 1:
            return stored == (self.layers, *rest)
        return stored[2:] == rest and stored[0] * stored[1] >= self.layers

    def on_disk(self, target: Any, stored: Mapping[str, Shape]) -> Any:
        """`target` with the shapes by name of `stored`, laid out as the plan allows."""

        def leaf(path: Any, wanted: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return self._laid_out(wanted, stored[leaf_name(path)])

        return jax.tree_util.tree_map_with_path(leaf, target)

    def convert(self, restored: Any, target: Any) -> Any:
        """Arrays as they lay on disk to the shapes and layouts of `target`, leaf by leaf."""

        def leaf(x: jax.Array, wanted: jax.ShapeDtypeStruct) -> jax.Array:
            if x.shape == wanted.shape:
                return x
            chunked = x.ndim == len(self._rest(wanted.shape)) + 2
            change = jax.jit(self._regroup, static_argnums=1, out_shardings=wanted.sharding)
            return change(x, chunked)

        return jax.tree.map(leaf, restored, target)

    def _regroup(self, x: jax.Array, chunked: bool) -> jax.Array:
        flat = x.reshape(-1, *x.shape[2:])[: self.layers] if chunked else x
        return flat if self.stack is None else split_layers(self.stack, jnp.asarray(flat))

    def _rest(self, wanted: Shape) -> Shape:
        """Shape of one layer's parameter."""
        return wanted[1:] if self.stack is None else wanted[2:]

    def _laid_out(self, wanted: jax.ShapeDtypeStruct, stored: Shape) -> jax.ShapeDtypeStruct:
        if stored == wanted.shape:
            return wanted
        sharding = wanted.sharding
        spec = list(sharding.spec) + [None] * (len(wanted.shape) - len(sharding.spec))
        groups = 1 if self.stack is None else 2
        stages, rest = spec[groups - 1], spec[groups:]
        leading: list[Any] = [None] * (len(stored) - len(rest))
        if stages is not None and self.stack and stored[len(leading) - 1] % self.stack.stages == 0:
            leading[-1] = stages
        layout = NamedSharding(sharding.mesh, PartitionSpec(*leading, *rest))
        return jax.ShapeDtypeStruct(stored, wanted.dtype, sharding=layout)


def leaf_name(path: tuple[Any, ...]) -> str:
    """Dotted name of a tree path: `params.decoder.layers.q`."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def split_layers(stack: LayerStack, leaf: jax.Array) -> jax.Array:
    """`[layers, ...]` to `[chunks, padded / chunks, ...]`."""
    padding = [(0, stack.padded - stack.layers)] + [(0, 0)] * (leaf.ndim - 1)
    return jnp.pad(leaf, padding).reshape(stack.chunks, -1, *leaf.shape[1:])


def join_layers(stack: LayerStack, leaf: jax.Array) -> jax.Array:
    """The inverse of `split_layers`."""
    return leaf.reshape(stack.padded, *leaf.shape[2:])[: stack.layers]
