"""Loss and gradients of steps that are compiled once for all batches of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from data.batch import PackedBatch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.step import TrainStep
from sharding.mesh import named_shardings
from sharding.plan import ParallelPlan


class CompiledOnce:
    """The gradients of a step, as `check.verify.loss_and_gradients` returns them.

    Args:
        params: parameters of the model, as numpy arrays.
        step: the step.
    """

    def __init__(self, params: Any, step: TrainStep) -> None:
        self._params, self._step = params, step

    @classmethod
    def under(cls, model: ModelConfig, plans: Mapping[str, ParallelPlan], params: Any) -> Any:
        """Of a step without stages."""
        alone = plans["decoder"].devices == 1
        devices = jax.local_devices()[:1] if alone else None
        return cls(params, build_step(model, dict(plans), devices=devices))

    @cached_property
    def _placed(self) -> Any:
        own = self._step
        return jax.device_put(
            own.form.to_stored(self._params), named_shardings(own.mesh, own.form.specs)
        )

    def __call__(self, microbatches: Sequence[PackedBatch]) -> tuple[np.ndarray, Any]:
        """Loss and gradients of packed microbatches, as numpy arrays."""
        own = self._step
        grads, loss = own.gradients(self._placed, place_microbatches(microbatches, own))
        return np.asarray(loss), jax.tree.map(np.asarray, own.form.to_canonical(grads))
