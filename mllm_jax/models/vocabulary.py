"""Vocabulary-parallel embedding, cross entropy and argmax (Megatron-LM, arXiv 1909.08053).

Every rank of `View.vocab` (stages and tensor ranks) holds a run of the vocabulary, so that all
stages of a pipeline share the work of its ends (Yeung et al., arXiv 2411.05288). Logits exist for
one chunk of tokens at a time and are recomputed in the backward.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models.varying import vary_like
from sharding.collectives import axis_index, pmax, psum, reduce_scatter, shard_slice
from sharding.grid import View

Tree = TypeVar("Tree")


def embed_tokens(
    table: jax.Array, tokens: jax.Array, keep: jax.Array, dtype: jnp.dtype, view: View
) -> jax.Array:
    """Rows of the embedding, zero where `keep` is false; a stage's share of a sum over stages.

    Args:
        table: `[vocab / ranks, d_model]`, this rank's run.
        tokens, keep: `[rows, tokens]`.
        dtype: of the result. The sum is exact in it, as all ranks but one add zeros.

    Returns:
        `[rows, tokens / shards, d_model]`.
    """
    tokens, keep = (shard_slice(x, view.context, dim=1) for x in (tokens, keep))
    local, mine = _local(tokens, table.shape[0], view)
    rows = jnp.where((mine & keep)[..., None], table[local].astype(dtype), 0)
    return reduce_scatter(rows, view.tensor, dim=1)


def cross_entropy(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    chunk: int,
    view: View,
) -> jax.Array:
    """Weighted sum of cross entropies over all tokens given; float32 scalar.

    Args:
        hidden: `[tokens, d_model]`, whole on every rank of the vocabulary.
        kernel: `[d_model, vocab / ranks]`.
        targets, weights: `[tokens]`.
        chunk: tokens whose logits exist at a time.
    """
    kernel = vary_like(kernel.astype(hidden.dtype), hidden)

    def one(part: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        x, target, weight = part
        return jnp.sum(weight * _losses(_logits(x, kernel), target, view))

    parts = _chunks((hidden, targets, weights), chunk)
    return jnp.sum(lax.map(jax.checkpoint(one, prevent_cse=False), parts))


def argmax(hidden: jax.Array, kernel: jax.Array, chunk: int, view: View) -> jax.Array:
    """Most likely token at every position: `[tokens, d_model]` to `[tokens]` int32."""
    hidden, kernel = lax.stop_gradient((hidden, kernel.astype(hidden.dtype)))
    best = lax.map(lambda x: _best(_logits(x, kernel), view), _chunks(hidden, chunk))
    return best.reshape(-1)[: hidden.shape[0]]


def _logits(hidden: jax.Array, kernel: jax.Array) -> jax.Array:
    return jnp.matmul(hidden, kernel, preferred_element_type=jnp.float32)


def _losses(logits: jax.Array, targets: jax.Array, view: View) -> jax.Array:
    """Cross entropy `[tokens]` of logits `[tokens, vocab / ranks]`."""
    # The maximum only guards against overflow: its gradient cancels, and pmax has none.
    top = pmax(lax.stop_gradient(logits.max(axis=-1)), view.vocab)
    total = psum(jnp.exp(logits - top[:, None]).sum(axis=-1), view.vocab)
    local, mine = _local(targets, logits.shape[1], view)
    picked = jnp.take_along_axis(logits, local[:, None], axis=1)[:, 0]
    return jnp.log(total) + top - psum(jnp.where(mine, picked, 0), view.vocab)


def _best(logits: jax.Array, view: View) -> jax.Array:
    """Index of the largest logit over the whole vocabulary; the lowest index among equals."""
    top = logits.max(axis=-1)
    index = jnp.argmax(logits, axis=-1) + axis_index(view.vocab) * logits.shape[1]
    candidate = jnp.where(top == pmax(top, view.vocab), index, jnp.iinfo(jnp.int32).max)
    return -pmax(-candidate, view.vocab)


def _local(tokens: jax.Array, size: int, view: View) -> tuple[jax.Array, jax.Array]:
    """Index into this rank's run of `size` entries, and whether the token lies in it."""
    index = tokens - axis_index(view.vocab) * size
    mine = (index >= 0) & (index < size)
    return jnp.where(mine, index, 0), mine


def _chunks(tree: Tree, chunk: int) -> Tree:
    """Cut the leading dimension of every leaf into `[chunks, chunk]`, padded with zeros."""

    def cut(x: jax.Array) -> jax.Array:
        size = min(chunk, x.shape[0])
        padding = [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(-1, size, *x.shape[1:])

    return jax.tree.map(cut, tree)
