"""Vocabulary-parallel embedding, cross entropy and argmax (Megatron-LM, arXiv 1909.08053).

Every rank of `MeshView.vocab` (stages and tensor ranks) holds a run of the vocabulary, so that all
stages of a pipeline share the work of its ends (Yeung et al., arXiv 2411.05288). Logits exist for
one chunk of tokens at a time, and only of tokens that have a loss. Runs have one length: where the
ranks do not divide the vocabulary, the last run, or more, ends in padding, whose probability is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers.varying import vary_like
from sharding.collectives import (
    axis_index,
    axis_size,
    join_slices,
    pmax,
    psum,
    reduce_scatter,
    shard_slice,
    vary,
)
from sharding.grid import MeshView

PyTreeT = TypeVar("PyTreeT")
Arrays = tuple[jax.Array, ...]
#: States `[tokens, width]` and a matrix `[width, entries]`, whose product is a term of the logits.
LogitsTerm = tuple[jax.Array, jax.Array]


def embed_tokens(
    table: jax.Array, tokens: jax.Array, is_embedded: jax.Array, dtype: jnp.dtype, view: MeshView
) -> jax.Array:
    """Rows of the embedding, zero where a token is not embedded; one stage's term of their sum.

    Args:
        table: `[padded vocab / ranks, d_model]`, this rank's run.
        tokens, is_embedded: `[rows, tokens]`.
        dtype: type of the result. The sum is exact in it, as all ranks but one add zeros.

    Returns:
        `[rows, tokens / shards, d_model]`.
    """
    tokens, is_embedded = (shard_slice(x, view.context, dim=1) for x in (tokens, is_embedded))
    local, mine = _local_index(tokens, table.shape[0], view)
    rows = jnp.where((mine & is_embedded)[..., None], table[local].astype(dtype), 0)
    return reduce_scatter(rows, view.tensor, dim=1)


def cross_entropy(
    terms: Sequence[LogitsTerm],
    targets: jax.Array,
    weights: jax.Array,
    vocab: int,
    chunk: int,
    view: MeshView,
) -> jax.Array:
    """Weighted sum of cross entropies over all tokens given; float32 scalar.

    Tokens that have a weight are taken first, and no logits are computed after the last of them.
    Gradients are computed with the loss, while the logits exist.

    Args:
        terms: operands whose products add up to the logits: `[tokens, width]`, replicated over the
            ranks of the vocabulary, and `[width, padded vocab / ranks]`, this rank's run, whose
            padding gets no gradient. Gradients of the latter are added up in float32.
        targets, weights: `[tokens]`; weights have no gradient.
        vocab: entries of the vocabulary.
        chunk: tokens whose logits exist at a time.
    """
    hidden = tuple(vary(x, view.vocab_axes) for x, _ in terms)
    kernels = tuple(
        vary_like(kernel.astype(jnp.float32), x)
        for x, (_, kernel) in zip(hidden, terms, strict=True)
    )
    return _sum_of_losses(hidden, kernels, targets, weights, vocab, chunk, view)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def _sum_of_losses(
    hidden: Arrays,
    kernels: Arrays,
    targets: jax.Array,
    weights: jax.Array,
    vocab: int,
    chunk: int,
    view: MeshView,
) -> jax.Array:
    cast = _cast_kernels(kernels, hidden)

    def add(total: jax.Array, x: Arrays, target: jax.Array, weight: jax.Array) -> jax.Array:
        loss, _ = _local_losses(_local_logits(x, cast, vocab, view), target, vocab, view)
        return total + jnp.sum(weight * loss)

    parts = _WeightedTokens(hidden, targets, weights, chunk)
    return parts.loop_chunks(
        lambda _, total, *block: add(total, *block), _zero_loss(hidden, kernels, parts, view)
    )


def _forward(
    hidden: Arrays,
    kernels: Arrays,
    targets: jax.Array,
    weights: jax.Array,
    vocab: int,
    chunk: int,
    view: MeshView,
) -> tuple[jax.Array, tuple[Arrays, Arrays]]:
    """The loss, and its gradients by `hidden` and `kernels`."""
    cast = _cast_kernels(kernels, hidden)

    def add(start: jax.Array, sums: Sums, x: Arrays, target: jax.Array, weight: jax.Array) -> Sums:
        total, d_hidden, d_kernels = sums
        loss, d_logits = _local_losses(_local_logits(x, cast, vocab, view), target, vocab, view)
        d_logits = (weight[:, None] * d_logits).astype(x[0].dtype)
        d_x = [_matrix_product(d_logits, kernel, 1, 1).astype(d_logits.dtype) for kernel in cast]
        return (
            total + jnp.sum(weight * loss),
            tuple(
                lax.dynamic_update_slice_in_dim(grad, rows, start, 0)
                for grad, rows in zip(d_hidden, d_x, strict=True)
            ),
            tuple(
                grad + _matrix_product(rows, d_logits, 0, 0)
                for grad, rows in zip(d_kernels, x, strict=True)
            ),
        )

    parts = _WeightedTokens(hidden, targets, weights, chunk)
    zeros = (
        tuple(jnp.zeros((parts.index.size, x.shape[1]), x.dtype) for x in hidden),
        jax.tree.map(jnp.zeros_like, kernels),
    )
    zeros = vary_like(zeros, (hidden, kernels, parts.targets, parts.weights))
    total, d_hidden, d_kernels = parts.loop_chunks(
        add, (_zero_loss(hidden, kernels, parts, view), *zeros)
    )
    return total, (tuple(_take_entries(x, parts.place) for x in d_hidden), d_kernels)


def _backward(
    vocab: int, chunk: int, view: MeshView, gradients: tuple[Arrays, Arrays], gradient: jax.Array
) -> tuple[Arrays | None, ...]:
    del vocab, chunk, view
    scaled = jax.tree.map(lambda x: (gradient * x).astype(x.dtype), gradients)
    return *scaled, None, None


_sum_of_losses.defvjp(_forward, _backward)

Sums = tuple[jax.Array, Arrays, Arrays]


class _WeightedTokens:
    """Tokens in chunks, those with a weight first.

    Attributes:
        index: index of the token at every place, `[chunks * chunk]`; any index after the last.
        place: `[tokens]`: place of every token.
        targets, weights: values at every place; zero after the last token.
    """

    def __init__(self, hidden: Arrays, targets: jax.Array, weights: jax.Array, chunk: int) -> None:
        self.hidden, self.chunk = hidden, min(chunk, weights.size)
        order = jnp.argsort(weights == 0, stable=True)
        fill = (0, -weights.size % self.chunk)
        self.index = jnp.pad(order, fill)
        self.targets, self.weights = (
            jnp.pad(_take_entries(x, order), fill) for x in (targets, weights)
        )
        self.place = jnp.argsort(order)

    def loop_chunks(self, add: Callable[..., PyTreeT], sums: PyTreeT) -> PyTreeT:
        """`add(start, sums, hidden, targets, weights)` for every chunk that has a weight."""

        def body(number: jax.Array, sums: PyTreeT) -> PyTreeT:
            start = number * self.chunk
            index, target, weight = (
                lax.dynamic_slice_in_dim(x, start, self.chunk)
                for x in (self.index, self.targets, self.weights)
            )
            chosen = tuple(_take_entries(array, index) for array in self.hidden)
            return add(start, sums, chosen, target, weight)

        chunks = -(-jnp.count_nonzero(self.weights) // self.chunk)
        return lax.fori_loop(0, chunks, body, sums)


def _take_entries(x: jax.Array, index: jax.Array) -> jax.Array:
    """Entries of the first dimension; all exist."""
    return jnp.take(x, index, axis=0, mode="clip")


def _zero_loss(
    hidden: Arrays, kernels: Arrays, parts: _WeightedTokens, view: MeshView
) -> jax.Array:
    """A zero for a sum of losses: equal on the ranks of the vocabulary, if the weights are."""
    every = (*hidden, *kernels, parts.targets)
    varying = {axis for x in every for axis in jax.typeof(x).mat.varying}
    axes = varying - set(view.vocab_axes) | jax.typeof(parts.weights).mat.varying
    return vary(jnp.zeros(()), tuple(sorted(axes)))


def argmax(terms: Sequence[LogitsTerm], vocab: int, chunk: int, view: MeshView) -> jax.Array:
    """Most likely token at every position, `[tokens]` int32; terms as of `cross_entropy`."""
    hidden, kernels = lax.stop_gradient(_cast_terms(terms))
    best = lax.map(
        lambda x: _best_entry(_local_logits(x, kernels, vocab, view), view),
        _cut_chunks(hidden, chunk),
    )
    return best.reshape(-1)[: hidden[0].shape[0]]


def full_logits(terms: Sequence[LogitsTerm], vocab: int, view: MeshView) -> jax.Array:
    """Logits of all entries on every rank, `[tokens, vocab]` float32."""
    shard = _local_logits(*_cast_terms(terms), vocab, view)
    return join_slices(shard, view.vocab_axes, dim=1)[:, :vocab]


def _cast_terms(terms: Sequence[LogitsTerm]) -> tuple[Arrays, Arrays]:
    """States and matrices of the same type."""
    hidden, kernels = zip(*terms, strict=True)
    return hidden, _cast_kernels(kernels, hidden)


def _cast_kernels(kernels: Arrays, hidden: Arrays) -> Arrays:
    return tuple(kernel.astype(hidden[0].dtype) for kernel in kernels)


def _local_logits(hidden: Arrays, kernels: Arrays, vocab: int, view: MeshView) -> jax.Array:
    """Logits of this rank's entries; those of padding are minus infinity."""
    first, *others = (
        jnp.matmul(x, kernel, preferred_element_type=jnp.float32)
        for x, kernel in zip(hidden, kernels, strict=True)
    )
    logits = sum(others, first)
    size = kernels[0].shape[1]
    if size * axis_size(view.vocab_axes) == vocab:
        return logits
    entry = axis_index(view.vocab_axes) * size + jnp.arange(size)
    return jnp.where(entry < vocab, logits, -jnp.inf)


def _local_losses(
    logits: jax.Array, targets: jax.Array, vocab: int, view: MeshView
) -> tuple[jax.Array, jax.Array]:
    """Cross entropy `[tokens]` of the logits of this rank's run, and its gradient by these.

    Targets after the vocabulary, which have no weight, are none of the padding either.
    """
    top = pmax(logits.max(axis=-1), view.vocab_axes)
    powers = jnp.exp(logits - top[:, None])
    total = psum(powers.sum(axis=-1), view.vocab_axes)
    local, mine = _local_index(targets, logits.shape[1], view)
    mine &= targets < vocab
    picked = jnp.take_along_axis(logits, local[:, None], axis=1)[:, 0]
    loss = jnp.log(total) + top - psum(jnp.where(mine, picked, 0), view.vocab_axes)
    is_target = (jnp.arange(logits.shape[1])[None] == local[:, None]) & mine[:, None]
    return loss, powers / total[:, None] - is_target


def _matrix_product(a: jax.Array, b: jax.Array, of_a: int, of_b: int) -> jax.Array:
    """Float32 product of two matrices over dimension `of_a` of one and `of_b` of the other."""
    dims = (((of_a,), (of_b,)), ((), ()))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


def _best_entry(logits: jax.Array, view: MeshView) -> jax.Array:
    """Index of the largest logit over the whole vocabulary; the lowest index among equals."""
    top = logits.max(axis=-1)
    index = jnp.argmax(logits, axis=-1) + axis_index(view.vocab_axes) * logits.shape[1]
    candidate = jnp.where(top == pmax(top, view.vocab_axes), index, jnp.iinfo(jnp.int32).max)
    return -pmax(-candidate, view.vocab_axes)


def _local_index(tokens: jax.Array, size: int, view: MeshView) -> tuple[jax.Array, jax.Array]:
    """Index into this rank's run of `size` entries, and whether the token lies in it."""
    index = tokens - axis_index(view.vocab_axes) * size
    mine = (index >= 0) & (index < size)
    return jnp.where(mine, index, 0), mine


def _cut_chunks(tree: PyTreeT, chunk: int) -> PyTreeT:
    """Cut the leading dimension of every leaf into `[chunks, chunk]`, padded with zeros."""

    def cut(x: jax.Array) -> jax.Array:
        size = min(chunk, x.shape[0])
        padding = [(0, -x.shape[0] % size)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(-1, size, *x.shape[1:])

    return jax.tree.map(cut, tree)
