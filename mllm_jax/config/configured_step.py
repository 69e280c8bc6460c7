"""Lowering of a configuration to the values that the rooms below read: workload and strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from data.planning.independent_microbatches import count_independent_microbatches
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import bucket_positions, bucket_rows, longest_medium
from mllm_jax.config.overlap import resolve_overlap
from mllm_jax.config.pipeline_plan import PipelinePlan, check_layers
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.layers.attention.limits import (
    LIMITS,
    PREFERRED,
    Backend,
    able_backends,
    computed_pair_share,
)
from mllm_jax.layers.config.kinds import MaskKind, has_spans
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import near_sizes
from mllm_jax.models.work.profile import module_profiles
from scheduling.costs.exchange import exchange_of
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Hardware, HardwareError
from scheduling.costs.strategy import PARAMETERS, Strategy, has_collectives
from scheduling.costs.workload import SIZES, Workload
from scheduling.schedules.check import check_schedule
from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.search.scheduler import (
    CostFunction,
    StepScheduler,
    choose_source_chunks,
    make_schedule,
    seconds_on,
)
from sharding.exchange_kinds import Exchanges

#: Number of configured steps that are cached for later calls.
KEPT = 16


@dataclass(frozen=True)
class ConfiguredStep:
    """A configuration lowered to values of `scheduling`.

    Attributes:
        config: the configuration that was lowered.
        workload: the work of a step.
        chosen: how it runs, as the configuration says.
        times: task times by which encoders are placed.
        hardware: hardware by whose seconds exchanges are chosen; None: by their bytes.
    """

    config: ExperimentConfig
    workload: Workload
    chosen: Strategy
    times: CostFunction
    hardware: Hardware | None = None

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy of the step, with the chunks of all encoders.

        Raises:
            ScheduleError: layers cannot be cut as configured.
        """
        return choose_source_chunks(self.workload, self.chosen, self.times)

    @cached_property
    def schedule(self) -> Schedule:
        """The order of the step's tasks, of one stage, too.

        Raises:
            ScheduleError: the sizes do not fit together.
        """
        return make_schedule(self.workload, self.strategy, self.times)

    @cached_property
    def exchanges(self) -> Exchanges:
        """By bucket, the exchange by which its outputs reach the decoder."""
        platform_of_cost = self.hardware, self.config.parallel.platform
        names = self.workload.sources
        return {
            name: exchange_of(self.workload, self.chosen, name, *platform_of_cost) for name in names
        }

    @property
    def costs(self) -> TaskCosts:
        """FLOPs of the tasks of `schedule`."""
        return task_flops(self.workload, self.strategy)

    @cached_property
    def pipeline(self) -> PipelinePlan | None:
        """The checked plan of the pipeline; None with one stage, or in groups of modules.

        Raises:
            ScheduleError: layers, stages, chunks and microbatches do not fit together.
        """
        chosen_strategy = self.strategy
        if chosen_strategy.backbone.stage == 1 or self.config.parallel.groups:
            return None
        check_layers(self.config.model, self.schedule, self.config.schedule.pad_layers)
        check_schedule(self.schedule)
        follows = self.config.schedule.independent_microbatches
        return PipelinePlan(
            self.schedule,
            gather=chosen_strategy.gather,
            co_issue=chosen_strategy.co_issue,
            overlap_gather="data" in chosen_strategy.fill,
            independent_microbatches=StepScheduler(self.workload, chosen_strategy, self.times)
            if follows
            else None,
            checked=self.config.train.check_schedules,
        )


_cache: dict[str, ConfiguredStep] = {}


def configure_step(config: ExperimentConfig, platform: str | None = None) -> ConfiguredStep:
    """Workload, strategy and schedule of `config`, which equal configurations share.

    Args:
        platform: platform for which `auto` is settled; None: that of the hardware whose seconds
            place the encoders, or else that of the configuration.

    Raises:
        ScheduleError: there is no such hardware as the schedule's.
    """
    hardware = _planning_hardware(config)
    # A step without stages has no bubbles to place anything in.
    has_pipeline = config.parallel.backbone_plan.stage > 1 and not config.parallel.groups
    placed = hardware if has_pipeline else None
    platform = platform or (placed.platform if placed else config.parallel.platform)
    work, chosen = build_workload(on_platform(config, platform)), build_strategy(config, platform)
    schedule = config.schedule
    further = schedule.pad_layers, schedule.independent_microbatches, config.train.check_schedules
    in_groups = bool(config.parallel.groups)
    key = repr((work, chosen, hardware, config.parallel.platform, further, in_groups))
    if key not in _cache:
        times = seconds_on(placed) if placed else task_flops
        while len(_cache) >= KEPT:
            del _cache[next(iter(_cache))]
        _cache[key] = ConfiguredStep(config, work, chosen, times, hardware)
    return _cache[key]


def _planning_hardware(config: ExperimentConfig) -> Hardware | None:
    """Hardware whose seconds place the encoders and choose exchanges; None: FLOPs and bytes do."""
    if config.schedule.hardware is None:
        return None
    try:
        return load_hardware(config.schedule.hardware)
    except HardwareError as error:
        raise ScheduleError(f"schedule.hardware: {error}") from None


def on_platform(config: ExperimentConfig, platform: str) -> ExperimentConfig:
    """`config` with the type and the attention that `auto` means on `platform`."""
    model = config.model
    dtype = model.dtype_on(platform)
    attention = model.attention
    if attention == "auto":
        attention = _choose_attention(config, platform, dtype)
    changed = model.model_copy(update={"dtype": dtype, "attention": attention})
    return config.model_copy(update={"model": changed})


def _choose_attention(config: ExperimentConfig, platform: str, dtype: str) -> Backend:
    """The first implementation that can run all modules."""
    able = []
    for name in (config.model.backbone, *config.model.buckets):
        module = config.model.module(name)
        tokens = config.data.budgets[config.budget_key(name)] // module.stride
        width, spans = module.head_dim, has_spans(module.layer_kinds)
        backends = able_backends(platform, tokens=tokens, head_dim=width, dtype=dtype, spans=spans)
        able.append(set(backends))
    return next(name for name in PREFERRED[platform] if all(name in backends for backends in able))


def build_workload(config: ExperimentConfig) -> Workload:
    """The work of a step of `config`, whose dtype and attention `on_platform` has settled."""
    model, data = config.model, config.data
    backbone = model.backbone
    positions = {backbone: data.budgets["tokens"]}
    positions |= {name: bucket_positions(config, name) for name in model.buckets}
    frozen, modules = config.frozen, {backbone: backbone, **model.buckets}
    return Workload(
        modules=module_profiles(model),
        positions=positions,
        rows=data.rows * config.train.accumulate,
        dtype=model.dtype,
        sums=SIZES[config.parallel.reduce_dtype],
        moments=config.train.optimizer.moments,
        workspace_per_element=config.train.optimizer.workspace_per_element,
        frozen=frozenset(n for n, module in modules.items() if frozen.is_trunk_frozen(module)),
        frozen_connectors=frozenset(
            n for n, e in model.buckets.items() if frozen.is_connector_frozen(e)
        ),
        adapted=frozenset(n for n, module in modules.items() if module in frozen.adapted),
        adapted_connectors=frozenset(
            n for n, e in model.buckets.items() if f"{e}.connector" in frozen.adapted
        ),
        constant=SIZES[frozen.dtype],
        buckets=model.buckets,
        microbatch_counts={name: _count_microbatches(config, name) for name in model.buckets},
        spread={name: bucket_rows(config, name) for name in model.buckets},
        loss_chunk=model.loss_chunk,
        pairs={backbone: _full_pairs(model, positions[backbone])},
        near_pairs=_near_pairs(model, positions),
        separate_media=data.balance == "per_phase",
        exchange=config.parallel.exchange,
        by_segment=LIMITS[model.attention].by_segment,
        adaptive=config.schedule.independent_microbatches,
    )


def _count_microbatches(config: ExperimentConfig, name: str) -> int:
    """Microbatches of an encoder that hold what one of the decoder's can bring."""
    budget, positions = config.data.budgets[name], bucket_positions(config, name)
    most, reduction = (
        min(longest_medium(config, name), positions),
        config.model.reduction(name),
    )
    return count_independent_microbatches(
        budget, positions, most, reduction, bucket_rows(config, name)
    )


def _full_pairs(model: ModelConfig, tokens: int) -> float:
    """Share of all pairs of a row that the decoder's layers without window and chunks compute."""
    masks = near_sizes(model.backbone_config.layer_kinds, {})
    return computed_pair_share(model.attention, tokens, masks.get((None, None), MaskKind()))


def _near_pairs(model: ModelConfig, positions: Mapping[str, int]) -> dict[str, tuple[float, ...]]:
    """The same of layers with windows or chunks, in the order of `ModuleWork.near`."""
    near = {
        name: _near_shares(model.attention, positions[name], model.module(name))
        for name in (model.backbone, *model.buckets)
    }
    return {name: shares for name, shares in near.items() if shares}


def _near_shares(backend: str, positions: int, module: ModuleConfig) -> tuple[float, ...]:
    masks, tokens = (
        near_sizes(module.layer_kinds, module.bound_sizes),
        positions // module.stride,
    )
    return tuple(
        computed_pair_share(backend, tokens, mask, module.bound_sizes.get(mask.bounds))
        for sizes, mask in masks.items()
        if sizes != (None, None)
    )


def build_strategy(config: ExperimentConfig, platform: str) -> Strategy:
    """The strategy of `config` on `platform`, with chunks only for the encoders that it names."""
    chosen, plans = config.schedule, config.parallel.plans
    stages = config.parallel.backbone_plan.stage > 1
    return Strategy(
        plans=plans,
        microbatches=config.train.accumulate,
        chunks=chosen.chunks,
        remat=config.model.remat,
        remats=config.model.remats,
        gather=chosen.fsdp_gather,
        placement=chosen.placement,
        max_waiting=chosen.max_waiting,
        co_issue="tensor" in chosen.fill and stages and has_collectives(plans, chosen.fsdp_gather),
        kind=chosen.kind,
        fill=chosen.fill,
        prefetch=chosen.prefetch and not chosen.independent_microbatches,
        # Beside stages other tasks of a fused task hide them.
        overlap=resolve_overlap(config, platform).kinds | (PARAMETERS if stages else frozenset()),
        keeps_microbatches=config.waits_for_step and not config.gradient_caching,
    )
