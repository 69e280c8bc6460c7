"""Checkpoints across plans: grouped and padded otherwise on disk than in memory.

Without stages a parameter of the layers is stored as `[layers, ...]`, in a pipeline as `[chunks,
padded layers / chunks, ...]` (see `StageLayers`); if only some layers have it, of these alone. Both
list the layers in their order, so that one becomes the other by a reshape, and by cutting or adding
padding at the end. The vocabulary ends in
as much padding, of zeros, as makes it a multiple of the ranks that share it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.train.state.stored_names import StoredNames
from sharding.grid import Axes
from sharding.mesh import group_by_mesh

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerRegrouping:
    """Conversion from the grouping and padding of any plan to those of the running plan.

    Attributes:
        vocab: size of the decoder's vocabulary.
        stack: how the running plan groups the layers; None without a pipeline.
        padded: dotted names of parameters of the vocabulary, with its dimension in each.
        names: names of the modules on disk, which all trees here have.
    """

    vocab: int
    stack: StageLayers | None
    padded: Mapping[str, int] = field(default_factory=dict)
    names: StoredNames = field(default_factory=StoredNames)

    def can_become(self, name: str, stored: Shape, expected: Shape) -> bool:
        """Whether a leaf `stored` on disk can become one of shape `expected`."""
        dim = self._vocab_dimension(name)
        if dim is not None and len(stored) == len(expected):
            same = stored[:dim] + stored[dim + 1 :] == expected[:dim] + expected[dim + 1 :]
            return same and stored[dim] >= self.vocab
        if stored == expected or not self._of_layers(name):
            return stored == expected
        rest_shape, layers = self._layer_shape(expected), self._layer_count(expected)
        if len(stored) == len(rest_shape) + 1:
            return stored == (layers, *rest_shape)
        return stored[2:] == rest_shape and stored[0] * stored[1] >= layers

    def on_disk(self, target: Any, stored: Mapping[str, Shape]) -> Any:
        """`target` with the shapes by name of `stored`, laid out as the plan allows."""

        def leaf(path: Any, target: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            name = leaf_name(path)
            stored_shape, dim = stored[name], self._vocab_dimension(name)
            if stored_shape == target.shape:
                return target
            spec = (
                self._of_groups(target, stored_shape)
                if dim is None
                else _of_padding(target, stored_shape, dim)
            )
            sharding = NamedSharding(target.sharding.mesh, spec)
            return jax.ShapeDtypeStruct(stored_shape, target.dtype, sharding=sharding)

        return jax.tree_util.tree_map_with_path(leaf, target)

    def convert_state(self, restored: Any, target: Any) -> Any:
        """Arrays as they lay on disk to the shapes and shardings of `target`."""
        stored, tree = jax.tree_util.tree_flatten_with_path(restored)
        leaves = {leaf_name(path): leaf for path, leaf in stored}
        targets = dict(zip(leaves, jax.tree.leaves(target), strict=True))
        others = {name: x for name, x in leaves.items() if x.shape != targets[name].shape}
        if others:
            leaves |= self._convert_leaves(others, {name: targets[name] for name in others})
        return jax.tree.unflatten(tree, list(leaves.values()))

    def _convert_leaves(
        self, leaves: dict[str, jax.Array], targets: Mapping[str, jax.ShapeDtypeStruct]
    ) -> dict[str, jax.Array]:
        """The leaves of each mesh by one program, which all processes compile before it begins."""

        def convert(leaves: dict[str, jax.Array]) -> dict[str, jax.Array]:
            return {
                name: self.convert_leaf(name, x, targets[name].shape) for name, x in leaves.items()
            }

        converted: dict[str, jax.Array] = {}
        for of_mesh in group_by_mesh(targets):
            shardings = {name: targets[name].sharding for name in of_mesh}
            program = jax.jit(convert, out_shardings=shardings)
            run = synchronize_program("the change of the checkpoint's plan", program)
            converted |= run({name: leaves[name] for name in of_mesh})
        return {name: converted[name] for name in leaves}

    def convert_leaf(self, name: str, x: Any, target_shape: Shape) -> Any:
        """A leaf as it lay on disk in the shape that is wanted of it."""
        if not self._of_layers(name):
            return fit_to_shape(x, target_shape)
        chunked = x.ndim == len(self._layer_shape(target_shape)) + 2
        flat = x.reshape(-1, *x.shape[2:])[: self._layer_count(target_shape)] if chunked else x
        return flat if self.stack is None else split_layers(self.stack, jnp.asarray(flat))

    def _of_layers(self, name: str) -> bool:
        """Whether a leaf is of the layers of the backbone, which stages have."""
        return f".{self.names.on_disk(self.names.backbone)}.layers." in name

    def _layer_count(self, target_shape: Shape) -> int:
        """Layers that have the parameter, of all or of some kinds."""
        return (
            target_shape[0]
            if self.stack is None
            else self.stack.without_padding(target_shape[0] * target_shape[1])
        )

    def _layer_shape(self, target_shape: Shape) -> Shape:
        """Shape of one layer's parameter."""
        return target_shape[1:] if self.stack is None else target_shape[2:]

    def _vocab_dimension(self, name: str) -> int | None:
        """The dimension of the vocabulary in a parameter, or in a moment of one."""
        return next((n for suffix, n in self.padded.items() if name.endswith(f".{suffix}")), None)

    def _of_groups(self, target: jax.ShapeDtypeStruct, stored: Shape) -> PartitionSpec:
        spec = _axes_by_dimension(target)
        groups = 1 if self.stack is None else 2
        stages, others = spec[groups - 1], spec[groups:]
        leading: list[Axes] = [()] * (len(stored) - len(others))
        if stages and self.stack and stored[len(leading) - 1] % self.stack.stages == 0:
            leading[-1] = stages
        return PartitionSpec(*[axes or None for axes in (*leading, *others)])


def fit_to_shape(x: Any, shape: Shape) -> Any:
    """`x` cut, or padded with zeros, at the end of every dimension."""
    if x.shape == shape:
        return x
    cut = x[tuple(slice(n) for n in shape)]
    padding = [(0, n - m) for n, m in zip(shape, cut.shape, strict=True)]
    return cut if cut.shape == shape else jnp.pad(cut, padding)


def leaf_name(path: tuple[Any, ...]) -> str:
    """Dotted name of a tree path: `params.decoder.layers.q`."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def split_layers(stack: StageLayers, leaf: jax.Array) -> jax.Array:
    """`[layers, ...]` to `[chunks, padded / chunks, ...]`."""
    layers = leaf.shape[0]
    padding = [(0, stack.stored_layers * layers // stack.layers - layers)] + [(0, 0)] * (
        leaf.ndim - 1
    )
    return jnp.pad(leaf, padding).reshape(stack.chunks, -1, *leaf.shape[1:])


def join_layers(stack: StageLayers, leaf: jax.Array) -> jax.Array:
    """The inverse of `split_layers`."""
    flat = leaf.reshape(-1, *leaf.shape[2:])
    return flat[: stack.without_padding(len(flat))]


def _of_padding(target: jax.ShapeDtypeStruct, stored: Shape, dim: int) -> PartitionSpec:
    """The sharding with which a stored leaf is read.

    If the ranks of dimension `dim` do not divide it, they share the other dimension, if they can.
    """
    spec, mesh = _axes_by_dimension(target), target.sharding.mesh

    def ranks(axes: Axes) -> int:
        return math.prod(mesh.shape[axis] for axis in axes)

    if stored[dim] % ranks(spec[dim]):
        other = 1 - dim
        both = (*spec[other], *spec[dim])
        spec[dim], spec[other] = (), both if stored[other] % ranks(both) == 0 else spec[other]
    return PartitionSpec(*[axes or None for axes in spec])


def _axes_by_dimension(target: jax.ShapeDtypeStruct) -> list[Axes]:
    """Grid axes of every dimension."""
    entries = [*target.sharding.spec, *[None] * len(target.shape)][: len(target.shape)]
    return [(entry,) if isinstance(entry, str) else tuple(entry or ()) for entry in entries]
