"""Plain softmax attention within segments; the other implementations are tested against it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mllm_jax.layers.attention.limits import reference_block
from mllm_jax.layers.attention.masks import TokenIds, visible_keys
from mllm_jax.layers.config.kinds import MaskKind

#: Finite, so that a row without any visible key would still give finite weights.
_MASKED = -1e30


def reference_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, mask: MaskKind
) -> jax.Array:
    """Plain softmax attention with float32 scores; the other backends are tested against it.

    A causal row is cut into blocks of queries that look only at the keys up to their end, which
    saves up to half of the work: on two CPU cores 2.3 times faster at 512 tokens. With a window
    they look only at the keys from the first one's window on. With spans they look at keys after
    them, too, which only a window bounds.
    """
    count = q.shape[1]
    by_head = [x.swapaxes(1, 2) for x in (q * q.shape[-1] ** -0.5, k, v)]
    q_by_head, k_by_head, v_by_head = by_head
    block = reference_block(count) if mask.causal else count
    parts = []

    def columns(positions: slice) -> TokenIds:
        return jax.tree.map(lambda ids: ids[:, positions], tokens)

    for start in range(0, count, block):
        queries = slice(start, min(start + block, count))
        near = mask.key_range(queries.start, queries.stop, count)
        keys = slice(near.start, near.stop)
        seen = visible_keys(columns(queries), columns(keys), mask)
        keys_and_values = k_by_head[:, :, keys], v_by_head[:, :, keys]
        parts.append(attend_masked(q_by_head[:, :, queries], *keys_and_values, seen))
    return jnp.concatenate(parts, axis=2).swapaxes(1, 2)


def attend_masked(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """`[rows, heads, queries, head_dim]` from q (scaled), k and v in the same order.

    Heads of one group share their keys in one batched product, and the division by the softmax's
    sum comes after the product with v: both measured faster than the textbook order on CPU.
    """
    rows, heads, queries, head_dim = q.shape
    groups, keys = k.shape[1:3]
    grouped = q.reshape(rows, groups, -1, head_dim)
    scores = jnp.einsum("rgqd,rgkd->rgqk", grouped, k, preferred_element_type=jnp.float32)
    scores = scores.reshape(rows, heads, queries, keys)
    scores = jnp.where(mask[:, None], scores, _MASKED)
    row_max = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - row_max)
    shared = weights.astype(v.dtype).reshape(rows, groups, -1, keys)
    out = jnp.einsum("rgqk,rgkd->rgqd", shared, v, preferred_element_type=jnp.float32)
    out = out.reshape(rows, heads, queries, head_dim)
    return (out / weights.sum(axis=-1, keepdims=True)).astype(q.dtype)
