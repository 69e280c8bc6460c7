"""Released tensors straight to where the parameters lie: each device is sent its own shard.

A tensor is cut as its shards lie, sent in the type in which it is stored, and turned around and
widened on the devices; of stacked layers one after the other. So the host holds no more than the
shards of one tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.models.pretrained.files import PretrainedError, Stored, listed
from mllm_jax.models.pretrained.forms import Form
from mllm_jax.models.pretrained.rules import Rule
from sharding.collectives import axis_index, axis_size
from sharding.grid import Axes


def check(tensors: Mapping[str, Stored], rules: Iterable[Rule], unused: Sequence[str] = ()) -> None:
    """See that `tensors` are those of `rules`, and in their shapes.

    Args:
        unused: tensors that may be there although no parameter comes from them.

    Raises:
        PretrainedError: lists the tensors that are missing, misshapen, or of no parameter.
    """
    shapes = {name: rule.form.released for rule in rules for name in rule.names}
    missing = sorted(shapes.keys() - tensors.keys())
    extra = sorted(tensors.keys() - shapes.keys() - {*unused})
    misshapen = [
        f"{name} {list(tensors[name].shape)}, not {list(shape)}"
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    ]
    problems = {"missing": missing, "of no parameter": extra, "misshapen": misshapen}
    told = [f"{len(own)} {what}: {listed(own)}" for what, own in problems.items() if own]
    if told:
        raise PretrainedError("the released tensors are not those of the model: " + "; ".join(told))


def load(
    tensors: Mapping[str, Stored], rules: Iterable[Rule], target: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, jax.Array]:
    """Parameters by their dotted paths.

    Args:
        tensors: as `check` has found them right.
        target: shapes, types and layouts by dotted path. Layers may be stacked in two dimensions,
            and there may be more than the model has, which stay zero (see `LayerStack`).
    """
    return {rule.parameter: _loaded(tensors, rule, target[rule.parameter]) for rule in rules}


def _loaded(tensors: Mapping[str, Stored], rule: Rule, target: jax.ShapeDtypeStruct) -> jax.Array:
    stack = len(target.shape) - len(rule.form.shape)
    if target.shape[stack:] != rule.form.shape:
        raise PretrainedError(
            f"{rule.parameter} has the shape {list(target.shape)}, of which {rule.released} gives "
            f"{list(rule.form.shape)}"
        )
    layout = _cut_layout(rule.form, target.sharding, stack)
    sent = (_sent(tensors[name], rule.form, layout) for name in rule.names)
    if not stack:
        return _turn(rule.form, target.dtype, target.sharding)(next(sent))
    put = _put(rule.form, target.sharding, layout)
    whole = _zeros(target.shape, target.dtype, target.sharding)()
    for number, tensor in enumerate(sent):
        whole = put(whole, tensor, jnp.int32(number))
    return whole


def _sent(stored: Stored, form: Form, layout: NamedSharding) -> jax.Array:
    """A released tensor on the devices, in its own type and order."""
    view = stored.view().reshape(form.cut)

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        return np.ascontiguousarray(view[index])

    return jax.make_array_from_callback(form.cut, layout, shard)


def _cut_layout(form: Form, layout: Any, stack: int) -> NamedSharding:
    """How the dimensions of the released tensor lie, for a parameter that lies as `layout` says.

    Where dimensions are joined it is whole on every device.
    """
    spec = [*layout.spec, *[None] * (stack + len(form.shape) - len(layout.spec))][stack:]
    own: list[Any] = [None] * len(form.cut)
    if form.turned == form.shape:
        for place, axes in zip(form.order, spec, strict=True):
            own[place] = axes
    return NamedSharding(layout.mesh, PartitionSpec(*own))


@lru_cache
def _zeros(shape: tuple[int, ...], dtype: Any, layout: NamedSharding) -> Any:
    return jax.jit(partial(jnp.zeros, shape, dtype), out_shardings=layout)


@lru_cache
def _turn(form: Form, dtype: Any, layout: NamedSharding) -> Any:
    def turn(released: jax.Array) -> jax.Array:
        return released.transpose(form.order).reshape(form.shape).astype(dtype)

    return jax.jit(turn, out_shardings=layout)


@lru_cache
def _put(form: Form, stack: NamedSharding, layer: NamedSharding) -> Any:
    """Write one layer into the stack: on the devices that have it, and nowhere else."""
    assert form.turned == form.shape, "only tensors with dimensions of their own are stacked"

    def put(stack_: jax.Array, released: jax.Array, number: jax.Array) -> jax.Array:
        own = released.transpose(form.order).astype(stack_.dtype)
        leading = stack_.shape[: stack_.ndim - own.ndim]
        index = _local(number, leading, stack)
        inside = [(i >= 0) & (i < n) for i, n in zip(index, leading, strict=True)]
        starts = [jnp.clip(i, 0, n - 1) for i, n in zip(index, leading, strict=True)]
        where = (*starts, *[jnp.int32(0)] * own.ndim)
        sizes = (*[1] * len(leading), *own.shape)
        old = lax.dynamic_slice(stack_, where, sizes)
        new = jnp.where(jnp.stack(inside).all(), own.reshape(sizes), old)
        return lax.dynamic_update_slice(stack_, new, where)

    specs = (stack.spec, layer.spec, PartitionSpec())
    mapped = jax.shard_map(put, mesh=stack.mesh, in_specs=specs, out_specs=stack.spec)
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
