"""Attention that keeps the tensors of cuDNN's flash attention, for tracing without the library.

A forward keeps q, k, v, the mask as a bias, the output and the logarithm of the softmax's sum, one
float32 for each query and head. `cudnn_stand_in` does the same with dense scores, on any
platform and for any type: what it keeps is counted, and it is never run to train.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mllm_jax.layers.attention.masks import TokenIds, visible_keys
from mllm_jax.layers.attention.untyped_kernel import untyped_kernel
from mllm_jax.layers.config.kinds import MaskKind

#: Finite, as in the reference.
_MASKED = -1e30


class SavedForBackward(NamedTuple):
    """Tensors that the backward reads, `[rows, tokens, heads, head_dim]`.

    Attributes:
        bias: addend of the scores, `[rows, 1, tokens, tokens]`.
        lse: logs of the summed exponentials of a query's scores, `[rows, heads, tokens]`.
    """

    q: jax.Array
    k: jax.Array
    v: jax.Array
    bias: jax.Array
    out: jax.Array
    lse: jax.Array


def cudnn_stand_in(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, mask: MaskKind
) -> jax.Array:
    """Attention that keeps grouped keys and values as they are, as cuDNN does."""

    @jax.custom_vjp
    def kernel(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        return forward(q, k, v, tokens)[0]

    def forward(
        q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds
    ) -> tuple[jax.Array, SavedForBackward]:
        bias = jnp.where(visible_keys(tokens, tokens, mask)[:, None], 0, _MASKED).astype(q.dtype)
        scores = _compute_scores(q, k, bias)
        lse = jax.nn.logsumexp(scores, axis=-1)
        out = _mix_values(jnp.exp(scores - lse[..., None]), v).astype(q.dtype)
        return out, SavedForBackward(q, k, v, bias, out, lse)

    def backward(saved: SavedForBackward, d_out: jax.Array) -> tuple[jax.Array | None, ...]:
        return (*_compute_gradients(saved, d_out), None)

    kernel.defvjp(forward, backward)
    return untyped_kernel(kernel)(q, k, v, tokens)


def _group_heads(x: jax.Array, groups: int) -> jax.Array:
    """`[rows, tokens, groups, heads of a group, head_dim]`."""
    return x.reshape(*x.shape[:2], groups, -1, x.shape[3])


def _compute_scores(q: jax.Array, k: jax.Array, bias: jax.Array) -> jax.Array:
    """`[rows, heads, queries, keys]` float32, masked."""
    return _grouped_products(q, k) * q.shape[3] ** -0.5 + bias


def _mix_values(weights: jax.Array, values: jax.Array) -> jax.Array:
    """`weights` `[rows, heads, queries, keys]` times `values` of grouped heads, float32."""
    rows, heads, tokens, _ = weights.shape
    groups = values.shape[2]
    weights = weights.reshape(rows, groups, -1, tokens, tokens)
    mixed = jnp.einsum("rgnqk,rkgd->rqgnd", weights, values.astype(jnp.float32))
    return mixed.reshape(rows, tokens, heads, -1)


def _compute_gradients(saved: SavedForBackward, d_out: jax.Array) -> tuple[jax.Array, ...]:
    """Gradients of q, k and v, with the weights computed again from the saved logarithms."""
    q, k, v, bias, out, lse = saved
    weights = jnp.exp(_compute_scores(q, k, bias) - lse[..., None])
    d_out = d_out.astype(jnp.float32)
    groups = k.shape[2]
    d_weights = _grouped_products(d_out, v.astype(jnp.float32))
    delta = (d_out * out).sum(axis=-1).swapaxes(1, 2)
    d_scores = weights * (d_weights - delta[..., None]) * q.shape[3] ** -0.5
    d_v = _onto_keys(weights, d_out, groups)
    d_k = _onto_keys(d_scores, q.astype(jnp.float32), groups)
    return tuple(
        gradient_of_x.astype(x.dtype)
        for gradient_of_x, x in zip((_mix_values(d_scores, k), d_k, d_v), (q, k, v), strict=True)
    )


def _grouped_products(x: jax.Array, y: jax.Array) -> jax.Array:
    """`[rows, heads, queries, keys]` of `x` of all heads with `y` of grouped heads, float32."""
    grouped = _group_heads(x, y.shape[2])
    products = jnp.einsum("rqgnd,rkgd->rgnqk", grouped, y, preferred_element_type=jnp.float32)
    return products.reshape(x.shape[0], x.shape[2], x.shape[1], -1)


def _onto_keys(weights: jax.Array, x: jax.Array, groups: int) -> jax.Array:
    """Sum over queries, and over the heads of a group, of `weights` times `x`."""
    rows, _, tokens, _ = weights.shape
    weights = weights.reshape(rows, groups, -1, tokens, tokens)
    return jnp.einsum("rgnqk,rqgnd->rkgd", weights, _group_heads(x, groups))
