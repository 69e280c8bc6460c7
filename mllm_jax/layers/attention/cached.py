"""Attention of new tokens to the keys and values that a layer keeps of the tokens before.

The cache of a layer is made of slots, columns of its arrays. New tokens take the next slots, and
see a slot if it holds a token of their segment that the mask shows them by its index; so rows may
hold segments of unlike lengths, whose slots lie anywhere. Segments of 3 and 2 tokens, and two steps
of decoding::

    slots          0 1 2 3 4 | 5 6 | 7 8
    boundary ids   1 1 1 2 2 | 1 2 | 1 0      0: empty, or the answer has ended
    index          0 1 2 0 1 | 3 2 | 4 0
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.attention.masks import TokenIds, visible_keys
from mllm_jax.layers.attention.reference import attend_masked
from mllm_jax.layers.config.kinds import MaskKind


class KeyValueCache(NamedTuple):
    """The cache of a layer.

    Attributes:
        keys, values: `[rows, kv_heads, slots, head_dim]`: as attention takes them, of the heads of
            this rank; keys are rotated.
        tokens: ids of the token of each slot, `[rows, slots]`, new tokens included; boundary ids
            are 0 where there is none.
        start: first slot of the new tokens, an int32 scalar; None: the first slot of all, and new
            tokens see one another alone.
    """

    keys: jax.Array
    values: jax.Array
    tokens: TokenIds
    start: jax.Array | None = None

    def append_tokens(self, keys: jax.Array, values: jax.Array) -> KeyValueCache:
        """The cache with those of the new tokens, `[rows, tokens, kv_heads, head_dim]`."""
        first = jnp.int32(0) if self.start is None else self.start

        def write_tokens(cached: jax.Array, new: jax.Array) -> jax.Array:
            by_head = new.swapaxes(1, 2).astype(cached.dtype)
            return lax.dynamic_update_slice_in_dim(cached, by_head, first, axis=2)

        return self._replace(
            keys=write_tokens(self.keys, keys), values=write_tokens(self.values, values)
        )


def cached_attention(cache: KeyValueCache, q: jax.Array, mask: MaskKind) -> jax.Array:
    """Softmax attention of new tokens to the slots that the mask shows them.

    Args:
        cache: cache with the new tokens in it; it has a `start`.
        q: `[rows, tokens, heads, head_dim]`; `heads` is a multiple of `kv_heads`.

    Returns:
        `[rows, tokens, heads, head_dim]` in the type of `q`.
    """
    start, count = cache.start, q.shape[1]
    assert start is not None  # as the caller knows

    def new_ids(ids: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(ids, start, count, axis=1)

    q_by_head = (q * q.shape[-1] ** -0.5).swapaxes(1, 2)
    seen = visible_keys(jax.tree.map(new_ids, cache.tokens), cache.tokens, mask)
    return attend_masked(q_by_head, cache.keys, cache.values, seen).swapaxes(1, 2)
