"""Vocabulary-parallel embedding, cross entropy and argmax (Megatron-LM, arXiv 1909.08053).

Every rank of `View.vocab` (stages and tensor ranks) holds a run of the vocabulary, so that all
stages of a pipeline share the work of its ends (Yeung et al., arXiv 2411.05288). Logits exist for
one chunk of tokens at a time, and only of tokens that have a loss. Runs have one length: where the
ranks do not divide the vocabulary, the last run, or more, ends in padding, whose probability is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models.varying import vary_like
from sharding.collectives import (
    axis_index,
    axis_size,
    pmax,
    psum,
    reduce_scatter,
    shard_slice,
    unsharded,
    vary,
)
from sharding.grid import View

Tree = TypeVar("Tree")


def embed_tokens(
    table: jax.Array, tokens: jax.Array, keep: jax.Array, dtype: jnp.dtype, view: View
) -> jax.Array:
    """Rows of the embedding, zero where `keep` is false; a stage's share of a sum over stages.

    Args:
        table: `[padded vocab / ranks, d_model]`, this rank's run.
        tokens, keep: `[rows, tokens]`.
        dtype: type of the result. The sum is exact in it, as all ranks but one add zeros.

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
    vocab: int,
    chunk: int,
    view: View,
) -> jax.Array:
    """Weighted sum of cross entropies over all tokens given; float32 scalar.

    Tokens that have a weight are taken first, and no logits are made behind the last of them.
    Gradients are made with the loss, while the logits are there.

    Args:
        hidden: `[tokens, d_model]`, whole on every rank of the vocabulary.
        kernel: `[d_model, padded vocab / ranks]`, this rank's run; padding gets no gradient. Its
            gradient is added up in float32.
        targets, weights: `[tokens]`; weights have no gradient.
        vocab: entries of the vocabulary.
        chunk: tokens whose logits exist at a time.
    """
    hidden, wide = vary(hidden, view.vocab), kernel.astype(jnp.float32)
    return _sum_of_losses(hidden, vary_like(wide, hidden), targets, weights, vocab, chunk, view)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def _sum_of_losses(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    vocab: int,
    chunk: int,
    view: View,
) -> jax.Array:
    cast = kernel.astype(hidden.dtype)

    def add(total: jax.Array, x: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
        loss, _ = _losses(_logits(x, cast, vocab, view), target, vocab, view)
        return total + jnp.sum(weight * loss)

    parts = _Weighted(hidden, targets, weights, chunk)
    return parts.loop(lambda _, total, *own: add(total, *own), _zero(hidden, kernel, parts, view))


def _forward(
    hidden: jax.Array,
    kernel: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    vocab: int,
    chunk: int,
    view: View,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The loss, and its gradients by `hidden` and `kernel`."""
    cast = kernel.astype(hidden.dtype)

    def add(
        start: jax.Array, sums: Sums, x: jax.Array, target: jax.Array, weight: jax.Array
    ) -> Sums:
        total, d_hidden, d_kernel = sums
        loss, d_logits = _losses(_logits(x, cast, vocab, view), target, vocab, view)
        d_logits = (weight[:, None] * d_logits).astype(x.dtype)
        d_x = _product(d_logits, cast, 1, 1).astype(x.dtype)
        return (
            total + jnp.sum(weight * loss),
            lax.dynamic_update_slice_in_dim(d_hidden, d_x, start, 0),
            d_kernel + _product(x, d_logits, 0, 0),
        )

    parts = _Weighted(hidden, targets, weights, chunk)
    zeros = jnp.zeros((parts.index.size, hidden.shape[1]), hidden.dtype), jnp.zeros_like(kernel)
    zeros = vary_like(zeros, (hidden, kernel, parts.targets, parts.weights))
    total, d_hidden, d_kernel = parts.loop(add, (_zero(hidden, kernel, parts, view), *zeros))
    return total, (_taken(d_hidden, parts.place), d_kernel)


def _backward(
    vocab: int, chunk: int, view: View, kept: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array | None, ...]:
    del vocab, chunk, view
    return *((gradient * own).astype(own.dtype) for own in kept), None, None


_sum_of_losses.defvjp(_forward, _backward)

Sums = tuple[jax.Array, jax.Array, jax.Array]


class _Weighted:
    """Tokens in chunks, those with a weight first.

    Attributes:
        index: index of the token at every place, `[chunks * chunk]`; any index behind the last.
        place: `[tokens]`: place of every token.
        targets, weights: values at every place; zero behind the last token.
    """

    def __init__(
        self, hidden: jax.Array, targets: jax.Array, weights: jax.Array, chunk: int
    ) -> None:
        self.hidden, self.chunk = hidden, min(chunk, weights.size)
        order = jnp.argsort(weights == 0, stable=True)
        fill = (0, -weights.size % self.chunk)
        self.index = jnp.pad(order, fill)
        self.targets, self.weights = (jnp.pad(_taken(x, order), fill) for x in (targets, weights))
        self.place = jnp.argsort(order)

    def loop(self, add: Callable[..., Tree], sums: Tree) -> Tree:
        """`add(start, sums, hidden, targets, weights)` for every chunk that has a weight."""

        def body(number: jax.Array, sums: Tree) -> Tree:
            start = number * self.chunk
            index, target, weight = (
                lax.dynamic_slice_in_dim(x, start, self.chunk)
                for x in (self.index, self.targets, self.weights)
            )
            return add(start, sums, _taken(self.hidden, index), target, weight)

        chunks = -(-jnp.count_nonzero(self.weights) // self.chunk)
        return lax.fori_loop(0, chunks, body, sums)


def _taken(x: jax.Array, index: jax.Array) -> jax.Array:
    """Entries of the first dimension; all exist."""
    return jnp.take(x, index, axis=0, mode="clip")


def _zero(hidden: jax.Array, kernel: jax.Array, parts: _Weighted, view: View) -> jax.Array:
    """A zero for a sum of losses: equal on the ranks of the vocabulary, if the weights are."""
    varying = {axis for x in (hidden, kernel, parts.targets) for axis in jax.typeof(x).mat.varying}
    axes = varying - set(view.vocab) | jax.typeof(parts.weights).mat.varying
    return vary(jnp.zeros(()), tuple(sorted(axes)))


def argmax(hidden: jax.Array, kernel: jax.Array, vocab: int, chunk: int, view: View) -> jax.Array:
    """Most likely token at every position: `[tokens, d_model]` to `[tokens]` int32."""
    hidden, kernel = lax.stop_gradient((hidden, kernel.astype(hidden.dtype)))
    best = lax.map(lambda x: _best(_logits(x, kernel, vocab, view), view), _chunks(hidden, chunk))
    return best.reshape(-1)[: hidden.shape[0]]


def whole_logits(hidden: jax.Array, kernel: jax.Array, vocab: int, view: View) -> jax.Array:
    """Logits of all entries on every rank: `[tokens, d_model]` to `[tokens, vocab]` float32."""
    own = _logits(hidden, kernel.astype(hidden.dtype), vocab, view)
    return unsharded(own, view.vocab, dim=1)[:, :vocab]


def _logits(hidden: jax.Array, kernel: jax.Array, vocab: int, view: View) -> jax.Array:
    """Logits of this rank's entries; those of padding are minus infinity."""
    logits = jnp.matmul(hidden, kernel, preferred_element_type=jnp.float32)
    size = kernel.shape[1]
    if size * axis_size(view.vocab) == vocab:
        return logits
    entry = axis_index(view.vocab) * size + jnp.arange(size)
    return jnp.where(entry < vocab, logits, -jnp.inf)


def _losses(
    logits: jax.Array, targets: jax.Array, vocab: int, view: View
) -> tuple[jax.Array, jax.Array]:
    """Cross entropy `[tokens]` of the logits of this rank's run, and its gradient by these.

    Targets behind the vocabulary, which have no weight, are none of the padding either.
    """
    top = pmax(logits.max(axis=-1), view.vocab)
    powers = jnp.exp(logits - top[:, None])
    total = psum(powers.sum(axis=-1), view.vocab)
    local, mine = _local(targets, logits.shape[1], view)
    mine &= targets < vocab
    picked = jnp.take_along_axis(logits, local[:, None], axis=1)[:, 0]
    loss = jnp.log(total) + top - psum(jnp.where(mine, picked, 0), view.vocab)
    is_target = (jnp.arange(logits.shape[1])[None] == local[:, None]) & mine[:, None]
    return loss, powers / total[:, None] - is_target


def _product(a: jax.Array, b: jax.Array, of_a: int, of_b: int) -> jax.Array:
    """Float32 product of two matrices over dimension `of_a` of one and `of_b` of the other."""
    dims = (((of_a,), (of_b,)), ((), ()))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


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
