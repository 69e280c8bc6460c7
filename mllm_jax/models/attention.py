"""Self-attention within segments, one function over several implementations."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segment_ids: jax.Array,
    *,
    causal: bool,
    backend: str = "auto",
) -> jax.Array:
    """Softmax attention of every token to the tokens of its own segment.

    Args:
        q: `[rows, tokens, heads, head_dim]`.
        k, v: `[rows, tokens, kv_heads, head_dim]`; `heads` is a multiple of `kv_heads`.
        segment_ids: `[rows, tokens]` int32; padding (0) attends to padding and stays finite.
        causal: whether a token sees only itself and earlier tokens.
    """
    return reference(q, k, v, segment_ids, causal)


def reference(
    q: jax.Array, k: jax.Array, v: jax.Array, segment_ids: jax.Array, causal: bool
) -> jax.Array:
    rows, tokens, heads, width = q.shape
    groups = k.shape[2]
    q = q.reshape(rows, tokens, groups, heads // groups, width) * width**-0.5
    scores = jnp.einsum("rtghd,rsgd->rghts", q, k, preferred_element_type=jnp.float32)
    mask = segment_ids[:, :, None] == segment_ids[:, None, :]
    if causal:
        mask &= jnp.tril(jnp.ones((tokens, tokens), bool))
    scores = jnp.where(mask[:, None, None], scores, -1e30)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    out = jnp.einsum("rghts,rsgd->rtghd", weights, v)
    return out.reshape(rows, tokens, heads, width)
