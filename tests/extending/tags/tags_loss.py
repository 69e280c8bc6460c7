"""The loss of tags: a binary cross entropy for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from data.batch import SampleTargets
from mllm_jax.models.objectives.objective import SampleObjective, weights_on_first_rank
from sharding.grid import MeshView


@dataclass(frozen=True)
class TagsLoss(SampleObjective):
    """Mean over tags; outputs are their logits."""

    config: Any

    def loss(
        self,
        params: Mapping[str, Any],
        outputs: Mapping[str, jax.Array],
        targets: SampleTargets,
        view: MeshView,
    ) -> jax.Array:
        """The sum over this rank's samples."""
        (logits,) = outputs.values()
        losses = jnp.mean(jax.nn.softplus(logits) - targets.values * logits, axis=-1)
        return jnp.sum(weights_on_first_rank(targets.weights, view) * losses)
