"""Steps of modules on devices of their own: plans and devices -> grids -> meshes -> programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import optax

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig, TrainConfig
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
        PlanError: the plans do not fit the devices, or have stages.
    """
    for name, plan in plans.items():
        if plan.stage > 1:
            reason = f"{name}: {plan} is refused, as modules with devices of their own have"
            raise PlanError(f"{reason} no stages", f"choose {plan.without_stages}")
    groups = group_modules(plans, numbers)
    grids = [GroupGrid(group, _build_grid(model, group)) for group in groups]
    program = MpmdProgram(model, grids, frozen, exchanges)
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
