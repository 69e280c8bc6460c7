"""Released tensors straight to where the parameters lie: each device is sent its own shard.

A tensor is cut as its shards lie and sent in the type in which it is stored; it is turned around
on its way and widened on the devices, of stacked layers one after the other. So the host holds no
more than the shards of one tensor. The devices also look whether all values are finite in the type
of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.hf_format.dtype_ranges import RangeError, describe_overflow, find_overflow_in_chunks
from mllm_jax.hf_format.files import StoredTensor
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import TensorTransform
from sharding.collectives import axis_index, axis_size, psum
from sharding.grid import Axes


@dataclass
class FiniteCheck:
    """Whether what was loaded is finite, which is not waited for before `raise_if_not_finite`.

    Attributes:
        loaded: the tensors of every parameter, its type, and whether it is finite.
    """

    loaded: list[tuple[Mapping[str, StoredTensor], TensorRule, Any, jax.Array]] = field(
        default_factory=list
    )

    def raise_if_not_finite(self) -> None:
        """Wait for all that was loaded.

        Raises:
            RangeError: a tensor holds a number that is not finite in the type of its parameter.
        """
        for tensors, rule, dtype, finite in self.loaded:
            if bool(finite.addressable_data(0)):
                continue
            for name in rule.names:
                wrong = find_overflow_in_chunks(tensors[name].iterate_chunks(), np.dtype(dtype))
                if wrong is not None:
                    where = f"{tensors[name].path.parent}: {name}"
                    raise RangeError(f"{where} holds {describe_overflow(wrong, np.dtype(dtype))}")
        self.loaded.clear()


def load_tensors(
    tensors: Mapping[str, StoredTensor],
    rules: Iterable[TensorRule],
    target: Mapping[str, jax.ShapeDtypeStruct],
    finite_check: FiniteCheck | None = None,
) -> dict[str, jax.Array]:
    """Parameters by their dotted paths.

    Args:
        tensors: tensors that `rules.check` has checked.
        target: shapes, types and shardings by dotted path, of the shapes and of no fewer layers
            than the rules have. Layers may be stacked in two dimensions, and there may be more
            than the model has, which stay zero (see `StageLayers`). Other parameters may be padded,
            with zeros at the end of their dimensions.
        finite_check: takes whether they are finite; None: this is waited for.

    Raises:
        RangeError: as of `FiniteCheck.raise_if_not_finite`, without a `finite_check` of the caller.
    """
    check, params = finite_check or FiniteCheck(), dict[str, jax.Array]()
    for rule in rules:
        target_leaf = target[rule.parameter]
        params[rule.parameter], finite = _load_parameter(tensors, rule, target_leaf)
        check.loaded.append((tensors, rule, target_leaf.dtype, finite))
    if finite_check is None:
        check.raise_if_not_finite()
    return params


def _load_parameter(
    tensors: Mapping[str, StoredTensor], rule: TensorRule, target: jax.ShapeDtypeStruct
) -> tuple[jax.Array, jax.Array]:
    """A parameter, and whether it is finite."""
    stack = len(target.shape) - len(rule.transform.shape)
    sharding = _layer_sharding(target.sharding, stack)
    shape = rule.transform.shape if stack else target.shape
    sent = (_send_shards(tensors[name], rule.transform, shape, sharding) for name in rule.names)
    if not stack:
        return _widening_program(target.dtype, target.sharding)(next(sent))
    update_layer = _layer_update_program(stack, target.sharding, sharding)
    parameter, finite = _zeros_program(target.shape, target.dtype, target.sharding)()
    for number, tensor in enumerate(sent):
        parameter, finite = update_layer(parameter, finite, tensor, jnp.int32(number))
    return parameter, finite


def _send_shards(
    stored: StoredTensor, form: TensorTransform, shape: tuple[int, ...], sharding: NamedSharding
) -> jax.Array:
    """A released tensor on the devices, as the parameter of one layer, in its own type.

    Args:
        shape: shape of the parameter, with padding of zeros.
    """
    view = form.to_parameter(stored.map_weights())

    def load_shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        # The runtime transposes arrays that are not contiguous, faster than a program would.
        part, sizes = view[index], [len(range(n)[i]) for n, i in zip(shape, index, strict=True)]
        if part.dtype == np.float64:  # which devices do not have
            with np.errstate(over="ignore"):
                part = part.astype(np.float32)
        if part.shape == (*sizes,):
            return part
        return np.pad(part, [(0, n - m) for n, m in zip(sizes, part.shape, strict=True)])

    return jax.make_array_from_callback(shape, sharding, load_shard)


def _layer_sharding(sharding: Any, stack: int) -> NamedSharding:
    """Layout of the parameter of one layer, if the first `stack` dimensions count layers."""
    return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[stack:]))


@lru_cache
def _zeros_program(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> Any:
    """Zeros, and that they are finite."""
    make_zeros = lambda: (jnp.zeros(shape, dtype), jnp.bool_(True))  # noqa: E731
    return jax.jit(make_zeros, out_shardings=(sharding, _replicated_sharding(sharding)))


@lru_cache
def _widening_program(dtype: Any, sharding: NamedSharding) -> Any:
    """A tensor in its parameter's type, and whether it is finite."""

    def convert_tensor(released: jax.Array) -> tuple[jax.Array, jax.Array]:
        wide = released.astype(dtype)
        return wide, jnp.isfinite(wide).all()

    return jax.jit(convert_tensor, out_shardings=(sharding, _replicated_sharding(sharding)))


def _replicated_sharding(sharding: NamedSharding) -> NamedSharding:
    """Layout of a value that all devices have."""
    return NamedSharding(sharding.mesh, PartitionSpec())


@lru_cache
def _layer_update_program(stack: int, sharding: NamedSharding, layer: NamedSharding) -> Any:
    """Write one layer into the stack: on the devices that have it, and nowhere else.

    Returns whether it is finite, too, and all layers before it.
    """

    def update_layer(
        parameter: jax.Array, finite: jax.Array, released: jax.Array, number: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        leading = parameter.shape[:stack]
        index = _local_index(number, leading, sharding)
        inside = [(i >= 0) & (i < n) for i, n in zip(index, leading, strict=True)]
        layer = released.astype(parameter.dtype)
        wrong = psum(jnp.count_nonzero(~jnp.isfinite(layer)), sharing)
        finite = finite & (wrong == 0)
        layer = layer.reshape(*[1] * stack, *released.shape)

        def write_layer(current: jax.Array) -> jax.Array:
            where = (*index, *[jnp.int32(0)] * released.ndim)
            return lax.dynamic_update_slice(current, layer, where)

        if not any(_axes_of(sharding, dim) for dim in range(stack)):
            return write_layer(parameter), finite
        return lax.cond(
            jnp.stack(inside).all(), write_layer, lambda current: current, parameter
        ), finite

    sharing = tuple(axis for dim in range(len(layer.spec)) for axis in _axes_of(layer, dim))
    specs = (sharding.spec, PartitionSpec(), layer.spec, PartitionSpec())
    out = sharding.spec, PartitionSpec()
    mapped = jax.shard_map(update_layer, mesh=sharding.mesh, in_specs=specs, out_specs=out)
    return jax.jit(mapped, donate_argnums=0)


def _local_index(
    number: jax.Array, shape: tuple[int, ...], sharding: NamedSharding
) -> list[jax.Array]:
    """Place of layer `number` in a local shard of leading dimensions `shape`; may be outside."""
    axes = [_axes_of(sharding, dim) for dim in range(len(shape))]
    sizes = [n * axis_size(axis) for n, axis in zip(shape, axes, strict=True)]
    index = jnp.unravel_index(number, sizes)
    return [i - axis_index(axis) * n for i, axis, n in zip(index, axes, shape, strict=True)]


def _axes_of(sharding: NamedSharding, dim: int) -> Axes:
    """Mesh axes that split a dimension."""
    entry = sharding.spec[dim] if dim < len(sharding.spec) else None
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
