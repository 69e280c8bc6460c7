"""Pairs among all samples of a step (CLIP, arXiv 2103.00020, figure 3).

::

    rank 0   a0 a1  x  b0 b1 b2 b3  ->  rows 0, 1 of the logits, and columns 0, 1
    rank 1   a2 a3  x  b0 b1 b2 b3      every rank gathers all outputs, and compares its rows
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import SampleTargets
from mllm_jax.layers.dense import constant_parameter
from mllm_jax.layers.parameters import ParameterBlock, Params
from mllm_jax.models.objectives.config import ContrastiveConfig
from mllm_jax.models.objectives.objective import SampleObjective, weights_on_first_rank
from sharding.collectives import all_gather, axis_index
from sharding.grid import MeshView


class Temperature(nnx.Module):
    """The logarithm of the factor of the cosines, one over the temperature, `[1]`."""

    def __init__(self, temperature: float) -> None:
        self.scale = constant_parameter((1,), (None,), -math.log(temperature))


@dataclass(frozen=True)
class Contrastive(SampleObjective):
    """Mean of the cross entropies of finding each output's partner, both ways."""

    config: ContrastiveConfig

    def build_block(self) -> ParameterBlock | None:
        """The temperature."""
        return ParameterBlock(lambda rngs: Temperature(self.config.temperature))

    def loss(
        self,
        params: Params,
        outputs: Mapping[str, jax.Array],
        targets: SampleTargets,
        view: MeshView,
    ) -> jax.Array:
        """See `Objective.loss`; samples are those of all microbatches."""
        factor = jnp.exp(params["scale"][0])
        exists = targets.weights > 0
        first, second = (_unit_vectors(vectors, exists) for vectors in outputs.values())
        places = exists.size * axis_index(view.batch_axes) + jnp.arange(exists.size)
        everyone = all_gather(exists, view.batch_axes, dim=0)
        candidates = everyone | ~jnp.any(everyone)  # without samples, there are no infinities

        def losses(local: jax.Array, others: jax.Array) -> jax.Array:
            others = all_gather(others, view.batch_axes, dim=0)
            logits = factor * jnp.matmul(local, others.T, precision="highest")
            logits = jnp.where(candidates[None], logits, -jnp.inf)
            partner = jnp.take_along_axis(logits, places[:, None], axis=1)[:, 0]
            return jax.nn.logsumexp(logits, axis=1) - jnp.where(exists, partner, 0)

        both = losses(first, second) + losses(second, first)
        weights = weights_on_first_rank(targets.weights, view)
        return 0.5 * jnp.sum(jnp.where(weights > 0, weights * both, 0))


def _unit_vectors(x: jax.Array, exists: jax.Array) -> jax.Array:
    """Vectors of length one, where there are samples."""
    x = jnp.where(exists[:, None], x, 1)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)
