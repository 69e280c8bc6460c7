"""The choice of experts for each token, its load, and the losses that keep it even.

A rank chooses for its positions of its rows; the results are gathered with the activations.
Losses and loads are sums over its tokens without padding, so that no distribution of tokens to
ranks changes them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.layers.dense import align_dims, constant_parameter, normal_parameter
from mllm_jax.layers.modules import LayerContext
from mllm_jax.layers.varying import vary_like
from sharding.collectives import all_gather, shard_slice
from sharding.grid import MeshView


class TokenRouting(NamedTuple):
    """The experts of the tokens of a rank.

    Attributes:
        choice: `[rows, positions, top_k]` int32, numbers of experts; `count` at padding.
        weights: `[rows, positions, top_k]` float32, factors of their outputs; 0 at padding.
        losses: `balance` and `router_z`, sums over this rank's tokens.
    """

    choice: jax.Array
    weights: jax.Array
    losses: dict[str, jax.Array]


class Router(nnx.Module):
    """Scores of experts for tokens, and the best of them.

    `kernel` is `[d_model, experts]`. `load_bias` `[experts]`, whose name is `frozen.LOAD`, is added
    to scores where experts are chosen, and nowhere else. It has no gradient; in the place of one
    stands the load, the number of tokens that each expert got, so that the sums over microbatches,
    chunks of a pipeline and ranks that make gradients make the load of a step as well, whatever the
    plan is.
    """

    def __init__(self, config: ExpertsConfig, d_model: int, rngs: nnx.Rngs) -> None:
        self.config = config
        self.kernel = normal_parameter(
            rngs, (d_model, config.count), ("embed", None), d_model**-0.5
        )
        self.load_bias = constant_parameter((config.count,), (None,), 0.0)

    def __call__(self, x: jax.Array, context: LayerContext, view: MeshView) -> TokenRouting:
        """`[rows, tokens / shards, d_model]` to the experts of these tokens."""
        bias = self.load_bias[...]
        real = shard_slice(context.segment_ids, view.sequence_axes, dim=1) > 0
        logits = jnp.matmul(
            x.astype(jnp.float32), self.kernel[...].astype(jnp.float32), precision="highest"
        )
        scores = _expert_scores(logits, self.config.router)
        chosen = _best_experts(scores + align_dims(lax.stop_gradient(bias), scores), self.config)
        choice = jnp.where(real[..., None], chosen, self.config.count)
        one_hot = jax.nn.one_hot(choice, self.config.count, dtype=jnp.float32)
        weights = _expert_weights(jnp.sum(one_hot * scores[..., None, :], axis=-1), self.config)
        weights = _with_load(weights, bias, _count_load(one_hot, logits, real))
        return TokenRouting(
            choice, weights, self._auxiliary_losses(logits, scores, choice, context, view)
        )

    def _auxiliary_losses(
        self,
        logits: jax.Array,
        scores: jax.Array,
        choice: jax.Array,
        context: LayerContext,
        view: MeshView,
    ) -> dict[str, jax.Array]:
        """The auxiliary losses that have a weight."""
        real, losses = choice[..., 0] < self.config.count, {}
        if self.config.balance_weight:
            share = scores / jnp.sum(scores, axis=-1, keepdims=True)
            full_choice = all_gather(choice, view.sequence_axes, dim=1)
            load = _segment_load(full_choice, context.segment_ids, self.config.count, view)
            each = self.config.count * jnp.sum(load * share, axis=-1)
            losses["balance"] = jnp.sum(jnp.where(real, each, 0))
        if self.config.z_weight:
            squares = jnp.square(jax.nn.logsumexp(logits, axis=-1))
            losses["router_z"] = jnp.sum(jnp.where(real, squares, 0))
        return losses


def choose_experts(logits: jax.Array, config: ExpertsConfig) -> tuple[jax.Array, jax.Array]:
    """The experts of tokens and their weights, `[..., top_k]` each, by `[..., experts]` logits.

    Biases of experts are taken to be zero, as they are at first.
    """
    scores = _expert_scores(logits, config.router)
    chosen = _best_experts(scores, config)
    return chosen, _expert_weights(jnp.take_along_axis(scores, chosen, axis=-1), config)


def _expert_scores(logits: jax.Array, kind: str) -> jax.Array:
    """Scores of experts, which a token's experts are weighted by."""
    return jax.nn.sigmoid(logits) if kind == "sigmoid" else jax.nn.softmax(logits, axis=-1)


def _best_experts(scores: jax.Array, config: ExpertsConfig) -> jax.Array:
    """The `top_k` experts of the best groups, `[..., top_k]` int32; the best one first."""
    if config.groups > 1:
        grouped = scores.reshape(*scores.shape[:-1], config.groups, -1)
        of_groups = jnp.sum(lax.top_k(grouped, 2)[0], axis=-1)
        best = lax.top_k(of_groups, config.top_groups)[1]
        allowed = jnp.sum(jax.nn.one_hot(best, config.groups, dtype=jnp.int32), axis=-2) > 0
        scores = jnp.where(allowed[..., None], grouped, -jnp.inf).reshape(scores.shape)
    return lax.top_k(lax.stop_gradient(scores), config.top_k)[1]


def _expert_weights(scores: jax.Array, config: ExpertsConfig) -> jax.Array:
    """Factors of the outputs of experts, from their scores `[..., top_k]`; 0 at padding."""
    if config.normalise:
        total = jnp.sum(scores, axis=-1, keepdims=True)
        scores = scores / jnp.where(total > 0, total, 1)
    return config.scale * scores


def _count_load(one_hot: jax.Array, logits: jax.Array, real: jax.Array) -> jax.Array:
    """Tokens of each expert, `[experts]`; NaN if a logit of a token is not finite.

    Args:
        one_hot: `[rows, positions, top_k, experts]`, one where an expert is chosen.
    """
    is_finite = jnp.all(jnp.isfinite(logits) | ~real[..., None])
    return jnp.where(is_finite, jnp.sum(one_hot, axis=(0, 1, 2)), jnp.nan)


@jax.custom_vjp
def _with_load_of(weights: jax.Array, bias: jax.Array, load: jax.Array) -> jax.Array:
    """`weights`; what takes the place of the gradient of `bias` is `load`."""
    del bias, load
    return weights


_with_load_of.defvjp(
    lambda weights, bias, load: (weights, load),
    lambda load, gradient: (gradient, load, jnp.zeros_like(load)),
)


def _with_load(weights: jax.Array, bias: jax.Array, load: jax.Array) -> jax.Array:
    """`_with_load_of` values that vary alike."""
    return _with_load_of(*vary_like((weights, bias, lax.stop_gradient(load)), (weights, bias)))


def _segment_load(choice: jax.Array, ids: jax.Array, count: int, view: MeshView) -> jax.Array:
    """Of each token of this rank, how many tokens of its segment chose each expert.

    It is their number over that of all tokens of the segment, so that the sum over experts is
    `top_k`. Sums are of whole numbers: their order, and so the plan, does not matter.

    Args:
        choice: `[rows, tokens, top_k]` of full rows.
        ids: `[rows, tokens]`, whose segments lie in one piece each.

    Returns:
        `[rows, tokens / shards, count]` float32.
    """
    chosen = jnp.sum(jax.nn.one_hot(choice, count, dtype=jnp.int32), axis=2)
    before = jnp.pad(jnp.cumsum(chosen, axis=1), ((0, 0), (1, 0), (0, 0)))
    begin, end = (shard_slice(x, view.sequence_axes, dim=1)[..., None] for x in _segment_spans(ids))
    load = jnp.take_along_axis(before, end, 1) - jnp.take_along_axis(before, begin, 1)
    return load.astype(jnp.float32) / (end - begin).astype(jnp.float32)


def _segment_spans(ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Begin and end of the run of equal numbers in which each token of a row lies."""
    place = jnp.arange(ids.shape[1])[None]
    changes = ids[:, 1:] != ids[:, :-1]
    new = jnp.pad(changes, ((0, 0), (1, 0)), constant_values=True)
    last = jnp.pad(changes, ((0, 0), (0, 1)), constant_values=True)
    begin = lax.cummax(jnp.where(new, place, 0), axis=1)
    return begin, lax.cummin(jnp.where(last, place + 1, ids.shape[1]), axis=1, reverse=True)
