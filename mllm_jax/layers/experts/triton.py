"""Products by groups on GPUs: two Triton kernels, written in Pallas.

XLA would make one dense product with all groups of `jax.lax.ragged_dot`, and a copy of all rows
for each group with the others' rows zero. Here a program of the grid computes a block of the
result:

- `product`: some rows of one group times some columns of its kernel. Rows after the groups are
  one more group, of zeros.
- `of_kernels`: some rows and columns of a group's kernel, in a loop over the rows of the group.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from mllm_jax.layers.varying import vary_like, without_types

#: Rows and columns of a block of the result.
BLOCK = 128
#: Bytes that a row of a block has along the dimension that is summed.
DEPTH = 128
PARAMS = plgpu.CompilerParams(num_warps=8, num_stages=3)


def product(
    rows: jax.Array,
    kernels: jax.Array,
    counts: jax.Array,
    transposed: bool,
    interpret: bool = False,
) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    width = kernels.shape[1 if transposed else 2]
    block = block_rows(len(rows), len(kernels)), _block_size(width), _block_depth(rows)

    def run(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
        tiles = _list_tiles(counts, len(rows), block[0])
        return pl.pallas_call(
            partial(_product_kernel, block=block, transposed=transposed),
            out_shape=jax.ShapeDtypeStruct((len(rows), width), rows.dtype),
            grid=(len(tiles), pl.cdiv(width, block[1])),
            compiler_params=PARAMS,
            interpret=interpret,
            name="grouped_product",
        )(tiles, rows, kernels)

    return vary_like(without_types(run)(rows, kernels, counts), rows)


def of_kernels(
    rows: jax.Array, gradient: jax.Array, counts: jax.Array, interpret: bool = False
) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    shape = len(counts), rows.shape[1], gradient.shape[1]
    block = _block_depth(rows), _block_size(shape[1]), _block_size(shape[2])

    def run(rows: jax.Array, gradient: jax.Array, counts: jax.Array) -> jax.Array:
        ends = jnp.cumsum(counts)
        return pl.pallas_call(
            partial(_of_kernels, block=block),
            out_shape=jax.ShapeDtypeStruct(shape, rows.dtype),
            grid=(shape[0], pl.cdiv(shape[1], block[1]), pl.cdiv(shape[2], block[2])),
            out_specs=pl.BlockSpec((None, *shape[1:]), lambda group, *_: (group, 0, 0)),
            compiler_params=PARAMS,
            interpret=interpret,
            name="grouped_product_of_kernels",
        )(jnp.stack([ends - counts, ends], axis=1), rows, gradient)

    return vary_like(without_types(run)(rows, gradient, counts), rows)


def _list_tiles(counts: jax.Array, rows: int, size: int) -> jax.Array:
    """`[tiles, 3]` int32: the group of a tile, its first row and the end of its rows.

    There are as many tiles as any counts need. Those of the rows after all groups have a number
    of their own for a group; those that are not needed have no rows.
    """
    counts = jnp.append(counts, rows - jnp.sum(counts)).astype(jnp.int32)
    each, ends = -(-counts // size), jnp.cumsum(counts)
    after = jnp.cumsum(each)
    number = jnp.arange(rows // size + len(counts), dtype=jnp.int32)
    group = jnp.sum(after[None] <= number[:, None], axis=1, dtype=jnp.int32)
    group = jnp.minimum(group, len(counts) - 1)
    begin = (ends - counts)[group] + (number - (after - each)[group]) * size
    return jnp.stack([group, begin, jnp.minimum(begin + size, ends[group])], axis=1)


def _product_kernel(
    tiles: Any, rows: Any, kernels: Any, out: Any, block: tuple[int, int, int], transposed: bool
) -> None:
    """A block `[rows, columns]` of the results of one tile."""
    tile, groups, depth = pl.program_id(0), kernels.shape[0], rows.shape[1]
    group, begin, end = (tiles[tile, i] for i in range(3))
    row = begin + jnp.arange(block[0])
    column = pl.program_id(1) * block[1] + jnp.arange(block[1])
    needed = (begin < end) & (group < groups)

    def step(number: jax.Array, total: jax.Array) -> jax.Array:
        inner = number * block[2] + jnp.arange(block[2])
        left = _load_block(rows, row, inner, end, depth)
        if transposed:
            right = _load_block(kernels, column, inner, out.shape[1], depth, group)
        else:
            right = _load_block(kernels, inner, column, depth, out.shape[1], group)
        return total + plgpu.dot(left, right, trans_b=transposed)

    steps = needed.astype(jnp.int32) * pl.cdiv(depth, block[2])
    total = lax.fori_loop(0, steps, step, jnp.zeros(block[:2], jnp.float32))
    _store_block(out, row, column, end, total)


def _of_kernels(
    bounds: Any, rows: Any, gradient: Any, out: Any, block: tuple[int, int, int]
) -> None:
    """A block `[inputs, outputs]` of the kernel of one group."""
    group = pl.program_id(0)
    begin, end = bounds[group, 0], bounds[group, 1]
    left = pl.program_id(1) * block[1] + jnp.arange(block[1])
    right = pl.program_id(2) * block[2] + jnp.arange(block[2])

    def step(number: jax.Array, total: jax.Array) -> jax.Array:
        row = begin + number * block[0] + jnp.arange(block[0])
        inputs = _load_block(rows, row, left, end, out.shape[0])
        gradients = _load_block(gradient, row, right, end, out.shape[1])
        return total + plgpu.dot(inputs, gradients, trans_a=True)

    steps = pl.cdiv(end - begin, block[0])
    total = lax.fori_loop(0, steps, step, jnp.zeros(block[1:], jnp.float32))
    _store_block(out, left, right, out.shape[0], total)


def _load_block(
    array: Any, rows: Any, columns: Any, end: Any, width: int, *group: Any
) -> jax.Array:
    """`array[*group, rows, columns]`, zero from row `end` and column `width` on."""
    inside = (rows < end)[:, None] & (columns < width)[None]
    return plgpu.load(array.at[*group, rows[:, None], columns[None]], mask=inside, other=0)


def _store_block(array: Any, rows: Any, columns: Any, end: Any, values: jax.Array) -> None:
    """`values` to `array[rows, columns]`, but nothing from row `end` or beyond the last column."""
    inside = (rows < end)[:, None] & (columns < array.shape[-1])[None]
    place = array.at[rows[:, None], columns[None]]
    plgpu.store(place, values.astype(array.dtype), mask=inside)


def block_rows(rows: int, groups: int) -> int:
    """Rows of a block of the result: not many more than a group has in the mean."""
    return _block_size(min(rows, max(1, rows // groups)))


def _block_size(size: int) -> int:
    """Rows or columns of a block: a power of two that Triton can multiply."""
    return min(BLOCK, max(16, 1 << (size - 1).bit_length()))


def _block_depth(rows: jax.Array) -> int:
    return DEPTH // rows.dtype.itemsize
