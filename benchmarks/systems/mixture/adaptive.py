"""Search of a strategy that follows a moving load with one compiled program.

Encoders have microbatches of their own, whose number follows the load. Families of strategies are
looked at in the order of their lower bounds for the mean load; of each, the encoders' degrees, with
the plans that divide parameters most, and every rematerialisation of the encoders whose compute may
still be less than the best step. Where less of it is too slow, or the best, more is not scheduled.
A strategy counts only if its program has room as a training run compiles it, for all microbatches
that the budgets of the encoders may need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import gcd, inf
from statistics import fmean

from benchmarks.systems.loads import Load, even_feeds, workload_of_load
from scheduling.costs.estimate import ModuleTiming, step_times
from scheduling.costs.hardware import Hardware
from scheduling.costs.memory import StepMemory, least_memory, step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes
from scheduling.costs.workload import Workload
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import Remat
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import Consumers, valid_chunks
from scheduling.search.bounds import LowerBounds, lower_bound, module_compute
from scheduling.search.scheduler import PlacementLimits, StepScheduler, make_schedule, seconds_on
from scheduling.search.space import Space, backbone_plans, family_members, plan_families
from scheduling.simulate.lockstep import simulate_step, step_makespan
from scheduling.simulate.simulation import Simulation, SimulationOptions

#: Strategies that are scheduled at most.
MAX_SCHEDULED = 800
#: Rematerialisation, from what computes least again.
LEAST_FIRST: tuple[Remat, ...] = ("none", "layer", "full")


@dataclass(frozen=True)
class AdaptiveStrategy:
    """A step that follows its load.

    Attributes:
        workload: rows of the encoders' own microbatches, whose number its `spread` says; its
            `units` are as many microbatches as the budgets of an encoder may need.
        strategy: strategy with the chunks of all sources.
        hardware: hardware of the devices.
    """

    workload: Workload
    strategy: Strategy
    hardware: Hardware

    @property
    def times(self) -> StepTimes:
        """Times of all tasks."""
        return step_times(self.workload, self.strategy, self.hardware)

    @property
    def scheduler(self) -> StepScheduler:
        """Makes the schedule of each load."""
        return StepScheduler(self.workload, self.strategy, seconds_on(self.hardware))

    @property
    def options(self) -> SimulationOptions:
        """How the step runs."""
        strategy = self.strategy
        return SimulationOptions(
            strategy.co_issue, overlap_gather=True, replicas=strategy.backbone.batch
        )

    def feeds_of(self, load: Load) -> dict[str, Consumers]:
        """What each source's microbatches feed, if all of the backbone's take equally many."""
        count, workload = self.strategy.microbatches, self.workload
        return {
            name: even_feeds(
                load[name], workload.positions[name] * workload.spread.get(name, 1), count
            )
            for name in workload.sources
        }

    def place_feeds(
        self, feeds: Mapping[str, Consumers], limits: PlacementLimits | None = None
    ) -> Schedule:
        """The schedule of a step.

        Args:
            feeds: what the encoders' own microbatches feed.
            limits: one of `StepScheduler.placement_limits`; None: the first.

        Raises:
            ScheduleError: the sizes do not fit together.
        """
        follower = self.scheduler
        return follower(feeds, limits or follower.placement_limits()[0])

    def step_seconds(self, load: Load) -> float:
        """Seconds of a step, wherever its values wait."""
        return step_makespan(self.place_feeds(self.feeds_of(load)), self.times, self.options)

    @cached_property
    def full_load_schedule(self) -> Schedule:
        """The schedule of steps that get none of their own, with all units of the workload."""
        return make_schedule(self.workload, self.strategy, seconds_on(self.hardware))

    @cached_property
    def bounds(self) -> ScheduleBounds:
        """The compiled program: slots of the standing schedule, and room for smaller loads."""
        strategy = self.strategy
        program = lower_schedule(self.full_load_schedule, strategy.remat, strategy.remats)
        return ScheduleBounds.for_independent_microbatches(
            program, single_tasks=not strategy.co_issue
        )

    @cached_property
    def memory(self) -> StepMemory:
        """Bytes of a device, with all slots of the bounds."""
        return step_memory(self.workload, self.strategy, self.hardware, self.bounds.sizes)

    def fitting_schedule(self, feeds_to_try: Sequence[Mapping[str, Consumers]]) -> Schedule:
        """The schedule of a step within the slots of the bounds: with the first limits that fit.

        As in a training run, it is the standing schedule if none fits.

        Args:
            feeds_to_try: what the sources' microbatches may feed, the preferred one first.
        """
        for feeds, limits in product(
            filter(self._is_full_load, feeds_to_try), self.scheduler.placement_limits()
        ):
            schedule = self.place_feeds(feeds, limits)
            program = lower_schedule(schedule, self.strategy.remat, self.strategy.remats)
            if self.bounds.find_excess(program) is None:
                return schedule
        return self.full_load_schedule

    def _is_full_load(self, feeds: Mapping[str, Consumers]) -> bool:
        """Whether the standing schedule has as many microbatches of every encoder."""
        return all(
            len(consumers) <= self.full_load_schedule.microbatches_of(name)
            for name, consumers in feeds.items()
        )

    def simulate_schedule(self, schedule: Schedule) -> Simulation:
        """The step of a schedule in all its parts."""
        return simulate_step(schedule, self.times, self.options)


#: Told the number of strategies that were scheduled, and the seconds to undercut.
NotifySearch = Callable[[int, float], None]


def search_adaptive(
    space: Space,
    workload: Workload,
    hardware: Hardware,
    loads: Sequence[Load],
    notify: NotifySearch,
) -> AdaptiveStrategy:
    """The strategy that is fastest in the mean over loads, of those whose program has room.

    Encoders have as many rows in their own microbatches as they need for their plans.

    Args:
        workload: its encoders have as many rows as the backbone.
        loads: loads between which the training moves, each as often as the others.

    Raises:
        ScheduleError: none has room.
    """
    best: AdaptiveStrategy | None = None
    limit, scheduled = inf, 0
    mean = workload_of_load(
        workload, {name: round(fmean(load[name] for load in loads)) for name in loads[0]}
    )
    for bound, family in _by_bound(space, workload, hardware, mean):
        if bound >= limit or scheduled >= MAX_SCHEDULED:
            break
        for member in _most_sharded(space, workload, family):
            done: list[Strategy] = []
            for load in _remat_choices(workload, hardware, member):
                if any(_computes_more(load.strategy, other) for other in done):
                    continue
                if _lower_seconds(mean, load.strategy, hardware) >= limit:
                    continue
                if least_memory(workload, load.strategy, hardware) > space.memory:
                    continue
                seconds = _mean_seconds(load, loads)
                scheduled += 1
                notify(scheduled, limit)
                if seconds >= limit:
                    done.append(load.strategy)
                elif load.memory.total <= space.memory:
                    best, limit = load, seconds
                    done.append(load.strategy)
    if best is None:
        raise ScheduleError(
            f"no strategy with stages has room in {space.memory / 2**30:.3g} GiB; valid: more "
            "devices, smaller budgets or smaller schedule.independent_budgets"
        )
    return best


def _mean_seconds(adaptive: AdaptiveStrategy, loads: Sequence[Load]) -> float:
    """Mean seconds of steps, without end if the sizes do not fit together."""
    try:
        return fmean(adaptive.step_seconds(load) for load in loads)
    except ScheduleError:
        return inf


def _by_bound(
    space: Space, workload: Workload, hardware: Hardware, mean: Workload
) -> Sequence[tuple[float, Strategy]]:
    """Families with stages that have room for the backbone, by their bounds for the usual load."""
    bounds = LowerBounds(mean, hardware)
    plans = next(iter(backbone_plans(space, workload).values()), [])
    strategies = [
        family
        for family in plan_families(space, workload, [plan for plan in plans if plan.stage > 1])
        if bounds.memory_of(family) <= space.memory
    ]
    remats: dict[str, Remat] = dict.fromkeys(workload.sources, "none")
    bounded = (
        (_lower_seconds(mean, replace(strategy, remats=remats), hardware), strategy)
        for strategy in strategies
    )
    return sorted(bounded, key=lambda pair: pair[0])


def _lower_seconds(mean: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Seconds of the usual step at least, with the backbone's plan and all rematerialisation."""
    devices = strategy.backbone.devices
    encoders = sum(
        module_compute(mean, name, devices, strategy.remat_of(name), hardware)
        for name in mean.sources
    )
    alone = replace(strategy, plans={strategy.backbone_name: strategy.backbone})
    return lower_bound(mean, alone, hardware, encoders)


def _remat_choices(
    workload: Workload, hardware: Hardware, member: Strategy
) -> Iterator[AdaptiveStrategy]:
    """A member with every rematerialisation of its encoders, the least first.

    Buckets of an encoder have that of the encoder.
    """
    names, spread = list(workload.sources), _spread_rows(workload, member)
    encoders = {name: workload.buckets.get(name, name) for name in names}
    every = list(dict.fromkeys(encoders.values()))
    for chosen in product(LEAST_FIRST, repeat=len(every)):
        of = dict(zip(every, chosen, strict=True))
        remats = {name: of[encoder] for name, encoder in encoders.items()}
        strategy = replace(member, prefetch=False, remats=remats)
        chunks = {name: _choose_chunks(spread, strategy, hardware, name) for name in names}
        yield AdaptiveStrategy(spread, strategy.with_source_chunks(chunks), hardware)


def _computes_more(strategy: Strategy, other: Strategy) -> bool:
    """Whether every encoder computes as much again as under another strategy, or more."""
    ranks = LEAST_FIRST.index
    return all(ranks(strategy.remats[name]) >= ranks(remat) for name, remat in other.remats.items())


def _spread_rows(workload: Workload, member: Strategy) -> Workload:
    """The workload whose encoders have as many rows as ranks that take rows, at least."""
    rows, plans = workload.rows // member.microbatches, {}
    for name in workload.sources:
        plan = member.plans[name]
        inside = plan.batch * plan.stage // member.backbone.stage
        plans[name] = inside // gcd(inside, rows)
    units = {name: -(-workload.microbatch_counts.get(name, 1) // plans[name]) for name in plans}
    return replace(workload, spread=plans, microbatch_counts=units)


def _most_sharded(space: Space, workload: Workload, family: Strategy) -> list[Strategy]:
    """The members of a family, of equal degrees of the encoders the most sharded one."""
    by_degrees: dict[tuple[tuple[int, ...], ...], Strategy] = {}
    space = replace(space, placements=("bubbles",), kinds=(), spreads=True)
    for member in family_members(space, workload, family):
        plans = [member.plans[name] for name in workload.sources]
        key = tuple((plan.stage, plan.context, plan.tensor) for plan in plans)
        best = by_degrees.get(key)
        if best is None or _shard_encoders(member) > _shard_encoders(best):
            by_degrees[key] = member
    return list(by_degrees.values())


def _shard_encoders(member: Strategy) -> int:
    backbone = member.backbone_name
    return sum(plan.fsdp for name, plan in member.plans.items() if name != backbone)


def _choose_chunks(workload: Workload, strategy: Strategy, hardware: Hardware, name: str) -> int:
    """The fewest chunks of which each is as short as a chunk of the backbone; else the most."""
    backbone = ModuleTiming(workload, strategy, hardware, workload.backbone_name)
    slot = backbone.forward_time(backbone.layers_per_task).seconds
    valid = valid_chunks(workload.modules[name].periods, strategy.plans[name].stage)
    for chunks in valid:
        timing = ModuleTiming(workload, strategy.with_source_chunks({name: chunks}), hardware, name)
        if timing.forward_time(timing.layers_per_task).seconds <= slot:
            return chunks
    return valid[-1]
