"""Products by groups on CPUs: a loop over tiles of rows of one group each.

XLA for CPUs would make one dense product with all groups of `jax.lax.ragged_dot`. Here a group of
n rows has n / tile tiles, rounded up, and an empty group has none. The last tile of a group covers
rows of others; their results stay as they are::

    tile 2             [a a] [b b] [b c] [c .]    results of the third: of its first row alone
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.varying import vary_like

#: Rows of a tile at most: more of them are computed for nothing, fewer waste the loads of a matrix.
TILE = 64


class _RowTile(NamedTuple):
    """A tile of rows of one group.

    Attributes:
        group: number of the group.
        start: first row that is read.
        mask: `[tile, 1]`, whether a row is of the group and of no other tile.
    """

    group: jax.Array
    start: jax.Array
    mask: jax.Array


class _RowTiles:
    """The tiles of sorted rows.

    Args:
        counts: `[groups]` int32.
        rows: number of rows.
    """

    def __init__(self, counts: jax.Array, rows: int) -> None:
        groups = len(counts)
        self.rows, self.size = rows, _tile_size(rows, groups)
        each = -(-counts // self.size)
        ends, self._ends = jnp.cumsum(each), jnp.cumsum(counts)
        self.count = ends[-1]
        number = jnp.arange(rows // self.size + groups)
        group = jnp.sum(ends[None] <= number[:, None], axis=1, dtype=jnp.int32)
        self._groups = jnp.minimum(group, groups - 1)
        before, begins = (ends - each)[self._groups], (self._ends - counts)[self._groups]
        self._begins = begins + (number - before) * self.size

    def __getitem__(self, number: jax.Array) -> _RowTile:
        group, begin = self._groups[number], self._begins[number]
        # A tile does not reach beyond the last row: it begins earlier instead.
        start = jnp.minimum(begin, self.rows - self.size)
        row = start + jnp.arange(self.size)
        end = jnp.minimum(begin + self.size, self._ends[group])
        return _RowTile(group, start, ((row >= begin) & (row < end))[:, None])

    def read_rows(self, x: jax.Array, tile: _RowTile) -> jax.Array:
        """The rows of a tile, of which some belong to other groups."""
        return lax.dynamic_slice_in_dim(x, tile.start, self.size)

    def loop_tiles(
        self, body: Callable[[_RowTile, jax.Array], jax.Array], start: jax.Array
    ) -> jax.Array:
        """`body` of every tile, from `start` on."""
        return lax.fori_loop(0, self.count, lambda n, carry: body(self[n], carry), start)


def _tile_size(rows: int, groups: int) -> int:
    """Rows of a tile: a power of two below half of a group's mean, so that little is in vain."""
    target = max(8, min(TILE, rows // (2 * groups)))
    return min(rows, 1 << (target.bit_length() - 1))


def product(rows: jax.Array, kernels: jax.Array, counts: jax.Array, transposed: bool) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    tiles, contracted = _RowTiles(counts, len(rows)), 1 if transposed else 0

    def write_tile(tile: _RowTile, out: jax.Array) -> jax.Array:
        kernel = lax.dynamic_index_in_dim(kernels, tile.group, keepdims=False)
        dimensions = (((1,), (contracted,)), ((), ()))
        values = lax.dot_general(tiles.read_rows(rows, tile), kernel, dimensions)
        values = jnp.where(tile.mask, values, tiles.read_rows(out, tile))
        return lax.dynamic_update_slice_in_dim(out, values, tile.start, 0)

    zeros = jnp.zeros((len(rows), kernels.shape[2 - contracted]), rows.dtype)
    return tiles.loop_tiles(write_tile, vary_like(zeros, rows))


def of_kernels(rows: jax.Array, gradient: jax.Array, counts: jax.Array) -> jax.Array:
    """See `mllm_jax.layers.experts.grouped.GroupedProducts`."""
    tiles = _RowTiles(counts, len(rows))

    def add_tile(tile: _RowTile, sums: jax.Array) -> jax.Array:
        inputs = jnp.where(tile.mask, tiles.read_rows(rows, tile), 0)
        dimensions = (((0,), (0,)), ((), ()))
        gradients = tiles.read_rows(gradient, tile)
        added = lax.dot_general(inputs, gradients, dimensions, preferred_element_type=jnp.float32)
        added += lax.dynamic_index_in_dim(sums, tile.group, keepdims=False)
        return lax.dynamic_update_index_in_dim(sums, added, tile.group, 0)

    sums = jnp.zeros((len(counts), rows.shape[1], gradient.shape[1]), jnp.float32)
    return tiles.loop_tiles(add_tile, vary_like(sums, rows)).astype(rows.dtype)
