"""A loop as data, and slots of the buffers that loops carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

PyTree = Any


class Loop(NamedTuple):
    """`lax.scan(body, carry, xs)`, not yet run."""

    body: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]
    carry: PyTree
    xs: PyTree

    @property
    def length(self) -> int:
        """Number of iterations."""
        return jax.tree.leaves(self.xs)[0].shape[0]

    def run_scan(self) -> tuple[PyTree, PyTree]:
        """Last carry and stacked outputs."""
        return lax.scan(self.body, self.carry, self.xs)


def read_slot(buffer: PyTree, slot: jax.Array) -> PyTree:
    """Slot `slot` of every leaf `[slots, ...]`."""
    return jax.tree.map(
        lambda b: lax.dynamic_index_in_dim(b, jnp.maximum(slot, 0), keepdims=False), buffer
    )


def write_slot(buffer: PyTree, slot: jax.Array, value: PyTree) -> PyTree:
    """`buffer` with `value` in slot `slot`; unchanged if that is negative."""

    def leaf(b: jax.Array, v: jax.Array) -> jax.Array:
        old = lax.dynamic_index_in_dim(b, jnp.maximum(slot, 0), keepdims=False)
        new = jnp.where(slot >= 0, v.astype(b.dtype), old)
        return lax.dynamic_update_index_in_dim(b, new, jnp.maximum(slot, 0), 0)

    return buffer if jax.tree.leaves(buffer)[:1] == [] else jax.tree.map(leaf, buffer, value)


def add_cast(total: jax.Array, value: jax.Array) -> jax.Array:
    """The sum of both in the type of `total`."""
    return total + value.astype(total.dtype)
