"""Numbers of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from data.batch import SampleTargets
from mllm_jax.layers.parameters import Params
from mllm_jax.models.objectives.config import RegressionConfig
from mllm_jax.models.objectives.objective import SampleObjective, weights_on_first_rank
from sharding.grid import MeshView


@dataclass(frozen=True)
class Regression(SampleObjective):
    """Mean over a sample's numbers of the squared error; outputs are the predictions."""

    config: RegressionConfig

    def loss(
        self,
        params: Params,
        outputs: Mapping[str, jax.Array],
        targets: SampleTargets,
        view: MeshView,
    ) -> jax.Array:
        """See `Objective.loss`."""
        del params
        (predicted,) = outputs.values()
        assert targets.values is not None  # as its `TargetSpec` makes them
        losses = jnp.mean(jnp.square(predicted - targets.values), axis=-1)
        return jnp.sum(weights_on_first_rank(targets.weights, view) * losses)
