"""Released tensors straight to where the parameters lie: each device is sent its own shard.

A tensor is cut as its shards lie and sent in the type in which it is stored; it is turned around
on its way and widened on the devices, of stacked layers one after the other. So the host holds no
more than the shards of one tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.models.released.files import Stored
from mllm_jax.models.released.forms import Form
from mllm_jax.models.released.rules import Rule
from sharding.collectives import axis_index, axis_size
from sharding.grid import Axes


def load(
    tensors: Mapping[str, Stored], rules: Iterable[Rule], target: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, jax.Array]:
    """Parameters by their dotted paths.

    Args:
        tensors: tensors that `rules.check` has checked.
        target: shapes, types and layouts by dotted path, of the shapes and of no fewer layers than
            the rules have. Layers may be stacked in two dimensions, and there may be more than the
            model has, which stay zero (see `LayerStack`). Other parameters may be padded, with
            zeros at the end of their dimensions.
    """
    return {rule.parameter: _loaded(tensors, rule, target[rule.parameter]) for rule in rules}


def _loaded(tensors: Mapping[str, Stored], rule: Rule, target: jax.ShapeDtypeStruct) -> jax.Array:
    stack = len(target.shape) - len(rule.form.shape)
    layout = _layer_layout(target.sharding, stack)
    shape = rule.form.shape if stack else target.shape
    sent = (_sent(tensors[name], rule.form, shape, layout) for name in rule.names)
    if not stack:
        return _widen(target.dtype, target.sharding)(next(sent))
    put = _put(stack, target.sharding, layout)
    whole = _zeros(target.shape, target.dtype, target.sharding)()
    for number, tensor in enumerate(sent):
        whole = put(whole, tensor, jnp.int32(number))
    return whole


def _sent(stored: Stored, form: Form, shape: tuple[int, ...], layout: NamedSharding) -> jax.Array:
    """A released tensor on the devices, as the parameter of one layer, in its own type.

    Args:
        shape: shape of the parameter, with padding of zeros.
    """
    view = form.parameter(stored.view())

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        # The runtime transposes arrays that are not contiguous, faster than a program would.
        own, whole = view[index], [len(range(n)[i]) for n, i in zip(shape, index, strict=True)]
        if own.shape == (*whole,):
            return own
        return np.pad(own, [(0, n - m) for n, m in zip(whole, own.shape, strict=True)])

    return jax.make_array_from_callback(shape, layout, shard)


def _layer_layout(layout: Any, stack: int) -> NamedSharding:
    """Layout of the parameter of one layer, if the first `stack` dimensions count layers."""
    return NamedSharding(layout.mesh, PartitionSpec(*layout.spec[stack:]))


@lru_cache
def _zeros(shape: tuple[int, ...], dtype: Any, layout: NamedSharding) -> Any:
    return jax.jit(partial(jnp.zeros, shape, dtype), out_shardings=layout)


@lru_cache
def _widen(dtype: Any, layout: NamedSharding) -> Any:
    return jax.jit(lambda released: released.astype(dtype), out_shardings=layout)


@lru_cache
def _put(stack: int, layout: NamedSharding, layer: NamedSharding) -> Any:
    """Write one layer into the stack: on the devices that have it, and nowhere else."""

    def put(whole: jax.Array, released: jax.Array, number: jax.Array) -> jax.Array:
        leading = whole.shape[:stack]
        index = _local(number, leading, layout)
        inside = [(i >= 0) & (i < n) for i, n in zip(index, leading, strict=True)]
        own = released.astype(whole.dtype).reshape(*[1] * stack, *released.shape)

        def write(whole: jax.Array) -> jax.Array:
            where = (*index, *[jnp.int32(0)] * released.ndim)
            return lax.dynamic_update_slice(whole, own, where)

        if not any(_axes(layout, dim) for dim in range(stack)):
            return write(whole)
        return lax.cond(jnp.stack(inside).all(), write, lambda whole: whole, whole)

    specs = (layout.spec, layer.spec, PartitionSpec())
    mapped = jax.shard_map(put, mesh=layout.mesh, in_specs=specs, out_specs=layout.spec)
    return jax.jit(mapped, donate_argnums=0)


def _local(number: jax.Array, shape: tuple[int, ...], layout: NamedSharding) -> list[jax.Array]:
    """Place of layer `number` in a local shard of leading dimensions `shape`; may be outside."""
    axes = [_axes(layout, dim) for dim in range(len(shape))]
    whole = [n * axis_size(own) for n, own in zip(shape, axes, strict=True)]
    index = jnp.unravel_index(number, whole)
    return [i - axis_index(own) * n for i, own, n in zip(index, axes, shape, strict=True)]


def _axes(layout: NamedSharding, dim: int) -> Axes:
    """Mesh axes that split a dimension."""
    entry = layout.spec[dim] if dim < len(layout.spec) else None
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
