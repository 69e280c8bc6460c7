"""The class of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from data.batch import SampleTargets
from mllm_jax.layers.parameters import Params
from mllm_jax.models.objectives.config import ClassificationConfig
from mllm_jax.models.objectives.objective import SampleObjective, weights_on_first_rank
from sharding.grid import MeshView


@dataclass(frozen=True)
class Classification(SampleObjective):
    """Cross entropy of the class; outputs are the logits of all classes."""

    config: ClassificationConfig

    def loss(
        self,
        params: Params,
        outputs: Mapping[str, jax.Array],
        targets: SampleTargets,
        view: MeshView,
    ) -> jax.Array:
        """See `Objective.loss`."""
        del params
        (logits,) = outputs.values()
        log_shares = jax.nn.log_softmax(logits)
        is_class = jax.nn.one_hot(targets.values, self.config.classes)
        losses = -jnp.sum(is_class * log_shares, axis=-1)
        return jnp.sum(weights_on_first_rank(targets.weights, view) * losses)
