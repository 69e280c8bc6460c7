"""The schedule of a strategy: the backbone's tasks, and those of its sources among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduling.costs.estimate import step_times
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy, module_feed, module_stages
from scheduling.costs.workload import Workload
from scheduling.schedules.bubbles import choose_chunks, choose_prefetch, place_modules
from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.make import backbone_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import Consumers, valid_chunks
from sharding.plan import ParallelPlan

#: Computes the costs of the tasks of a strategy's step, by which sources are placed: FLOPs
#: (`scheduling.costs.flops.task_flops`), or seconds on some hardware (`seconds_on`).
CostFunction = Callable[[Workload, Strategy], TaskCosts]


def seconds_on(hardware: Hardware) -> CostFunction:
    """Tasks cost the seconds that they take on `hardware`."""
    return lambda workload, strategy: step_times(workload, strategy, hardware).costs


def make_schedule(
    workload: Workload,
    strategy: Strategy,
    times: CostFunction,
    thorough: bool = True,
    feeds: Mapping[str, Consumers] | None = None,
    in_turn: bool = False,
) -> Schedule:
    """Make the schedule: backbone tasks by the strategy's kind, other tasks by its placement.

    Without stages it is the order of the plain step: microbatch by microbatch, sources first.

    Args:
        strategy: strategy with the chunks of all sources, as `choose_source_chunks` chooses them.
        thorough: see `place_modules`.
        feeds: by source, what its microbatches feed (`Feed.consumers`), for a step in which they
            are independent of the backbone's; then no source computes outputs for the next step.
        in_turn: see `place_modules`.

    Raises:
        ScheduleError: the sizes do not fit together.
    """
    if strategy.backbone.stage == 1:
        alone = replace(strategy, placement="first_stage")
        return pipeline_schedule(workload, alone, task_flops, thorough)
    return pipeline_schedule(workload, strategy, times, thorough, feeds, in_turn)


def pipeline_schedule(
    workload: Workload,
    strategy: Strategy,
    times: CostFunction,
    thorough: bool = True,
    feeds: Mapping[str, Consumers] | None = None,
    in_turn: bool = False,
) -> Schedule:
    """Make the schedule as `make_schedule` does for several stages; a single stage is allowed."""
    modules = tuple(module_stages(workload, strategy, name) for name in workload.sources)
    fed = [module_feed(workload, name) for name in workload.sources]
    backbone, costs = _backbone_schedule(strategy, strategy.microbatches), times(workload, strategy)
    if feeds is not None:
        fed = [replace(feed, consumers=feeds[feed.source]) for feed in fed]
    elif strategy.prefetch and strategy.placement == "bubbles":
        modules = choose_prefetch(
            backbone, modules, costs, strategy.fill, strategy.max_waiting, fed
        )
    limits = strategy.placement, strategy.fill, strategy.max_waiting
    return place_modules(backbone, modules, costs, *limits, thorough, in_turn, fed)


def _backbone_schedule(strategy: Strategy, microbatches: int) -> Schedule:
    sizes = strategy.backbone.stage, strategy.backbone_chunks, microbatches
    return backbone_schedule(strategy.kind, *sizes, strategy.backbone_name)


class PlacementLimits(NamedTuple):
    """Limits under which the sources' tasks of a step are placed.

    Attributes:
        max_waiting: number of the backbone's microbatches whose outputs, or gradients, may wait.
        in_turn: see `place_modules`.
    """

    max_waiting: int
    in_turn: bool = False


@dataclass(frozen=True)
class StepScheduler:
    """Makes the schedules of steps whose sources have independent microbatches.

    Attributes:
        workload, strategy, times: see `make_schedule`; the strategy has the chunks of all sources.
    """

    workload: Workload
    strategy: Strategy
    times: CostFunction

    def __call__(self, feeds: Mapping[str, Consumers], limits: PlacementLimits) -> Schedule:
        """Make the schedule of a step in little time.

        Args:
            feeds: see `make_schedule`.
            limits: one of `placement_limits`.
        """
        strategy = replace(self.strategy, max_waiting=limits.max_waiting)
        return make_schedule(
            self.workload, strategy, self.times, thorough=False, feeds=feeds, in_turn=limits.in_turn
        )

    @property
    def positions(self) -> Mapping[str, int]:
        """Positions of a row of a microbatch, by module."""
        return self.workload.positions

    @property
    def spread(self) -> Mapping[str, int]:
        """Rows of a source's microbatch for each of the backbone's, by source, if not one."""
        return self.workload.spread

    def placement_limits(self) -> list[PlacementLimits]:
        """Limits to try: the first make the shortest step, the last need the fewest slots.

        Encoder pipelines first get as many microbatches as their idle slots suggest. Then they get
        them in turn, and ever fewer outputs may wait: in the end none, so that an encoder
        microbatch is held only while one that it feeds is in the backbone.
        """
        stages = self.strategy.backbone.stage
        least = max(stages // plan.stage for plan in self.strategy.plans.values())
        most = self.strategy.max_waiting or 2 * stages
        bounds = [most]
        while bounds[-1] > least:
            bounds.append(max(least, bounds[-1] * 3 // 4))
        return [
            PlacementLimits(most),
            *(PlacementLimits(bound, in_turn=True) for bound in dict.fromkeys([*bounds, 1, 0])),
        ]


def choose_source_chunks(workload: Workload, strategy: Strategy, times: CostFunction) -> Strategy:
    """Choose the chunks of all sources: those that `strategy` names, else what fits bubbles.

    Raises:
        ScheduleError: layers cannot be cut like this.
    """
    chunks = {name: _choose_chunks(workload, strategy, name, times) for name in workload.sources}
    return strategy.with_source_chunks(chunks)


def _choose_chunks(workload: Workload, strategy: Strategy, name: str, times: CostFunction) -> int:
    """Chunks of a source on each stage: as named, else so that one fits the backbone's bubbles."""
    stages, profile = strategy.plans[name].stage, workload.modules[name]
    encoder, valid = workload.buckets.get(name, name), valid_chunks(profile.periods, stages)
    bubbles = strategy.placement == "bubbles" and strategy.backbone.stage > 1
    if name in strategy.chunks or not bubbles:
        chunks = strategy.chunks_of(name)
        if chunks not in valid:
            each = ", ".join(map(str, valid)) or "none: choose a stage that divides the layers"
            raise ScheduleError(
                f"schedule.chunks.{name}: {chunks} on each of {stages} stages do not split the "
                f"{profile.layers} layers of {encoder} evenly; valid: {each}"
            )
        return chunks
    if not valid:
        raise ScheduleError(
            f"{encoder}: {profile.layers} layers cannot be cut over {stages} stages; choose a "
            f"stage of the plan of {name} that divides them"
        )
    return _fitting_chunks(workload, strategy, name, valid, times)


def _fitting_chunks(
    workload: Workload, strategy: Strategy, name: str, valid: list[int], times: CostFunction
) -> int:
    """The number of chunks of a source, one of `valid`, that fits the backbone's bubbles."""
    strategies = [strategy.with_source_chunks({name: chunks}) for chunks in valid]
    divisions = {
        module_stages(workload, divided, name): times(workload, divided).sources[name]
        for divided in strategies
    }
    # Chunks that fill the bubbles of a few rounds fill those of many.
    microbatches = min(strategy.microbatches, 2 * strategy.backbone.stage)
    alone = times(workload, strategy.with_source_chunks({}))
    backbone = _backbone_schedule(strategy, microbatches)
    feeds = [module_feed(workload, name)]
    chosen = choose_chunks(backbone, divisions, alone, strategy.fill, strategy.max_waiting, feeds)
    return chosen.chunks // chosen.stages


@dataclass(frozen=True)
class Scheduler:
    """Makes the schedules of strategies that a search compares.

    Attributes:
        workload: the work of a step.
        hardware: hardware whose seconds place the sources.
    """

    workload: Workload
    hardware: Hardware
    _chunks: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, strategy: Strategy, thorough: bool = True) -> Schedule:
        """Make the schedule of a strategy with all plans, as the train step does.

        Args:
            thorough: whether to try all limits and orders; otherwise the schedule is made faster,
                and its step is at most a few percent longer.

        Raises:
            ScheduleError: sizes of the strategy do not fit together.
        """
        chunks = {name: self._chunks_of(strategy, name) for name in self.workload.sources}
        divided = strategy.with_source_chunks(chunks)
        return make_schedule(self.workload, divided, seconds_on(self.hardware), thorough)

    def _chunks_of(self, strategy: Strategy, name: str) -> int:
        """Number of chunks of a source on each stage.

        A source of several stages has one on each stage: smaller ones would only be sent more
        often. The number for a source of one stage is chosen once for all strategies that differ
        only in how parameters are shared, or in the plans of other sources; for that, parameters
        count as gathered over all ranks at the start of a step.
        """
        plan, backbone = strategy.plans[name], strategy.backbone
        if plan.stage > 1 or backbone.stage == 1:
            return 1
        plans = dict.fromkeys(strategy.plans, _share_parameters(plan))
        plans |= {strategy.backbone_name: _share_parameters(backbone)}
        usual = replace(strategy, plans=plans, gather="step", co_issue=False)
        usual = usual.with_source_chunks({})
        key = (name, str(usual))
        if key not in self._chunks:
            times = seconds_on(self.hardware)
            self._chunks[key] = _choose_chunks(self.workload, usual, name, times)
        return self._chunks[key]


def _share_parameters(plan: ParallelPlan) -> ParallelPlan:
    """`plan` with its parameters shared by all replicas."""
    return plan.model_copy(update={"data": 1, "fsdp": plan.data * plan.fsdp})
