"""Products by groups on TPUs: two kernels, written in Pallas.

XLA's own kernel for `jax.lax.ragged_dot` wants a transposed copy of all kernels for the gradients
of rows, and for the gradients of kernels XLA multiplies all rows with all groups. The kernels here
go through blocks of rows as those of MegaBlocks do (arXiv 2211.15841, section 5): a block is
visited once for each group that has rows in it::

    rows      a a b b | b c c c      groups a, b, c, of 2, 3 and 3 rows
    visits    a0 b0     b1 c1

- `product` keeps the rows of the group of a visit, and zeros after the groups, which are rows of
  one more group.
- `of_kernels` adds up the visits of a group.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mllm_jax.layers.varying import vary_like, without_types

#: Rows of a block at most, and at least: the side of a unit that multiplies matrices.
ROWS, FEWEST = 512, 128
#: Bytes of the columns of a block at most: with two buffers of each, and sums, 12 of 16 MiB.
WIDTH = 2048


class _BlockVisits(NamedTuple):
    """Visits of blocks of rows for groups, in this order; `[visits]` int32 each.

    Attributes:
        group: number of the group.
        block: number of the block.
        begin, end: rows of the group.
    """

    group: jax.Array
    block: jax.Array
    begin: jax.Array
    end: jax.Array

    @classmethod
    def of(cls, counts: jax.Array, rows: int, size: int) -> tuple[_BlockVisits, jax.Array]:
        """As many visits as any counts need, those of the rows after the groups at their end.

        Returns:
            The visits, and `[groups + 1]` the number of them until the end of each group. A group
            without rows has one visit.
        """
        counts = jnp.append(counts, rows - jnp.sum(counts)).astype(jnp.int32)
        ends = jnp.cumsum(counts)
        begins = ends - counts
        first = jnp.minimum(begins, rows - 1) // size
        each = jnp.maximum(1, -(-ends // size) - first)
        after = jnp.cumsum(each)
        number = jnp.arange(-(-rows // size) + len(counts), dtype=jnp.int32)
        group = jnp.sum(after[None] <= number[:, None], axis=1, dtype=jnp.int32)
        group = jnp.minimum(group, len(counts) - 1)
        block = first[group] + number - (after - each)[group]
        return cls(group, block, begins[group], ends[group]), after

    def group_mask(self, visit: Any, size: int, width: int) -> jax.Array:
        """`[size, width]`, whether rows of the block belong to the group of a visit."""
        shape = size, width
        row = self.block[visit] * size + lax.broadcasted_iota(jnp.int32, shape, 0)
        return (row >= self.begin[visit]) & (row < self.end[visit])


def product(
    rows: jax.Array,
    kernels: jax.Array,
    counts: jax.Array,
    transposed: bool,
    interpret: bool = False,
) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    depth, width = (kernels.shape[i] for i in ((2, 1) if transposed else (1, 2)))
    tile = (
        block_rows(len(rows), len(kernels)),
        _block_columns(depth, rows),
        _block_columns(width, rows),
    )
    last = len(kernels) - 1

    def of_kernels(
        column: Any, visit: Any, step: Any, visits: _BlockVisits
    ) -> tuple[Any, Any, Any]:
        group = jnp.minimum(visits.group[visit], last)
        return (group, column, step) if transposed else (group, step, column)

    def run(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
        visits, after = _BlockVisits.of(counts, len(rows), tile[0])
        of_kernel = (None, *(tile[:0:-1] if transposed else tile[1:]))
        return pl.pallas_call(
            partial(_product_kernel, groups=len(kernels), transposed=transposed),
            out_shape=jax.ShapeDtypeStruct((len(rows), width), rows.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(width // tile[2], after[-1], depth // tile[1]),
                in_specs=[
                    pl.BlockSpec((tile[0], tile[1]), lambda n, v, k, visits: (visits.block[v], k)),
                    pl.BlockSpec(of_kernel, of_kernels),
                ],
                out_specs=pl.BlockSpec(
                    (tile[0], tile[2]), lambda n, v, k, visits: (visits.block[v], n)
                ),
                scratch_shapes=[pltpu.VMEM((tile[0], tile[2]), jnp.float32)],
            ),
            compiler_params=_PARAMS,
            cost_estimate=_estimate_cost(rows, kernels, (len(rows), width)),
            interpret=interpret,
            name="grouped_product",
        )(visits, rows, kernels)

    return vary_like(without_types(run)(rows, kernels, counts), rows)


def of_kernels(
    rows: jax.Array, gradient: jax.Array, counts: jax.Array, interpret: bool = False
) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    shape = len(counts), rows.shape[1], gradient.shape[1]
    size = block_rows(len(rows), len(counts))
    tile = size, _block_columns(shape[1], rows), _block_columns(shape[2], rows)

    def run(rows: jax.Array, gradient: jax.Array, counts: jax.Array) -> jax.Array:
        visits, after = _BlockVisits.of(counts, len(rows), tile[0])
        return pl.pallas_call(
            _of_kernels,
            out_shape=jax.ShapeDtypeStruct(shape, rows.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(shape[1] // tile[1], shape[2] // tile[2], after[-2]),
                in_specs=[
                    pl.BlockSpec((tile[0], tile[1]), lambda i, o, v, visits: (visits.block[v], i)),
                    pl.BlockSpec((tile[0], tile[2]), lambda i, o, v, visits: (visits.block[v], o)),
                ],
                out_specs=pl.BlockSpec(
                    (None, *tile[1:]), lambda i, o, v, visits: (visits.group[v], i, o)
                ),
                scratch_shapes=[pltpu.VMEM(tile[1:], jnp.float32)],
            ),
            compiler_params=_PARAMS,
            cost_estimate=_estimate_cost(rows, gradient, shape),
            interpret=interpret,
            name="grouped_product_of_kernels",
        )(visits, rows, gradient)

    return vary_like(without_types(run)(rows, gradient, counts), rows)


_PARAMS = pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary"))


def _product_kernel(
    visits: _BlockVisits,
    rows: Any,
    kernel: Any,
    out: Any,
    total: Any,
    groups: int,
    transposed: bool,
) -> None:
    """A block `[rows, columns]` of the results, from some of the columns of the rows."""
    visit, step = pl.program_id(1), pl.program_id(2)

    @pl.when(step == 0)
    def begin() -> None:
        total[...] = jnp.zeros_like(total)

    @pl.when(visits.group[visit] < groups)
    def add() -> None:
        contracted = 1 if transposed else 0
        dimensions = (((1,), (contracted,)), ((), ()))
        total[...] += lax.dot_general(
            rows[...], kernel[...], dimensions, preferred_element_type=jnp.float32
        )

    @pl.when(step == pl.num_programs(2) - 1)
    def end() -> None:
        # The other rows are those of visits before, or will be those of visits to come.
        others = out[...].astype(jnp.float32)
        values = jnp.where(visits.group_mask(visit, *out.shape), total[...], others)
        out[...] = values.astype(out.dtype)


def _of_kernels(visits: _BlockVisits, rows: Any, gradient: Any, out: Any, total: Any) -> None:
    """A block `[inputs, outputs]` of the kernel of a group, from a block of rows."""
    visit, last = pl.program_id(2), pl.num_programs(2) - 1
    group = visits.group[visit]

    @pl.when((visit == 0) | (visits.group[jnp.maximum(visit - 1, 0)] != group))
    def begin() -> None:
        total[...] = jnp.zeros_like(total)

    inputs, gradients = (
        jnp.where(visits.group_mask(visit, *x.shape), x[...].astype(jnp.float32), 0).astype(x.dtype)
        for x in (rows, gradient)
    )
    dimensions = (((0,), (0,)), ((), ()))
    total[...] += lax.dot_general(inputs, gradients, dimensions, preferred_element_type=jnp.float32)

    @pl.when((visit == last) | (visits.group[jnp.minimum(visit + 1, last)] != group))
    def end() -> None:
        out[...] = total[...].astype(out.dtype)


def block_rows(rows: int, groups: int) -> int:
    """Rows of a block: not many more than a group has in the mean.

    All rows of a block are multiplied in each of its visits, of which there are at most as many as
    blocks and groups together: a larger block would multiply rows for groups that have few. It is
    a multiple of the tiles of memory, which have 16 rows in bfloat16.
    """
    mean = 1 << max(rows // groups, 1).bit_length() - 1
    return min(max(FEWEST, min(ROWS, mean)), -(-rows // 16) * 16)


def _block_columns(width: int, like: jax.Array) -> int:
    """Columns of a block: a multiple of 128 that divides the width, or all of them."""
    most = WIDTH // like.dtype.itemsize
    return next((size for size in range(most, 127, -128) if width % size == 0), width)


def _estimate_cost(left: jax.Array, right: jax.Array, result: tuple[int, ...]) -> pl.CostEstimate:
    """FLOPs and bytes of a product, for the compiler's schedule."""
    sizes = left.size, right.size, math.prod(result)
    columns = math.prod(result[1:]) if len(result) == 3 else left.shape[1] * result[1]
    return pl.CostEstimate(
        flops=2 * len(left) * columns,
        bytes_accessed=sum(sizes) * left.dtype.itemsize,
        transcendentals=0,
    )
