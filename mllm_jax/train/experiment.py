"""The objects of a run, built from its configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import jax

from data.processing.processor import Processor
from mllm_jax.config.buckets import configured_processor
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.compiled.precompiled import PrecompiledPrograms
from mllm_jax.runtime.compiled.synchronized import SynchronizedProgram, synchronize_program
from mllm_jax.train.step.build import (
    build_step_on_devices_of,
    build_train_step,
    separate_programs_error,
    with_pipeline_plan,
)
from mllm_jax.train.step.mpmd.build import build_grouped_step, build_mpmd_step
from mllm_jax.train.step.mpmd.compile import LoadedPrograms
from mllm_jax.train.step.mpmd.step import MpmdStep
from mllm_jax.train.step.plain import PlainProgram
from mllm_jax.train.step.step import Step, TrainStep
from scheduling.schedules.tasks import Observer
from sharding.grid import JointGrid

#: Name of the program that takes a step, for messages and for where it is stored.
STEP_PROGRAM = "the train step"
#: Positions of a microbatch by resource.
Shape = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Experiment:
    """A configuration with its grid, processor and compiled programs.

    Attributes:
        shapes: shapes of microbatches, by resource, that the step has been compiled for.
    """

    config: ExperimentConfig
    grid: JointGrid
    processor: Processor
    step: Step
    shapes: set[Shape] = field(default_factory=set)

    @classmethod
    def build(cls, config: ExperimentConfig) -> Experiment:
        """Lay the plans on the devices; nothing is computed yet.

        Raises:
            PlanError: the plans do not fit the devices.
            ScheduleError: the pipeline's sizes do not fit together.
            DataError: tokenizer or processor cannot be built.
        """
        build = build_grouped_step if config.parallel.separate_groups else build_train_step
        step = build(config)
        processor = configured_processor(config)
        return cls(config, step.program.grid, processor, step)

    @property
    def joint_step(self) -> TrainStep:
        """The step, of one program on all devices.

        Raises:
            PlanError: modules have devices of their own.
        """
        if not isinstance(self.step, TrainStep):
            raise separate_programs_error(self.config.parallel.separate_groups)
        return self.step

    @cached_property
    def forward_step(self) -> Step:
        """The step whose shardings serve forward passes: no pipeline, its stages as fsdp."""
        parallel, program = self.config.parallel, self.step.program
        if parallel.backbone_plan.stage == 1 or isinstance(program, PlainProgram):
            return self.step
        plans = parallel.without_stages(parallel.plans)
        if isinstance(self.step, MpmdStep):
            return build_mpmd_step(program.model, plans, parallel.module_devices)
        return build_step_on_devices_of(self.joint_step, self.config.model, plans)

    @cached_property
    def update(self) -> SynchronizedProgram:
        """`Step.update`, of programs that were compiled ahead of time where there are any."""
        folder, step = self.config.run.compiled_steps, self.step
        if folder is None or not isinstance(step, MpmdStep):
            return synchronize_program(STEP_PROGRAM, step.update, self.precompiled)
        return synchronize_program(STEP_PROGRAM, LoadedPrograms(Path(folder)).wrap(step.update))

    @property
    def precompiled(self) -> PrecompiledPrograms | None:
        """Programs that were compiled ahead of time, if the configuration names their folder."""
        folder = self.config.run.compiled_steps
        if folder is None:
            return None
        return PrecompiledPrograms(Path(folder), self.step.options, self.step.devices)

    def observed_step(self, observe: Observer) -> TrainStep:
        """The train step of a pipeline that calls `observe` at the start and end of fused tasks."""
        return with_pipeline_plan(self.joint_step, observe=observe)

    def state_bytes(self) -> int:
        """Size of parameters and optimizer state on disk."""
        return sum(
            leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.step.abstract_state)
        )
