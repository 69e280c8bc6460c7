"""Steps of one program: plans -> grid -> mesh -> gradient program -> update.

Steps of modules in groups are built in `train/step/mpmd/build.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig, TrainConfig
from mllm_jax.config.overlap import Overlap
from mllm_jax.config.overlap import resolve_overlap as overlap_of
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.streams import NO_STREAMS
from mllm_jax.train.state.optimizer import build_optimizer, learning_rate
from mllm_jax.train.step.gradient_program import GradientProgram
from mllm_jax.train.step.pipeline import PipelineProgram
from mllm_jax.train.step.plain import PlainProgram
from mllm_jax.train.step.step import TrainStep
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import Axes, JointGrid, ReduceDtype
from sharding.mesh import make_mesh, mesh_like, rolled_mesh
from sharding.plan import ParallelPlan, PlanError

#: No collective is overlapped with compute, unless the compiler sees to it.
NO_OVERLAP = Overlap()
#: Place of a step: devices, in the order that suits them, or a mesh, in its order.
Devices = Sequence[jax.Device] | Mesh


def build_train_step(config: ExperimentConfig, devices: Devices | None = None) -> TrainStep:
    """The step that trains `config`, by default on the first devices that are present.

    Raises:
        PlanError: the plans do not fit the devices, or modules are in groups.
        ScheduleError: the pipeline's sizes do not fit together.
    """
    return _build_configured_step(config, config.train, devices)


def build_gradient_step(config: ExperimentConfig, devices: Devices | None = None) -> TrainStep:
    """`build_train_step` without an optimizer, for its gradients alone.

    Raises:
        PlanError, ScheduleError: as of `build_train_step`.
    """
    return _build_configured_step(config, None, devices)


def build_step(
    model: ModelConfig,
    plans: Mapping[str, ParallelPlan],
    pipeline: PipelinePlan | None = None,
    frozen: FrozenParameters = NOTHING_FROZEN,
    *,
    train: TrainConfig | None = None,
    devices: Devices | None = None,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
    overlap: Overlap = NO_OVERLAP,
    reduce_dtype: ReduceDtype = "float32",
    gradient_caching: bool = True,
    streams: Mapping[str, int] = NO_STREAMS,
) -> TrainStep:
    """A step from its parts.

    Args:
        model: resolved model configuration.
        plans: plans of the decoder and of every encoder, by name.
        pipeline: how the decoder's stages work together; None without stages.
        frozen: parameters without gradients.
        train: how parameters are updated; by default not at all.
        devices: devices, as many as the plans need; by default the first that are present.
        exchanges: by bucket, the exchange of its outputs.
        overlap: collectives that are overlapped with compute.
        reduce_dtype: type in which partial sums of tensor ranks travel in forwards.
        gradient_caching, streams: as of `PlainProgram`.

    Raises:
        PlanError: the plans do not fit each other or the devices.
    """
    grid = JointGrid.build(plans, model.backbone_config.kv_heads, overlap.kinds, reduce_dtype)
    program = build_gradient_program(
        model,
        grid,
        pipeline,
        frozen,
        exchanges,
        gradient_caching=gradient_caching,
        streams=streams,
    )
    mesh = _build_mesh(grid, devices)
    if train is None:
        return TrainStep(program, mesh, optax.identity(), options=overlap.options)
    experts = model.backbone_config.experts
    bias_rate = experts.bias_rate if experts else 0.0
    optimizer = build_optimizer(train, program.form.shardings, frozen, bias_rate)
    skips = train.guard.skip > 0
    rate = learning_rate(train)
    return TrainStep(
        program, mesh, optimizer, skips=skips, learning_rate=rate, options=overlap.options
    )


def build_step_on_devices_of(
    step: TrainStep, model: ModelConfig, plans: Mapping[str, ParallelPlan]
) -> TrainStep:
    """A step without an optimizer on the devices of another one, in their order."""
    return build_step(model, plans, devices=step.mesh)


def rolled_step(step: TrainStep, axes: Axes) -> TrainStep:
    """The same program without an optimizer, each rank along `axes` on the next one's devices."""
    return TrainStep(step.program, rolled_mesh(step.mesh, axes), optax.identity())


def build_gradient_program(
    model: ModelConfig,
    grid: JointGrid,
    pipeline: PipelinePlan | None = None,
    frozen: FrozenParameters = NOTHING_FROZEN,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
    *,
    gradient_caching: bool = True,
    streams: Mapping[str, int] = NO_STREAMS,
) -> GradientProgram:
    """The gradient program on `grid`; arguments are those of `build_step`."""
    if pipeline is None:
        parts = model, grid, frozen, exchanges
        return PlainProgram(*parts, gradient_caching=gradient_caching, streams=streams)
    return PipelineProgram(model, grid, frozen, pipeline, exchanges)


def with_pipeline_plan(step: TrainStep, **changes: Any) -> TrainStep:
    """The same step with other values in the `PipelinePlan` of its program.

    Raises:
        TypeError: the step's program is no pipeline.
    """
    program = step.program
    if not isinstance(program, PipelineProgram):
        raise TypeError(f"{type(program).__name__} has no PipelinePlan; valid: PipelineProgram")
    parts = step.mesh, step.optimizer
    options = {"skips": step.skips, "learning_rate": step.learning_rate, "options": step.options}
    return TrainStep(program.with_plan(**changes), *parts, **options)


def separate_programs_error(groups: Iterable[str]) -> PlanError:
    """The refusal of groups of modules by what needs one program for all modules."""
    reason = f"parallel.groups: {', '.join(groups)} have no program in common, which this needs"
    return PlanError(reason, "choose parallel.groups={}, and plans over all devices")


def _build_configured_step(
    config: ExperimentConfig, train: TrainConfig | None, devices: Devices | None
) -> TrainStep:
    if config.parallel.separate_groups:
        raise separate_programs_error(config.parallel.separate_groups)
    frozen, configured = FrozenParameters.from_parts(config.frozen), configure_step(config)
    parts = config.model, config.parallel.plans, configured.pipeline, frozen
    return build_step(
        *parts,
        train=train,
        devices=devices,
        exchanges=configured.exchanges,
        overlap=overlap_of(config),
        reduce_dtype=config.parallel.reduce_dtype,
        gradient_caching=config.gradient_caching,
        streams=config.parallel.module_streams(config.model.backbone),
    )


def _build_mesh(grid: JointGrid, devices: Devices | None) -> Mesh:
    if isinstance(devices, Mesh):
        return mesh_like(grid, devices)
    return make_mesh(grid, jax.devices()[: grid.devices] if devices is None else devices)
