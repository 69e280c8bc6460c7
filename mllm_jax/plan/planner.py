"""Plans for a configuration: the space that is searched, and plans as configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from mllm_jax.config.configured_step import on_platform
from mllm_jax.config.load import ExperimentConfig, ScheduleConfig
from mllm_jax.config.overlap import overlap_kinds_without_stages
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.plan.memory import device_room
from mllm_jax.plan.traced import traced_workload
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.schedules.kinds import SPLIT_BACKWARD
from scheduling.search.bounds import LowerBounds
from scheduling.search.branch_and_bound import (
    Lean,
    ProgressCallback,
    SearchResult,
    find_fitting,
    find_leanest,
    search_space,
)
from scheduling.search.outcome import SearchOutcome
from scheduling.search.scheduler import Scheduler
from scheduling.search.space import Space, with_stages
from sharding.plan import PlanRequirement, divisors_of

#: Larger tensor groups are not tried.
MOST_TENSORS = 128
#: Keys of independent microbatches of encoders, which only encoders in bubbles have.
INDEPENDENT = ("independent_microbatches", "independent_budgets", "independent_rows")
#: What makes the schedules of a workload, and what bounds them.
SearchCosts = tuple[Scheduler, LowerBounds]


@dataclass(frozen=True)
class PlanSearch:
    """Searches plans for the model, the rows of a step and the devices of a configuration.

    Attributes:
        config: configuration whose plans, schedule, `model.remat`, `data.rows` and
            `train.accumulate` are chosen; the product of the last two stays.
        hardware: hardware of the devices.
        name: how `schedule.hardware` calls it.
        memory: bytes of a device that a step may take; None for all that a program may.
        within: share by which the result may miss the fastest plan.
        all_devices: whether plans that leave devices idle are left out.
    """

    config: ExperimentConfig
    hardware: Hardware
    name: str
    memory: float | None = None
    within: float = 0.0
    all_devices: bool = False

    def with_devices(self, devices: int) -> PlanSearch:
        """A planner of the same for `devices` devices."""
        parallel = self.config.parallel.model_copy(update={"devices": devices})
        config = self.config.model_copy(update={"parallel": parallel})
        return replace(self, config=config)

    @cached_property
    def platform_config(self) -> ExperimentConfig:
        """The configuration as it is on the platform of the hardware."""
        return on_platform(self.config, self.hardware.platform)

    @cached_property
    def space(self) -> Space:
        """Degrees that the model's sizes divide by; groups of them stay within a domain."""
        config, requirements = self.config, self._plan_requirements()
        of_backbone = requirements[self.platform_config.model.backbone]
        devices = config.parallel.devices
        most = min(devices, self.hardware.domain, MOST_TENSORS)

        def split(axis: str, degrees: Iterable[int]) -> tuple[int, ...]:
            sizes = [need.size for need in of_backbone if need.axis == axis]
            return tuple(n for n in degrees if all(size % n == 0 for size in sizes))

        rows = split("sequence", range(1, most + 1))
        return Space(
            devices=devices,
            counts=(devices,) if self.all_devices else None,
            requirements=requirements,
            memory=device_room(self.hardware)[0] if self.memory is None else self.memory,
            contexts=rows,
            tensors=split("tensor", rows),
            experts=self._expert_degrees,
            domain=most,
            kinds=tuple(sorted(SPLIT_BACKWARD)) if self._trains_decoder else (),
            pad=self.platform_config.schedule.pad_layers,
            evaluates=config.evaluate.enabled,
            overlap=overlap_kinds_without_stages(self.platform_config, self.hardware.platform),
        )

    @property
    def _expert_degrees(self) -> tuple[int, ...]:
        """Numbers of ranks that can share the experts of the decoder, if it has any."""
        experts = self.platform_config.model.backbone_config.experts
        return (1,) if experts is None else tuple(divisors_of(experts.count))

    def _plan_requirements(self) -> dict[str, tuple[PlanRequirement, ...]]:
        config, model = self.platform_config, self.platform_config.model
        requirements_by_module = {}
        for name in (model.backbone, *model.buckets):
            each = model.reduction(name)
            rows = config.row_positions(name).items()
            outputs = (PlanRequirement(key, size // each, "sequence") for key, size in rows)
            requirements_by_module[name] = (*model.requirements(name), *outputs)
        return requirements_by_module

    @cached_property
    def workload(self) -> Workload:
        """The work of a step whose encoders fill bubbles, maybe with independent microbatches."""
        return self._trace_workload(self.platform_config)

    @cached_property
    def plain_workload(self) -> Workload:
        """The work of all other steps: encoders have the rows of the decoder's microbatches."""
        if not self.workload.adaptive:
            return self.workload
        default = type(self.config.schedule)()
        schedule = self.platform_config.schedule.model_copy(
            update={key: getattr(default, key) for key in INDEPENDENT}
        )
        return self._trace_workload(self.platform_config.model_copy(update={"schedule": schedule}))

    def workload_of(self, strategy: Strategy) -> Workload:
        """The work of a step as it runs under a strategy."""
        return self.workload if _fills_bubbles(strategy) else self.plain_workload

    def _trace_workload(self, config: ExperimentConfig) -> Workload:
        deferred = not SPLIT_BACKWARD.isdisjoint(self.space.kinds)
        shares = {degree > 1 for degree in self.space.experts}
        splits = [*product(self.space.tensors or (), shares)]
        return traced_workload(config, splits, deferred=deferred)

    @property
    def _trains_decoder(self) -> bool:
        """Whether the decoder has gradients of weights."""
        return not self.platform_config.frozen.is_trunk_frozen(self.platform_config.model.backbone)

    @cached_property
    def _bubble_costs(self) -> SearchCosts:
        return Scheduler(self.workload, self.hardware), LowerBounds(self.workload, self.hardware)

    @cached_property
    def _plain_costs(self) -> SearchCosts:
        return Scheduler(self.plain_workload, self.hardware), LowerBounds(
            self.plain_workload, self.hardware
        )

    def _split_space(self, space: Space) -> Iterator[tuple[Space, SearchCosts]]:
        """Parts of a space whose strategies run the same work."""
        if not self.workload.adaptive:
            yield space, self._bubble_costs
            return
        staged = with_stages(space, self.workload)
        if "bubbles" in space.placements and staged.stages:
            yield replace(staged, placements=("bubbles",)), self._bubble_costs
        others = tuple(placement for placement in space.placements if placement != "bubbles")
        if others:
            yield replace(space, placements=others), self._plain_costs
        elif 1 in (space.stages or (1,)):
            yield replace(space, stages=(1,)), self._plain_costs

    def configure_plans(self, strategy: Strategy) -> ExperimentConfig:
        """The configuration with the plans of `strategy`, for the devices that it uses.

        Its sections are not checked again.
        """
        config = self.config
        parallel = config.parallel.with_plans(strategy.plans)
        rows = self.workload.rows // strategy.microbatches
        # Without stages there is no pipeline whose step could be traced.
        traced = config.run.trace_step if strategy.backbone.stage > 1 else None
        checked = config.train.check_schedules and bool(self._independent_microbatches(strategy))
        train = {"accumulate": strategy.microbatches, "check_schedules": checked}
        return config.model_copy(
            update={
                "run": config.run.model_copy(update={"trace_step": traced}),
                "parallel": parallel,
                "schedule": self._schedule_for(strategy),
                "model": self._model_for(strategy),
                "data": config.data.model_copy(update={"rows": rows}),
                "train": config.train.model_copy(update=train),
            }
        )

    def _model_for(self, strategy: Strategy) -> ModelConfig:
        """The model; its encoders recompute as the decoder does, unless `strategy` names them."""
        model, remats = self.config.model, strategy.remats
        encoders = {
            name: model.others[name].model_copy(update={"remat": remats.get(bucket)})
            for bucket, name in model.buckets.items()
        }
        changed = model.with_others(encoders)
        return changed.model_copy(update={"remat": strategy.remat})

    def _schedule_for(self, strategy: Strategy) -> ScheduleConfig:
        chosen = self.config.schedule
        default = type(chosen)(hardware=self.name)
        if strategy.backbone.stage == 1:
            return default
        chunks = {**strategy.chunks, strategy.backbone_name: strategy.backbone_chunks}
        return default.model_copy(
            update={
                **self._independent_microbatches(strategy),
                "kind": strategy.kind,
                "chunks": chunks,
                "placement": strategy.placement,
                "max_waiting": strategy.max_waiting,
                "fsdp_gather": strategy.gather,
                "pad_layers": chosen.pad_layers,
            }
        )

    def _independent_microbatches(self, strategy: Strategy) -> dict[str, Any]:
        """The keys of independent microbatches of encoders, which only encoders in bubbles have."""
        if not _fills_bubbles(strategy):
            return {}
        return {key: getattr(self.config.schedule, key) for key in INDEPENDENT}

    def search_plans(
        self,
        top: int = 1,
        progress: ProgressCallback | None = None,
        space: Space | None = None,
        known: Sequence[SearchOutcome] = (),
    ) -> SearchResult:
        """The fastest strategies of `space`, by default of all, and of those that are known."""
        result = SearchResult(tuple(known), 0, 0, {})
        for subspace, (schedule, bounds) in self._split_space(space or self.space):
            part_result = search_space(
                subspace, schedule, top, progress, self.within, result.best, bounds
            )
            result = result.joined_with(part_result)
        return result

    def find_leanest(self, space: Space | None = None) -> Lean | None:
        """The strategy of `space`, by default of all, that takes least memory, and its bytes."""
        candidates = (
            find_leanest(subspace, costs[0])
            for subspace, costs in self._split_space(space or self.space)
        )
        return min((lean for lean in candidates if lean), key=lambda lean: lean[1], default=None)

    def find_fitting(self) -> Lean | None:
        """A strategy that has room, and its bytes; None if there is none."""
        candidates = (
            find_fitting(subspace, costs[0]) for subspace, costs in self._split_space(self.space)
        )
        return next((lean for lean in candidates if lean), None)


def _fills_bubbles(strategy: Strategy) -> bool:
    return strategy.backbone.stage > 1 and strategy.placement == "bubbles"
