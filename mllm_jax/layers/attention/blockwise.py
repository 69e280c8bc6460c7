"""Blockwise attention: of any mask, a block of queries attends only to keys that it may see.

A packed row has many segments, and a query sees one of them. The keys that a block of queries sees
lie in a window, whose width is the smallest of a few that are compiled. Work grows with the lengths
of segments, not of rows. A backward computes its scores again, so that a
forward keeps nothing but its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.attention.masks import TokenIds, visible_keys
from mllm_jax.layers.attention.reference import attend_masked
from mllm_jax.layers.attention.untyped_kernel import untyped_kernel
from mllm_jax.layers.config.kinds import MaskKind

Arrays = tuple[jax.Array, jax.Array, jax.Array]

#: Queries of a block. Smaller ones compute less that is masked, in smaller products.
BLOCK = 128


class KeyWindow(NamedTuple):
    """The window of keys of a block of queries; or of every block, in arrays.

    Attributes:
        row: row of the block.
        query, key: positions of its first query, and of the first key of its window.
        width: width of its window, as an index into `window_widths`.
    """

    row: jax.Array
    query: jax.Array
    key: jax.Array
    width: jax.Array


def blockwise_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    tokens: TokenIds,
    mask: MaskKind,
    block: int = BLOCK,
) -> jax.Array:
    """Attention, block by block of queries, to windows of keys that are as wide as needed."""
    count = q.shape[1]
    block = min(block, count)
    # Positions that fill the last block of a row are a separate segment.
    fill = (0, -count % block)

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        scaled = q * q.shape[-1] ** -0.5
        by_head = [
            jnp.pad(x, ((0, 0), fill, (0, 0), (0, 0))).swapaxes(1, 2) for x in (scaled, k, v)
        ]
        without_index = replace(tokens, index=None)  # which the backward would save
        tokens = jax.tree.map(
            lambda x: jnp.pad(x, ((0, 0), fill), constant_values=-1), without_index
        )
        return _blockwise_attention(*by_head, tokens, mask, block).swapaxes(1, 2)[:, :count]

    return untyped_kernel(kernel)(q, k, v, tokens)


def window_widths(tokens: int, block: int) -> list[int]:
    """Widths of windows that are compiled: two blocks, doubled until they are the row."""
    sizes = [min(tokens, 2 * block)]
    while sizes[-1] < tokens:
        sizes.append(min(tokens, 2 * sizes[-1]))
    return sizes


def find_windows(tokens: TokenIds, mask: MaskKind, block: int) -> KeyWindow:
    """The narrowest window of every block that contains all keys which the block's queries see.

    Args:
        tokens: ids `[rows, tokens]`, tokens a multiple of `block`.

    Returns:
        Arrays `[rows * blocks]` int32, row by row.
    """
    rows, count = tokens.boundary_ids.shape
    blocks = count // block
    position = jnp.arange(count)
    tokens = replace(tokens, index=position[None])
    seen = visible_keys(tokens, tokens, mask).reshape(rows, blocks, -1, count)
    first = jnp.where(seen, position, count).min((2, 3))
    last = jnp.where(seen, position, 0).max((2, 3))
    sizes = jnp.asarray(window_widths(count, block))
    width = jnp.searchsorted(sizes, last + 1 - first)
    row = jnp.broadcast_to(jnp.arange(rows)[:, None], (rows, blocks))
    query = jnp.broadcast_to(position[::block], (rows, blocks))
    key = jnp.minimum(first, count - sizes[width])
    return KeyWindow(*(x.astype(jnp.int32).ravel() for x in (row, query, key, width)))


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _blockwise_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, mask: MaskKind, block: int
) -> jax.Array:
    """`[rows, heads, tokens, head_dim]` from q (scaled), k and v in the same order."""

    def attend_block(window: KeyWindow) -> jax.Array:
        return _switch_width(window, tokens, block, attend_width)

    def attend_width(window: KeyWindow, width: int) -> jax.Array:
        seen = _visible_keys(window, tokens, mask, block, width)
        return attend_masked(*_window_inputs(window, (q, k, v), block, width), seen)

    return _join_blocks(lax.map(attend_block, find_windows(tokens, mask, block)), q)


def _forward(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, mask: MaskKind, block: int
) -> tuple[jax.Array, tuple[Any, ...]]:
    return _blockwise_attention(q, k, v, tokens, mask, block), (q, k, v, tokens)


def _backward(
    mask: MaskKind, block: int, saved: tuple[Any, ...], d_out: jax.Array
) -> tuple[jax.Array | None, ...]:
    *arrays, tokens = saved

    def backward_block(
        sums: list[jax.Array], window: KeyWindow
    ) -> tuple[list[jax.Array], jax.Array]:
        return _switch_width(window, tokens, block, partial(backward_width, sums))

    def backward_width(
        sums: list[jax.Array], window: KeyWindow, width: int
    ) -> tuple[list[jax.Array], jax.Array]:
        seen = _visible_keys(window, tokens, mask, block, width)
        inputs = _window_inputs(window, arrays, block, width)
        _, pullback = jax.vjp(lambda q, k, v: attend_masked(q, k, v, seen), *inputs)
        d_q, *d_kv = pullback(_cut_positions(d_out, window.row, window.query, block))
        return [_add_part(*pair, window) for pair in zip(sums, d_kv, strict=True)], d_q

    zeros = [jnp.zeros_like(x) for x in arrays[1:]]
    sums, d_q = lax.scan(backward_block, zeros, find_windows(tokens, mask, block))
    return (_join_blocks(d_q, arrays[0]), *sums, None)


_blockwise_attention.defvjp(_forward, _backward)


def _switch_width(
    window: KeyWindow, tokens: TokenIds, block: int, branch: Callable[[KeyWindow, int], Any]
) -> Any:
    """`branch` of a window with its width, which is one of a few."""
    sizes = window_widths(tokens.boundary_ids.shape[1], block)
    return lax.switch(window.width, [partial(branch, window, width) for width in sizes])


def _window_inputs(window: KeyWindow, arrays: Any, block: int, width: int) -> Arrays:
    """The block of q, and the windows of k and v."""
    q, k, v = arrays
    queries = _cut_positions(q, window.row, window.query, block)
    return (
        queries,
        _cut_positions(k, window.row, window.key, width),
        _cut_positions(v, window.row, window.key, width),
    )


def _visible_keys(
    window: KeyWindow, tokens: TokenIds, mask: MaskKind, block: int, width: int
) -> jax.Array:
    """Which keys of its window a query sees, `[1, block, width]` bool."""

    def columns(start: jax.Array, count: int) -> TokenIds:
        boundary_ids, spans = (
            None if ids is None else lax.dynamic_slice(ids, (window.row, start), (1, count))
            for ids in (tokens.boundary_ids, tokens.spans)
        )
        assert boundary_ids is not None
        return TokenIds(boundary_ids, start + jnp.arange(count, dtype=jnp.int32)[None], spans)

    return visible_keys(columns(window.query, block), columns(window.key, width), mask)


def _cut_positions(x: jax.Array, row: jax.Array, start: jax.Array, count: int) -> jax.Array:
    """`count` positions of a row of `[rows, heads, tokens, head_dim]`."""
    return lax.dynamic_slice(x, (row, 0, start, 0), (1, x.shape[1], count, x.shape[3]))


def _add_part(x: jax.Array, part: jax.Array, window: KeyWindow) -> jax.Array:
    """`x` plus `part` in a window."""
    values = _cut_positions(x, window.row, window.key, part.shape[2]) + part
    return lax.dynamic_update_slice(x, values, (window.row, 0, window.key, 0))


def _join_blocks(blocks: jax.Array, like: jax.Array) -> jax.Array:
    """`[rows * blocks, 1, heads, block, head_dim]` in the order of `like`."""
    rows, heads, _, head_dim = like.shape
    blocks = blocks.reshape(rows, -1, heads, blocks.shape[3], head_dim)
    return blocks.swapaxes(1, 2).reshape(like.shape)
