"""Steps of modules on devices of their own: plans and devices -> grids -> meshes -> programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import optax

from mllm_jax.config.checks.group_stage_checks import find_stage_problems
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig, TrainConfig
from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.optimizer import build_optimizer, learning_rate
from mllm_jax.train.step.mpmd.program import GroupGrid, MpmdProgram
from mllm_jax.train.step.mpmd.step import MpmdStep
from mllm_jax.train.step.step import no_rate
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import JointGrid
from sharding.mesh import make_mesh
from sharding.plan import DeviceGroup, DeviceNumbers, ParallelPlan, PlanError, group_modules


def build_grouped_step(config: ExperimentConfig) -> MpmdStep:
    """The step that trains `config`, whose modules are in groups with devices of their own.

    Raises:
        PlanError: the plans do not fit the devices.
    """
    return _build_configured(config, config.train)


def build_grouped_gradient_step(config: ExperimentConfig) -> MpmdStep:
    """`build_grouped_step` without an optimizer, for its gradients alone."""
    return _build_configured(config, None)


def _build_configured(config: ExperimentConfig, train: TrainConfig | None) -> MpmdStep:
    return build_mpmd_step(
        config.model,
        config.parallel.plans,
        config.parallel.module_devices,
        FrozenParameters.from_parts(config.frozen),
        train=train,
        exchanges=configure_step(config).exchanges,
    )


def build_mpmd_step(
    model: ModelConfig,
    plans: Mapping[str, ParallelPlan],
    numbers: Mapping[str, DeviceNumbers],
    frozen: FrozenParameters = NOTHING_FROZEN,
    *,
    train: TrainConfig | None = None,
    devices: Sequence[jax.Device] | None = None,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
) -> MpmdStep:
    """A step whose modules run on devices of their own, started by the host.

    Args:
        model: resolved model configuration.
        plans: plans of the backbone and of every bucket, by name, the backbone's first.
        numbers: by the same names, the numbers of the devices of each; modules have the same
            devices, or none in common.
        frozen: parameters without gradients.
        train: how parameters are updated; by default not at all.
        devices: the devices that are numbered; by default all that are present.
        exchanges: by bucket, the exchange of its outputs.

    Raises:
        PlanError: the plans do not fit the devices, or have stages that are refused.
    """
    stack = _divide_layers(model, plans, numbers)
    groups = group_modules(plans, numbers)
    grids = [GroupGrid(group, _build_grid(model, group)) for group in groups]
    program = MpmdProgram(model, grids, frozen, exchanges, stack)
    present = jax.devices() if devices is None else devices
    meshes = [
        make_mesh(each.grid, [present[number] for number in each.group.devices]) for each in grids
    ]
    if train is None:
        optimizers = [optax.with_extra_args_support(optax.identity()) for _ in grids]
        return MpmdStep(program, meshes, optimizers, skips=False, rate=no_rate)
    optimizers = [_build_optimizer(train, program, number) for number in range(len(program.groups))]
    return MpmdStep(
        program, meshes, optimizers, skips=train.guard.skip > 0, rate=learning_rate(train)
    )


def _divide_layers(
    model: ModelConfig, plans: Mapping[str, ParallelPlan], numbers: Mapping[str, DeviceNumbers]
) -> StageLayers | None:
    """The layers of each stage of the backbone; None without stages.

    Raises:
        PlanError: modules have stages, but not as groups can run them.
    """
    backbone, settings = model.backbone, model.backbone_config
    stages = plans[backbone].stage
    for name, plan in plans.items():
        if name != backbone and plan.stage > 1:
            reason = f"{name}: {plan} is refused, as in groups {backbone} alone has stages"
            raise PlanError(reason, f"choose {plan.without_stages}")
    if stages == 1:
        return None
    beside = [n for n in plans if n != backbone and numbers[n] == numbers[backbone]]
    problems = [*find_stage_problems(model, stages, beside)]
    if jax.process_count() > 1:
        problems.append(f"are of one process, and there are {jax.process_count()}")
    if problems:
        reason = f"{backbone}: {plans[backbone]} is refused, as stages in a group {problems[0]}"
        raise PlanError(reason, f"choose {plans[backbone].without_stages}")
    return StageLayers(settings.layers, stages, 1, settings.period)


def _build_grid(model: ModelConfig, group: DeviceGroup) -> JointGrid:
    has_backbone = model.backbone in group.plans
    return JointGrid.build(group.plans, model.backbone_config.kv_heads if has_backbone else None)


def _build_optimizer(
    train: TrainConfig, program: MpmdProgram, number: int
) -> optax.GradientTransformationExtraArgs:
    experts = program.model.backbone_config.experts
    rate = experts.bias_rate if experts else 0.0
    modules = program.modules_of(number)
    return build_optimizer(train, program.form.shardings, program.frozen, rate, modules)
