"""Everything a run is made of, built from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax
import optax
from jax.sharding import Mesh

from data.processing.processor import Processor, make_processor
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.modalities import modalities
from mllm_jax.config.schedule import pipeline_plan
from mllm_jax.train.state.freeze import Frozen
from mllm_jax.train.state.optimizer import build_optimizer
from mllm_jax.train.step.train_step import TrainStep, parameter_layouts
from scheduling.schedules.schedule import Observer
from sharding.grid import JointGrid
from sharding.mesh import make_mesh, mesh_like
from sharding.stages import without_stages

#: Positions of a microbatch by resource.
Shape = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Experiment:
    """A configuration with its grid, mesh, processor and compiled programs.

    Attributes:
        shapes: of microbatches that the step has been compiled for, by resource.
    """

    config: ExperimentConfig
    grid: JointGrid
    mesh: Mesh
    processor: Processor
    step: TrainStep
    shapes: set[Shape] = field(default_factory=set)

    @classmethod
    def build(cls, config: ExperimentConfig) -> Experiment:
        """Lay the plans on the devices; nothing is computed yet.

        Raises:
            PlanError: the plans do not fit the devices.
            ScheduleError: the pipeline's sizes do not fit together.
            DataError: tokenizer or processor cannot be made.
        """
        step = train_step(config, jax.devices()[: config.parallel.devices])
        processor = make_processor(config.data, modalities(config.model))
        return cls(config, step.grid, step.mesh, processor, step)

    @cached_property
    def forward(self) -> TrainStep:
        """The step whose layouts serve forward passes: without a pipeline, its stages as fsdp."""
        if self.step.pipeline is None:
            return self.step
        plans = without_stages(self.config.parallel.plans)
        grid = JointGrid.build(plans, self.config.model.decoder.kv_heads)
        return TrainStep(self.config.model, grid, mesh_like(grid, self.mesh), optax.identity())

    def observed(self, observe: Observer) -> TrainStep:
        """The train step of a pipeline that tells `observe` what the devices do."""
        step = self.step
        assert step.pipeline is not None
        plan = replace(step.pipeline, observe=observe)
        common = step.model, self.grid, self.mesh, step.optimizer, plan, step.frozen
        return TrainStep(*common, skips=step.skips)

    def state_bytes(self) -> int:
        """Size of parameters and optimizer state on disk."""
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.step.abstract))


def train_step(config: ExperimentConfig, devices: Sequence[jax.Device]) -> TrainStep:
    """The step that trains `config`, on `devices`.

    Raises:
        PlanError: the plans do not fit the devices.
        ScheduleError: the pipeline's sizes do not fit together.
    """
    grid = JointGrid.build(config.parallel.plans, config.model.decoder.kv_heads)
    pipeline = pipeline_plan(config)
    lay = parameter_layouts(config.model, grid, pipeline is not None)
    optimizer, frozen = build_optimizer(config.train, lay), Frozen(config.train.freeze)
    mesh, skips = make_mesh(grid, devices), config.train.guard.skip > 0
    return TrainStep(config.model, grid, mesh, optimizer, pipeline, frozen, skips=skips)
