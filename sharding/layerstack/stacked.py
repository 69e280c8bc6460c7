"""The leaves of a stack of layers: which layers have them, and which of them are deferred.

Parameters that only some layers of a period have are stacked for these alone::

    stack      0  1  2  3  4  5           [layers, ...], one after the other
    some       -  0  1  -  2  3           [2 of 3 layers, ...], of those that have it
    kind       0  1  2  0  1  2           number of the layer in its period, known to the compiler
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import lax

from sharding.layerstack.loops import PyTree, read_slot
from sharding.layerstack.spec import LayerStackSpec, interleave_kinds


@dataclass(frozen=True)
class StackedLeaves:
    """The leaves of a stack.

    Attributes:
        stack, spec, deferred: as of `sharding.layerstack.run.LayerStack`.
    """

    stack: PyTree
    spec: LayerStackSpec
    deferred: frozenset[int] | None = None

    def partition_sums(self, sums: PyTree) -> tuple[list[jax.Array], list[jax.Array]]:
        """Leaves of a tree like `stack`, first of `backward_loop`, then of `weight_gradients`."""
        assert self.deferred is not None  # else nothing is deferred
        leaves = list(enumerate(jax.tree.leaves(sums)))
        return [leaf_sum for n, leaf_sum in leaves if n not in self.deferred], [
            leaf_sum for n, leaf_sum in leaves if n in self.deferred
        ]

    def combine_sums(self, immediate: list[jax.Array], deferred: list[jax.Array]) -> PyTree:
        """Inverse of `partition_sums`."""
        assert self.deferred is not None  # as there
        leaves, structure = jax.tree.flatten(self.stack)
        rows = iter(immediate), iter(deferred)
        return jax.tree.unflatten(
            structure, [next(rows[n in self.deferred]) for n in range(len(leaves))]
        )

    def combine_kinds(self, layer_grads: list[PyTree]) -> PyTree:
        """Trees `[periods, ...]` of each kind of layer as one like `stack`."""
        if not self.spec.without:
            return jax.tree.map(interleave_kinds, *layer_grads)
        return {
            name: jax.tree.map(
                interleave_kinds, *(layer_grads[n][name] for n in self.spec.kinds_with(name))
            )
            for name in self.stack
        }

    def read_layer(self, stack: PyTree, kind: int, i: jax.Array) -> PyTree:
        """The parameters of layer `i` in a tree like `stack`."""
        if not self.spec.without:
            return read_slot(stack, i)
        return {
            name: read_slot(leaf, self._row(kind, name, i))
            for name, leaf in stack.items()
            if name not in self.spec.without[kind]
        }

    def _row(self, kind: int, name: str, i: jax.Array) -> jax.Array:
        """Number of layer `i` among those that have an entry of the stack."""
        kinds = self.spec.kinds_with(name)
        if len(kinds) == self.spec.period:
            return i
        return (i - kind) // self.spec.period * len(kinds) + kinds.index(kind)

    @property
    def entries(self) -> list[str]:
        """The entry of the stack in which each of its leaves is."""
        if not self.spec.without:
            return [""] * len(jax.tree.leaves(self.stack))
        return [path[0].key for path, _ in jax.tree_util.tree_leaves_with_path(self.stack)]

    def numbers_of_kind(self, kind: int) -> list[int]:
        """Numbers of the leaves of the stack that layers of this kind have, in their order."""
        without = self.spec.without[kind] if self.spec.without else ()
        return [number for number, name in enumerate(self.entries) if name not in without]

    def add_gradients(
        self, kind: int, i: jax.Array, sums: PyTree, layer_grads: PyTree, *, deferred: bool
    ) -> PyTree:
        """`sums` with the gradients of layer `i`.

        Args:
            sums: leaves of the stack: all if none are deferred, or else the `deferred` ones or the
                others.
            layer_grads: as many of the leaves of the layer.
        """
        entries, leaf_numbers = self.entries, self.numbers_of_kind(kind)
        numbers = [
            n
            for n in range(len(entries))
            if self.deferred is None or (n in self.deferred) == deferred
        ]
        new = iter(jax.tree.leaves(layer_grads))
        totals, structure = jax.tree.flatten(sums)
        added = [
            _add_at(self._row(kind, entries[n], i), total, next(new))
            if n in leaf_numbers
            else total
            for n, total in zip(numbers, totals, strict=True)
        ]
        return jax.tree.unflatten(structure, added)


def _add_at(i: jax.Array, total: jax.Array, value: jax.Array) -> jax.Array:
    new = lax.dynamic_index_in_dim(total, i) + value[None].astype(total.dtype)
    return lax.dynamic_update_index_in_dim(total, new, i, 0)
