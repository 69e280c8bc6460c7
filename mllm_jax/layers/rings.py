"""Products of tensor ranks whose collectives are steps of a ring, each beside a product.

An all-gather of rows and the product after it cannot overlap: the product needs all rows. Block by
block they can. Every rank multiplies its block while its neighbours' arrive, and so on, from
both sides at once (four ranks, seen from rank 0)::

    sent       from 1, from 3    from 2
    product    block 0           block 1, block 3     block 2

The sum after a product runs the other way: the block of the farthest rank is multiplied first, and
every rank on its way adds its product to it. Barriers keep compilers from moving all products
before or after all steps. After Wang et al., "Overlap communication with
dependent computation via decomposition" (ASPLOS 2023, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from sharding.collectives import Axes, axis_index, axis_size, ppermute

#: Block of a rank to the results of products, each with the positions of the block in dimension 1.
Products = Callable[[jax.Array], Sequence[jax.Array]]
#: A rank's term of the block of another, by that rank's number along the axes.
BlockTerm = Callable[[jax.Array], jax.Array]


def gathered_products(x: jax.Array, axes: Axes, products: Products) -> list[jax.Array]:
    """`products` of the blocks of all ranks, one after the other in dimension 1.

    Args:
        x: `[rows, n, ...]`, this rank's block.
        axes: axes with more than one rank.

    Returns:
        For every result of `products`, `[rows, n, ...]`, an array `[rows, ranks * n, ...]`.
    """
    size, blocks = axis_size(axes), {1: x}
    outputs: list[jax.Array] = []
    for distance in range(size // 2 + 1):
        sent = {
            side: ppermute(blocks.get(side, x), axes, -side)
            for side in _open_sides(distance + 1, size)
        }
        results = {side: products(block) for side, block in blocks.items()}
        # What arrives is sent on after these products, so that transfer and products overlap.
        blocks, results = lax.optimization_barrier((sent, results))
        for side, of_block in results.items():
            outputs = outputs or [_zeros_for_ranks(x, size) for x in of_block]
            start = _rank_at(axes, side * distance) * x.shape[1]
            outputs = [
                lax.dynamic_update_slice_in_dim(output, x, start, 1)
                for output, x in zip(outputs, of_block, strict=True)
            ]
    return outputs


def scattered_sum(term: BlockTerm, axes: Axes, dtype: jnp.dtype) -> jax.Array:
    """This rank's block of the sum over all ranks of their terms.

    Args:
        term: makes a float32 term, whenever it is needed.
        axes: axes with more than one rank.
        dtype: type in which sums travel; they are added up in float32.
    """
    size = axis_size(axes)
    sums: dict[int, jax.Array] = {}  # by side, of the blocks that are sent on next
    for distance in range(size // 2, -1, -1):
        ranks = {side: _rank_at(axes, side * distance) for side in _open_sides(distance, size)}
        # Terms are computed after the sums are sent, so that transfer and products overlap.
        sums, ranks = lax.optimization_barrier((sums, ranks))
        arriving = {
            side: ppermute(block_sum.astype(dtype), axes, side) for side, block_sum in sums.items()
        }
        terms = {side: term(rank) for side, rank in ranks.items()}
        arriving, terms = lax.optimization_barrier((arriving, terms))
        sums = {
            side: _add_arriving(block_sum, arriving.get(side)) for side, block_sum in terms.items()
        }
    # The block of this rank comes last, and from both sides.
    return _add_arriving(sums[1], arriving.get(-1))


def _add_arriving(term: jax.Array, sums: jax.Array | None) -> jax.Array:
    return term if sums is None else term + sums.astype(term.dtype)


def rank_block(x: jax.Array, rank: jax.Array, axes: Axes) -> jax.Array:
    """The positions of `x`, `[rows, ranks * n, ...]`, that are those of a rank's block."""
    n = x.shape[1] // axis_size(axes)
    return lax.dynamic_slice_in_dim(x, rank * n, n, 1)


def _open_sides(distance: int, size: int) -> tuple[int, ...]:
    """Sides on which there is a rank at this distance that is not one of the other side."""
    if distance > size // 2:
        return ()
    return (1, -1) if 0 < 2 * distance < size else (1,)


def _rank_at(axes: Axes, distance: int) -> jax.Array:
    """Number along `axes` of the rank at a distance from this one."""
    return jnp.asarray((axis_index(axes) + distance) % axis_size(axes))


def _zeros_for_ranks(like: jax.Array, count: int) -> jax.Array:
    """Zeros for `count` blocks like `like`, varying as it does."""
    return jnp.concatenate([jnp.zeros_like(like)] * count, axis=1)
