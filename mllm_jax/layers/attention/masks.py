"""Which tokens see which, by their ids and by their order: the reference for every backend.

Kernels skip and mask blocks, and encode the same rules again: `MaskBlocks`, the Pallas kernels,
those of libraries, and `MaskKind.key_range`. Tests compare each of them with `visible_keys`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.config.kinds import MaskKind


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TokenIds:
    """What a mask compares of tokens, `[rows, tokens]` int32.

    Attributes:
        boundary_ids: ids that bound attention, such as those of segments or of windows; tokens see
            tokens of their id. 0 is padding, which sees padding.
        index: position of a token in its segment, or in its row; None for complete rows whose masks
            have no chunks (`to_row_positions`).
        spans: number of a token's span, 0 outside of spans; None where no mask reads them.
    """

    boundary_ids: jax.Array
    index: jax.Array | None = None
    spans: jax.Array | None = None


def visible_keys(queries: TokenIds, keys: TokenIds, mask: MaskKind) -> jax.Array:
    """Which keys a query sees, `[rows, queries, keys]` bool.

    With boundary ids `1 1 2` in causal order::

        1 . .
        1 1 .
        . . 1

    With boundary ids `1 1 1` and a window of 2::

        1 . .
        1 1 .
        . 1 1

    >>> tokens = TokenIds(jnp.array([[1, 1, 2]]), index=jnp.array([[0, 1, 0]]))
    >>> print(visible_keys(tokens, tokens, MaskKind())[0].astype(jnp.int32))
    [[1 0 0]
     [1 1 0]
     [0 0 1]]

    Args:
        queries, keys: ids of `[rows, queries]` and of `[rows, keys]`; an index may be of one row,
            which then is that of all.
    """
    seen = queries.boundary_ids[:, :, None] == keys.boundary_ids[:, None, :]
    if not mask.causal and mask.chunk is None:
        return seen
    assert queries.index is not None  # as the callers know
    assert keys.index is not None
    query, key = queries.index[:, :, None], keys.index[:, None, :]
    if mask.causal:
        seen &= (query >= key) | _same_span(queries, keys) if mask.spans else query >= key
    if mask.window is not None:
        seen &= query - key < mask.window
        if mask.spans:
            seen &= key - query < mask.window
    if mask.chunk is not None:
        seen &= query // mask.chunk == key // mask.chunk
    return seen


def _same_span(queries: TokenIds, keys: TokenIds) -> jax.Array:
    assert queries.spans is not None  # as the callers know
    assert keys.spans is not None
    query, key = queries.spans[:, :, None], keys.spans[:, None, :]
    return (query == key) & (query > 0)


def place_in_segments(segment_ids: jax.Array) -> jax.Array:
    """Place of each token in its segment, `[rows, tokens]` int32; segments are runs of one id.

    >>> print(place_in_segments(jnp.array([[1, 1, 1, 2, 2, 0]])))
    [[0 1 2 0 1 0]]
    """
    place = jnp.arange(segment_ids.shape[1], dtype=jnp.int32)[None]
    begins = jnp.pad(segment_ids[:, 1:] != segment_ids[:, :-1], ((0, 0), (1, 0)))
    return place - lax.cummax(jnp.where(begins, place, 0), axis=1)


def to_row_positions(tokens: TokenIds, mask: MaskKind) -> tuple[TokenIds, MaskKind]:
    """Ids and a mask without chunks that show every token the same, by positions in the row.

    Segments lie one after the other in a row, so that positions in the row have the order and the
    distances of the index in a segment. A chunk becomes an id: the position of its first token.

    Args:
        tokens: ids `[rows, tokens]`; the index is read by chunks alone.

    Raises:
        ValueError: the mask has spans or chunks, and the tokens have no spans or no index.
    """
    if mask.spans and tokens.spans is None:
        raise ValueError("a mask with spans needs the span of every token")
    if mask.chunk is not None and tokens.index is None:
        raise ValueError(f"a mask with chunks of {mask.chunk} needs the index of every token")
    position = jnp.arange(tokens.boundary_ids.shape[1], dtype=jnp.int32)[None]
    ids, spans = tokens.boundary_ids, tokens.spans if mask.spans else None
    if mask.chunk is not None and tokens.index is not None:
        ids = jnp.where(ids == 0, 0, 1 + position - tokens.index % mask.chunk)
    return TokenIds(ids, position, spans), replace(mask, chunk=None)
