"""Collectives over runs of grid axes; over no axes each is the identity.

Thus one code path serves every plan and the single device. All collectives are called inside a
fully manual `jax.shard_map` with `check_vma=True`, whose types make the transposes right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from sharding.traced import traced_platform

PyTreeT = TypeVar("PyTreeT")
Axes = tuple[str, ...]

#: Slices in which the GPUs of a host exchange rows: XLA moves each of them by a few threads.
SLICES = 512
#: GPUs of a host for which programs are compiled ahead of time.
GPUS_OF_A_HOST = 8


def all_gather(x: jax.Array, axes: Axes, dim: int) -> jax.Array:
    """Concatenate the shards of `x` along `dim`: `[.., n, ..]` to `[.., n * degree, ..]`."""

    def gather(x: jax.Array, dim: int) -> jax.Array:
        return lax.all_gather(x, axes, axis=dim, tiled=True)

    return _without_leading_ones(gather, x, dim) if axes else x


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def all_gather_as(x: jax.Array, axes: Axes, dim: int, dtype: jnp.dtype) -> jax.Array:
    """`all_gather` of a float32 `x` in `dtype`, half the bytes if that is bfloat16.

    Its gradient is that of `all_gather(x, ..).astype(dtype)`: summed over `axes` in float32.
    """
    return all_gather(x.astype(dtype), axes, dim)


def _all_gather_as_forward(
    x: jax.Array, axes: Axes, dim: int, dtype: jnp.dtype
) -> tuple[jax.Array, None]:
    return all_gather_as(x, axes, dim, dtype), None


def _all_gather_as_backward(
    axes: Axes, dim: int, dtype: jnp.dtype, residuals: None, gradient: jax.Array
) -> tuple[jax.Array]:
    del dtype, residuals
    return (reduce_scatter(gradient.astype(jnp.float32), axes, dim),)


all_gather_as.defvjp(_all_gather_as_forward, _all_gather_as_backward)


def reduce_scatter(x: jax.Array, axes: Axes, dim: int) -> jax.Array:
    """Sum over `axes` and keep this rank's slice of `dim`; the transpose of `all_gather`."""

    def scatter(x: jax.Array, dim: int) -> jax.Array:
        return lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True)

    return _without_leading_ones(scatter, x, dim) if axes else x


def _without_leading_ones(
    collective: Callable[[jax.Array, int], jax.Array], x: jax.Array, dim: int
) -> jax.Array:
    """`collective(x, dim)` along the first dimension, if those before it are of size one.

    The TPU compiler turns a reduce-scatter along dimension 1 of `[1, tokens, width]` into an
    all-reduce and a slice, twice the bytes; it keeps a reduce-scatter of `[tokens, width]`.
    """
    ones = x.shape[:dim]
    if math.prod(ones) != 1:
        return collective(x, dim)
    y = collective(x.reshape(x.shape[dim:]), 0)
    return y.reshape(*ones, *y.shape)


def all_to_all(x: jax.Array, axes: Axes, split: int = 0, concat: int = 0) -> jax.Array:
    """Block j of rank i becomes block i of rank j.

    Dimension `split` is cut into a block for each rank, and dimension `concat` joins the blocks
    that arrive: if both are 0, the shape `[ranks * n, ...]` stays.
    """
    if not axes:
        return x
    return lax.all_to_all(x, axes, split_axis=split, concat_axis=concat, tiled=True)


def ragged_all_to_all(
    x: jax.Array, slices: jax.Array, into: int | jax.Array, axes: Axes
) -> jax.Array:
    """Move a slice of `x`, of any length, from every rank to every other; not available on CPUs.

    Between the GPUs of a host it moves in parts, see `SLICES`.

    Args:
        x: `[n, ...]`.
        slices: `[4, ranks]`, integers: start in `x` of the slice for each rank, its length, its
            start in that rank's result, and the length of the slice that comes from that rank.
        into: array `[m, ...]` that the slices are put into; or `m`, for an array of zeros.
        axes: one or more axes, with more than one rank.

    Returns:
        `[m, ...]`; `m` may differ from `n`.
    """
    x = vary(x, axes)
    into = jnp.zeros((into, *x.shape[1:]), x.dtype) if isinstance(into, int) else into
    # JAX gives the result the type of the array that it fills, whatever arrives in it.
    into = vary(into, tuple(jax.typeof(x).mat.varying))
    return lax.ragged_all_to_all(
        x, into, *cut_slices(slices, parts_of_a_slice(axes)), axis_name=axes
    )


def cut_slices(slices: jax.Array, parts: int) -> jax.Array:
    """Cut every slice of `ragged_all_to_all` into `parts`, `[4, ranks]` to `[4, ranks * parts]`.

    Parts of a slice are equally long, but for the last ones, which may be empty.
    """
    if parts == 1:
        return slices
    begins, sent, output_offsets, received = slices[..., None]
    part = jnp.arange(parts, dtype=slices.dtype)[None]

    def starts(length: jax.Array) -> jax.Array:
        return jnp.minimum(part * -(-length // parts), length)

    def lengths(length: jax.Array) -> jax.Array:
        return jnp.minimum(-(-length // parts), length - starts(length))

    columns = begins + starts(sent), lengths(sent), output_offsets + starts(sent), lengths(received)
    return jnp.stack(columns).reshape(4, -1)


def parts_of_a_slice(axes: Axes) -> int:
    """Parts into which a slice between ranks of `axes` is cut.

    Between hosts every slice is a message of its own, and stays whole.
    """
    if traced_platform() != "gpu":
        return 1
    mesh = jax.sharding.get_abstract_mesh()
    # Devices are numbered host by host, the last axis first.
    span = math.prod(mesh.axis_sizes[min(map(mesh.axis_names.index, axes)) :])
    here = jax.local_device_count() if jax.default_backend() == "gpu" else GPUS_OF_A_HOST
    return max(1, SLICES // axis_size(axes)) if here % span == 0 else 1


def psum(x: PyTreeT, axes: Axes) -> PyTreeT:
    """Sum of every leaf over `axes`; the result is the same on all of them."""
    return lax.psum(x, axes) if axes else x


def pmax(x: jax.Array, axes: Axes) -> jax.Array:
    """Elementwise maximum over `axes`; not differentiable."""
    return lax.pmax(x, axes) if axes else x


def axis_index(axes: Axes) -> jax.Array | int:
    """This rank's number along `axes`, the first axis slowest."""
    return lax.axis_index(axes) if axes else 0


def axis_size(axes: Axes) -> int:
    """Number of ranks along `axes`."""
    return math.prod(lax.axis_size(axis) for axis in axes)


def shard_slice(x: jax.Array, axes: Axes, dim: int) -> jax.Array:
    """This rank's slice along `dim` of an array that is whole on every rank of `axes`."""
    if not axes:
        return x
    size = x.shape[dim] // axis_size(axes)
    return lax.dynamic_slice_in_dim(x, axis_index(axes) * size, size, dim)


def join_slices(x: jax.Array, axes: Axes, dim: int) -> jax.Array:
    """The inverse of `shard_slice`: whole, and the same on every rank of `axes`."""
    if not axes:
        return x
    size = x.shape[dim]
    zeros = jnp.zeros((*x.shape[:dim], size * axis_size(axes), *x.shape[dim + 1 :]), x.dtype)
    placed = lax.dynamic_update_slice_in_dim(vary(zeros, axes), x, axis_index(axes) * size, dim)
    return psum(placed, axes)


def vary(tree: PyTreeT, axes: Axes) -> PyTreeT:
    """Mark every leaf as varying over `axes` (it may already vary over some of them)."""

    def leaf(x: jax.Array) -> jax.Array:
        missing = tuple(axis for axis in axes if axis not in jax.typeof(x).mat.varying)
        return lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(leaf, tree)


def ppermute(x: PyTreeT, axes: Axes, shift: int) -> PyTreeT:
    """Every rank's value moved by `shift` ranks along `axes`, around the end."""
    if not axes:
        return x
    size = axis_size(axes)
    return lax.ppermute(x, axes, [(i, (i + shift) % size) for i in range(size)])
