"""Attention of new tokens to the keys and values that a layer has kept of the tokens before.

The cache of a layer is made of slots, columns of its arrays. New tokens take the next slots, and
see a slot if it holds a token of their segment that is not behind them; so rows may hold segments
of unlike lengths, whose slots lie anywhere. Segments of 3 and 2 tokens, and two steps of decoding::

    slots       0 1 2 3 4 | 5 6 | 7 8
    ids         1 1 1 2 2 | 1 2 | 1 0      0: empty, or the answer has ended
    positions   0 1 2 0 1 | 3 2 | 4 0
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.attention.reference import attend


class Past(NamedTuple):
    """The cache of a layer.

    Attributes:
        keys, values: `[rows, kv_heads, slots, head_dim]`: as attention takes them, of the heads of
            this rank; keys are rotated.
        ids: `[rows, slots]` int32: segment of the token of each slot, new tokens included; 0 where
            there is none.
        positions: `[rows, slots]` int32: positions of these tokens in their segments.
        start: first slot of the new tokens, an int32 scalar; None: the first slot of all, and new
            tokens see one another alone.
    """

    keys: jax.Array
    values: jax.Array
    ids: jax.Array
    positions: jax.Array
    start: jax.Array | None = None

    def extended(self, keys: jax.Array, values: jax.Array) -> Past:
        """The cache with those of the new tokens, `[rows, tokens, kv_heads, head_dim]`."""
        first = jnp.int32(0) if self.start is None else self.start

        def put(kept: jax.Array, new: jax.Array) -> jax.Array:
            heads_first = new.swapaxes(1, 2).astype(kept.dtype)
            return lax.dynamic_update_slice_in_dim(kept, heads_first, first, axis=2)

        return self._replace(keys=put(self.keys, keys), values=put(self.values, values))


def attend_to(past: Past, q: jax.Array, window: int | None) -> jax.Array:
    """Softmax attention of new tokens to all slots of their segments up to themselves.

    Args:
        past: cache with the new tokens in it; `start` is given.
        q: `[rows, tokens, heads, head_dim]`; `heads` is a multiple of `kv_heads`.
        window: tokens that a token sees, itself and those before it; None = all of its segment.

    Returns:
        `[rows, tokens, heads, head_dim]` in the type of `q`.
    """
    scaled = (q * q.shape[-1] ** -0.5).swapaxes(1, 2)
    mask = _visible(past, q.shape[1], window)
    return attend(scaled, past.keys, past.values, mask).swapaxes(1, 2)


def _visible(past: Past, tokens: int, window: int | None) -> jax.Array:
    """Which slots the new tokens see, `[rows, tokens, slots]` bool."""
    start = past.start
    assert start is not None  # as the caller knows

    def new(x: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(x, start, tokens, axis=1)[:, :, None]

    behind = new(past.positions) - past.positions[:, None, :]
    mask = (new(past.ids) == past.ids[:, None, :]) & (behind >= 0)
    return mask if window is None else mask & (behind < window)
