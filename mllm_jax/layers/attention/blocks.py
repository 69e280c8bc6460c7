"""Which blocks of keys the blocks of queries of packed rows see.

It is read from the segment ids, on the device, for kernels that compute no others. A causal row of
three segments, in blocks (`x` some pairs are visible, `o` all of them are, `.` none is)::

    x . . . . .
    o x . . . .
    x x x . . .
    . . x x . .
    . . x o x .
    . . x x x x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mllm_jax.layers.attention.limits import FLASH_BLOCK
from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.config.kinds import MaskKind

#: Id of the padding of the first block, smaller than all ids of segments; those of others follow.
_PADDING_ID = jnp.iinfo(jnp.int32).min


class MaskBlocks(NamedTuple):
    """Pairs of blocks, `[rows, tokens / queries, tokens / keys]` bool.

    Attributes:
        visible: whether a pair of tokens may be visible. Blocks of ids in ascending or descending
            runs, as packing makes them, have one; blocks of other ids may have none.
        full: whether all pairs of tokens are visible, so that no mask is needed.
    """

    visible: jax.Array
    full: jax.Array

    @staticmethod
    def of(tokens: TokenIds, mask: MaskKind, queries: int, keys: int) -> MaskBlocks:
        """Those of ids `[rows, tokens]` after `cut_padding`.

        Args:
            queries, keys: number of each in a block; they divide `FLASH_BLOCK`.
        """
        ids = tokens.boundary_ids
        begin = jnp.arange(0, ids.shape[1], queries)[None, :, None]
        key_begin = jnp.arange(0, ids.shape[1], keys)[None, None, :]
        of_queries, of_keys = _IdBounds.of(ids, queries), _IdBounds.of(ids, keys)
        padding = _compare_pairs(of_queries.padding, of_keys.padding, jnp.logical_and)
        padding &= begin // FLASH_BLOCK == key_begin // FLASH_BLOCK
        visible = _compare_pairs(of_queries.low, of_keys.high, jnp.less_equal) | padding
        visible &= _compare_pairs(of_queries.high, of_keys.low, jnp.greater_equal) | padding
        full = _compare_pairs(of_queries.single, of_keys.single, jnp.logical_and)
        full &= _compare_pairs(of_queries.first, of_keys.first, jnp.equal)
        # How far keys are behind queries, at least and at most.
        least, most = begin - (key_begin + keys - 1), begin + queries - 1 - key_begin
        if mask.causal:
            span = _span_pairs(tokens, mask, queries, keys)
            visible, full = (
                visible & ((most >= 0) | span.visible),
                full & ((least >= 0) | span.full),
            )
        if mask.window is not None:
            visible &= (least < mask.window) & (-most < mask.window)
            full &= (most < mask.window) & ((-least < mask.window) | (not mask.spans))
        return MaskBlocks(visible, full)

    @property
    def of_keys(self) -> MaskBlocks:
        """The same, by blocks of keys."""
        return MaskBlocks(self.visible.swapaxes(1, 2), self.full.swapaxes(1, 2))

    @property
    def loop_bounds(self) -> jax.Array:
        """Bounds of a loop over the blocks that one block attends to, `[rows, blocks, 4]` int32.

        The first of `visible` and the end of the last; the first of `full` and the end of its run.
        """
        number = jnp.arange(self.visible.shape[2])[None, None]
        first = jnp.argmax(self.visible, axis=2)
        last = jnp.where(self.visible, number + 1, 0).max(2)
        begin = jnp.argmax(self.full, axis=2)
        from_begin = number >= begin[:, :, None]
        gaps = jnp.cumsum(from_begin & ~self.full, axis=2)
        run = (from_begin & (gaps == 0)).sum(2)
        return jnp.stack([first, last, begin, begin + run], axis=2).astype(jnp.int32)


def _span_pairs(tokens: TokenIds, mask: MaskKind, queries: int, keys: int) -> MaskBlocks:
    """Pairs of blocks by their spans alone: whether some, or all, tokens share a span."""
    if not mask.spans or tokens.spans is None:
        nothing = jnp.zeros((), bool)
        return MaskBlocks(nothing, nothing)

    def span_bounds(size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        assert tokens.spans is not None
        spans = tokens.spans.reshape(len(tokens.spans), -1, size)
        low = jnp.where(spans > 0, spans, jnp.iinfo(jnp.int32).max).min(2)
        # The span of all of the block, or -1.
        single = (spans > 0).all(2) & (spans == spans[:, :, :1]).all(2)
        return low, spans.max(2), jnp.where(single, spans[:, :, 0], -1)

    (low, high, span), (other_low, other_high, other_span) = span_bounds(queries), span_bounds(keys)
    visible = _compare_pairs(low, other_high, jnp.less_equal) & _compare_pairs(
        high, other_low, jnp.greater_equal
    )
    full = _compare_pairs(span, other_span, jnp.equal) & (span > 0)[:, :, None]
    return MaskBlocks(visible, full)


def cut_padding(ids: jax.Array) -> jax.Array:
    """`ids` `[rows, tokens]` with another id for the padding of every `FLASH_BLOCK` tokens.

    What padding attends to means nothing: it attends within its block, which costs least.
    """
    number = jnp.arange(ids.shape[1], dtype=jnp.int32) // FLASH_BLOCK
    return jnp.where(ids == 0, _PADDING_ID + number, ids)


class _IdBounds(NamedTuple):
    """What every block of a row holds, arrays `[rows, blocks]`.

    Attributes:
        low, high: smallest and largest id of a segment; no id lies between those of padding alone.
        padding: whether it holds padding.
        single: whether all its tokens have one id.
        first: id of its first token.
    """

    low: jax.Array
    high: jax.Array
    padding: jax.Array
    single: jax.Array
    first: jax.Array

    @staticmethod
    def of(ids: jax.Array, size: int) -> _IdBounds:
        blocks = ids.reshape(len(ids), -1, size)
        padding = blocks < _PADDING_ID + ids.shape[1]
        return _IdBounds(
            low=jnp.where(padding, jnp.iinfo(jnp.int32).max, blocks).min(2),
            high=jnp.where(padding, _PADDING_ID, blocks).max(2),
            padding=padding.any(2),
            single=(blocks == blocks[:, :, :1]).all(2),
            first=blocks[:, :, 0],
        )


def _compare_pairs(
    of_queries: jax.Array, of_keys: jax.Array, compare: Callable[[Any, Any], jax.Array]
) -> jax.Array:
    """`compare` of every block of queries with every block of keys, of arrays `[rows, blocks]`."""
    return compare(of_queries[:, :, None], of_keys[:, None, :])
