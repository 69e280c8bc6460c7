"""The block of a layer that has experts: choose, sort copies of tokens, compute, add up.

::

    x ---- router ----> experts and weights of each token
    |
    gather over tensor ranks -> copies sorted by expert -> grouped MLP -> weighted sums -> scatter

Experts have their hidden width split over tensor ranks, as an MLP has: every rank computes all
copies of the group's tokens on a part of the width, and what is scattered is a sum over ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.layers.dense import Dense, gather_sequence, normal_parameter
from mllm_jax.layers.experts.grouped import grouped_product
from mllm_jax.layers.experts.router import Router
from mllm_jax.layers.modules import GatedMLP, LayerContext, gate_activation
from sharding.collectives import all_gather, reduce_scatter
from sharding.dispatch import ExpertDispatch, through_experts
from sharding.exchange_kinds import is_ragged, parts_of_a_round, round_capacity
from sharding.grid import MeshView
from sharding.traced import traced_platform


class ExpertKernels(NamedTuple):
    """Matrices of experts: `gate` and `up` `[experts, d_model, d_ff]`, `down` turned around."""

    gate: jax.Array
    up: jax.Array
    down: jax.Array


def grouped_mlp(kernels: ExpertKernels, rows: jax.Array, counts: jax.Array) -> jax.Array:
    """SwiGLU of every row by its expert.

    This is all that expert-parallel ranks have to compute, on the rows that have come to their
    experts (`sharding.dispatch.Grouped`).

    Args:
        kernels: matrices of these experts, in the type of the rows.
        rows: `[n, d_model]`, sorted by experts.
        counts: `[experts]` int32, rows of each expert. Rows after all of them count for nothing:
            their results and gradients are zero.

    Returns:
        `[n, d_model]`; with tensor ranks this rank's term of a sum.
    """
    hidden = gate_activation(
        grouped_product(rows, kernels.gate, counts), grouped_product(rows, kernels.up, counts)
    )
    return grouped_product(hidden, kernels.down, counts)


class Experts(nnx.Module):
    """A choice of experts in place of an MLP."""

    def __init__(
        self, config: ExpertsConfig, d_model: int, rngs: nnx.Rngs, gain: float = 1.0
    ) -> None:
        self.config = config
        self.router = Router(config, d_model, rngs)
        width: Dims = (("embed", d_model),)
        hidden: Dims = (("mlp", config.d_ff),)
        self.gate_proj = _StackedKernel(config.count, width, hidden, rngs)
        self.up_proj = _StackedKernel(config.count, width, hidden, rngs)
        self.down_proj = _StackedKernel(config.count, hidden, width, rngs, gain)
        shared = config.shared_d_ff
        self.shared = GatedMLP(d_model, shared, rngs, gain) if shared else None
        self.shared_gate = Dense(width, ((None, 1),), rngs) if config.shared_gate else None

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Sequence shards `[rows, tokens / shards, d_model]` to the block's output and losses.

        The losses are this rank's terms of sums over all ranks.
        """
        routing = self.router(x, context, view)
        full = gather_sequence(x, view)
        choice, weights = (
            all_gather(shard, view.tensor, dim=1).reshape(-1, self.config.top_k)
            for shard in (routing.choice, routing.weights)
        )
        sums = self._by_experts(full.reshape(-1, x.shape[-1]), choice, weights, view)
        out = _sum_and_scatter(sums.reshape(full.shape), view, x.dtype)
        if self.shared is not None:
            out = out + self._of_shared(x, full, view)
        return out, routing.losses

    def _by_experts(
        self, x: jax.Array, choice: jax.Array, weights: jax.Array, view: MeshView
    ) -> jax.Array:
        """Weighted sums of what the experts of each token make of it, here or on other ranks."""
        kernels = self._cast_kernels(x.dtype)
        if not view.expert:
            return _by_local_experts(x, choice, weights, self.config, partial(grouped_mlp, kernels))
        dispatch = make_dispatch(self.config, choice.size, view)
        return through_experts(grouped_mlp, kernels, x, choice, weights, dispatch)

    def _cast_kernels(self, dtype: jnp.dtype) -> ExpertKernels:
        stacks = self.gate_proj, self.up_proj, self.down_proj
        return ExpertKernels(*(stack.kernel[...].astype(dtype) for stack in stacks))

    def _of_shared(self, x: jax.Array, full: jax.Array, view: MeshView) -> jax.Array:
        assert self.shared is not None  # as the caller knows
        products = [layer(full) for layer in self.shared.first]
        out = self.shared.last.scattered_product(self.shared.activated(products), view)
        return out if self.shared_gate is None else jax.nn.sigmoid(self.shared_gate(x)) * out


class _StackedKernel(nnx.Module):
    """Kernels `[experts, inputs, outputs]`, normal with variance `gain^2 / inputs`."""

    def __init__(
        self, count: int, inputs: Dims, outputs: Dims, rngs: nnx.Rngs, gain: float = 1.0
    ) -> None:
        axes, shape = zip(("experts", count), *inputs, *outputs, strict=True)
        self.kernel = normal_parameter(rngs, shape, axes, gain * shape[1] ** -0.5)


def make_dispatch(config: ExpertsConfig, copies: int, view: MeshView) -> ExpertDispatch:
    """How copies of tokens move between expert ranks, each of which has as many as `copies`.

    Accelerators run the exchange of one half of a round beside the products of the other.
    """
    platform, ranks = traced_platform(), view.degree_of(view.expert)
    parts = parts_of_a_round(platform)
    slots = (
        math.ceil(round_capacity(config.buffer, copies, ranks) * copies / (parts * ranks)) * ranks
    )
    return ExpertDispatch(view.expert, config.count, slots, parts, ragged=is_ragged(platform))


Compute = Callable[[jax.Array, jax.Array], jax.Array]


def _by_local_experts(
    x: jax.Array, choice: jax.Array, weights: jax.Array, config: ExpertsConfig, compute: Compute
) -> jax.Array:
    """Weighted sums of what the experts of each token make of it, where a rank has all experts.

    Unlike `through_experts` it keeps what the products need for their backward.

    Args:
        x: `[tokens, d_model]`.
        choice, weights: `[tokens, top_k]`, see `TokenRouting`.
        compute: from rows sorted by experts, and their counts, to results in this order.

    Returns:
        `[tokens, d_model]` float32.
    """
    of_copies = choice.reshape(-1)
    order = jnp.argsort(of_copies, stable=True)
    back = jnp.argsort(order)
    counts = jnp.sum(jax.nn.one_hot(of_copies, config.count, dtype=jnp.int32), axis=0)
    copies = jnp.repeat(x, config.top_k, axis=0)
    results = _permute_rows(compute(_permute_rows(copies, order, back), counts), back, order)
    results = results.reshape(*choice.shape, -1).astype(jnp.float32)
    return jnp.sum(weights[..., None] * results, axis=1)


@jax.custom_vjp
def _permute_rows(x: jax.Array, order: jax.Array, back: jax.Array) -> jax.Array:
    """Rows of `x` in this order; its gradient is read in the order back, not scattered."""
    del back
    return x[order]


_permute_rows.defvjp(
    lambda x, order, back: (_permute_rows(x, order, back), (order, back)),
    lambda saved, gradient: (gradient[saved[1]], None, None),
)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _sum_and_scatter(terms: jax.Array, view: MeshView, dtype: jnp.dtype) -> jax.Array:
    """Terms `[rows, tokens, d_model]` of tensor ranks to shards of their sum.

    Partial sums are sent as `view.reduce_dtype`.

    The gradient adds up nothing and is gathered in `dtype`.
    """
    return reduce_scatter(terms.astype(view.reduce_dtype), view.tensor, dim=1).astype(dtype)


_sum_and_scatter.defvjp(
    lambda terms, view, dtype: (_sum_and_scatter(terms, view, dtype), None),
    lambda view, dtype, _, gradient: (gather_sequence(gradient, view).astype(jnp.float32),),
)
