"""Types of values inside a manual `shard_map`: over which mesh axes they vary.

`check_vma=True` checks these types and makes transposes of collectives right. Scans and functions
of other libraries sometimes need help with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from sharding.collectives import vary


def vary_like(tree: Any, like: Any) -> Any:
    """`tree` marked as varying over every axis that some leaf of `like` varies over.

    A scan's carry must have one type from its start to its end; and a parameter marked before a
    scan has its gradient summed over the axes once, after the scan, and not in every iteration.
    """
    leaves = jax.tree.leaves(like)
    axes = sorted({axis for leaf in leaves for axis in jax.typeof(leaf).mat.varying})
    return vary(tree, tuple(axes))


def without_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` traced without types of varying axes; its results have none.

    A nested `shard_map` that adds no manual axis turns the types off; lowering leaves nothing of
    it. Outside a manual `shard_map` it is `function` itself.
    """
    axes = frozenset(jax.sharding.get_abstract_mesh().manual_axes)
    if not axes:
        return function

    def body(*inputs: Any) -> Any:
        return function(*jax.tree.map(_drop_types, inputs))

    replicated = PartitionSpec()
    return jax.shard_map(
        body, in_specs=replicated, out_specs=replicated, axis_names=axes, check_vma=False
    )


def _drop_types(x: jax.Array) -> jax.Array:
    """`x` without the type of its varying axes.

    Where types are off, the result of any arithmetic has none; XLA removes the product with one.
    """
    return x * np.ones((), x.dtype)


@jax.custom_jvp
def erf(x: jax.Array) -> jax.Array:
    """`jax.lax.erf`, which JAX 0.12.0 cannot type inside a manual `shard_map`."""
    return vary_like(without_types(jax.lax.erf)(x), x)


@erf.defjvp
def _erf_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    return erf(x), 2 / np.sqrt(np.pi).item() * jnp.exp(-x * x) * tangent


def gelu(x: jax.Array) -> jax.Array:
    """Exact GELU, `x * (1 + erf(x / sqrt(2))) / 2`."""
    return 0.5 * x * (1 + erf(x * 0.5**0.5))
