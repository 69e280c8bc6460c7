"""Products of rows with the matrix of their group, without work for other groups.

Rows of one group lie together, in the order of the groups; rows behind the last group count for
nothing::

    counts 2, 3, 1     rows      a a b b b c . .         [rows, inputs]
                       kernels   A   B     C             [groups, inputs, outputs]
                       results   aA aA bB bB bB cC 0 0   [rows, outputs]

On accelerators this is `jax.lax.ragged_dot`. On CPUs XLA would make it one dense product with all
groups, so there a loop goes over tiles of rows of one group each: a group of n rows has n / tile
tiles, rounded up, and an empty group has none. The last tile of a group covers rows of others;
their results stay as they are::

    tile 2             [a a] [b b] [b c] [c .]    results of the third: of its first row alone
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models.platform import traced_platform
from mllm_jax.models.varying import vary_like

#: Rows of a tile at most: more of them are computed for nothing, fewer waste the loads of a matrix.
TILE = 64


def grouped_product(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
    """Every row times the kernel of its group.

    Args:
        rows: `[rows, inputs]`, sorted by their groups.
        kernels: `[groups, inputs, outputs]`, in the type of the rows.
        counts: `[groups]` int32, rows of every group; their sum is at most the number of rows.

    Returns:
        `[rows, outputs]` in the type of the rows. Rows behind those that are counted are zero, and
        so are their gradients, whatever they hold.
    """
    rows, kernels, counts = vary_like((rows, kernels, counts), (rows, kernels, counts))
    if traced_platform() == "cpu":
        return _by_tiles(rows, kernels, counts)
    counted = (jnp.arange(len(rows)) < jnp.sum(counts))[:, None]
    return jnp.where(counted, lax.ragged_dot(jnp.where(counted, rows, 0), kernels, counts), 0)


class _Tile(NamedTuple):
    """A tile of rows of one group.

    Attributes:
        group: number of the group.
        start: first row that is read.
        own: `[tile, 1]`, whether a row is of the group and of no other tile.
    """

    group: jax.Array
    start: jax.Array
    own: jax.Array


class _Tiles:
    """The tiles of sorted rows.

    Args:
        counts: `[groups]` int32.
        rows: number of rows.
    """

    def __init__(self, counts: jax.Array, rows: int) -> None:
        groups = len(counts)
        self.rows, self.size = rows, _tile(rows, groups)
        each = -(-counts // self.size)
        ends, self._ends = jnp.cumsum(each), jnp.cumsum(counts)
        self.count = ends[-1]
        number = jnp.arange(rows // self.size + groups)
        group = jnp.sum(ends[None] <= number[:, None], axis=1, dtype=jnp.int32)
        self._groups = jnp.minimum(group, groups - 1)
        before, begins = (ends - each)[self._groups], (self._ends - counts)[self._groups]
        self._begins = begins + (number - before) * self.size

    def __getitem__(self, number: jax.Array) -> _Tile:
        group, begin = self._groups[number], self._begins[number]
        # A tile does not reach beyond the last row: it begins earlier instead.
        start = jnp.minimum(begin, self.rows - self.size)
        row = start + jnp.arange(self.size)
        end = jnp.minimum(begin + self.size, self._ends[group])
        return _Tile(group, start, ((row >= begin) & (row < end))[:, None])

    def read(self, x: jax.Array, tile: _Tile) -> jax.Array:
        """The rows of a tile, some of them not its own."""
        return lax.dynamic_slice_in_dim(x, tile.start, self.size)

    def loop(self, body: Callable[[_Tile, jax.Array], jax.Array], start: jax.Array) -> jax.Array:
        """`body` of every tile, from `start` on."""
        return lax.fori_loop(0, self.count, lambda n, carry: body(self[n], carry), start)


def _tile(rows: int, groups: int) -> int:
    """Rows of a tile: a power of two below half of a group's mean, so that little is in vain."""
    wanted = max(8, min(TILE, rows // (2 * groups)))
    return min(rows, 1 << (wanted.bit_length() - 1))


@jax.custom_vjp
def _by_tiles(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
    return _products(rows, kernels, counts, contracted=1)


def _products(rows: jax.Array, kernels: jax.Array, counts: jax.Array, contracted: int) -> jax.Array:
    """Rows times kernels over a dimension of these, tile by tile."""
    tiles = _Tiles(counts, len(rows))

    def body(tile: _Tile, made: jax.Array) -> jax.Array:
        kernel = lax.dynamic_index_in_dim(kernels, tile.group, keepdims=False)
        dimensions = (((1,), (contracted - 1,)), ((), ()))
        own = lax.dot_general(tiles.read(rows, tile), kernel, dimensions)
        own = jnp.where(tile.own, own, tiles.read(made, tile))
        return lax.dynamic_update_slice_in_dim(made, own, tile.start, 0)

    made = jnp.zeros((len(rows), kernels.shape[3 - contracted]), rows.dtype)
    return tiles.loop(body, vary_like(made, rows))


def _of_kernels(rows: jax.Array, gradient: jax.Array, counts: jax.Array, groups: int) -> jax.Array:
    """Of every group the rows transposed, times their gradients: `[groups, inputs, outputs]`."""
    tiles = _Tiles(counts, len(rows))

    def body(tile: _Tile, sums: jax.Array) -> jax.Array:
        own = jnp.where(tile.own, tiles.read(rows, tile), 0)
        dimensions = (((0,), (0,)), ((), ()))
        others = tiles.read(gradient, tile)
        added = lax.dot_general(own, others, dimensions, preferred_element_type=jnp.float32)
        added += lax.dynamic_index_in_dim(sums, tile.group, keepdims=False)
        return lax.dynamic_update_index_in_dim(sums, added, tile.group, 0)

    sums = jnp.zeros((groups, rows.shape[1], gradient.shape[1]), jnp.float32)
    return tiles.loop(body, vary_like(sums, rows)).astype(rows.dtype)


Residuals = tuple[jax.Array, jax.Array, jax.Array]


def _forward(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> tuple[jax.Array, Residuals]:
    return _by_tiles(rows, kernels, counts), (rows, kernels, counts)


def _backward(kept: Residuals, gradient: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    rows, kernels, counts = kept
    of_rows = _products(gradient, kernels, counts, contracted=2)
    return of_rows, _of_kernels(rows, gradient, counts, len(kernels)), None


_by_tiles.defvjp(_forward, _backward)
