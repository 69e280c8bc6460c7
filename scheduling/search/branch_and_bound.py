"""Plan search: find a fast strategy for a workload on some devices, by branch and bound.

A strategy may leave devices idle, so that more devices never make the result slower. The search
enumerates strategies (`scheduling.search.space`) by their number of devices, and among these by
families: a backbone's plan with all that its sources may do. A number of devices and a family both
have lower bounds that need no schedule (`scheduling.search.bounds`, `least_memory`), and are opened
in the order of these bounds. A strategy is simulated only if its bound is below the best time so
far, and the search ends when no bound is.

So the result is the fastest strategy of the space under the cost model, but for three shortcuts:

- Other kinds of schedules than 1F1B are tried only for families that the search has opened
  (`MAX_OTHER_KINDS`).
- A strategy of many tasks first gets a schedule that is found in little time. If its step is slower
  than the best by more than `THOROUGH_SPEEDUP`, no thorough schedule is made.
- Of plans of several encoders with equal degrees, which differ in how ranks share parameters, only
  the first that fits the memory is simulated (`SHARED_PLAN`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, inf, log

from scheduling.costs.estimate import step_times
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes
from scheduling.costs.workload import Workload
from scheduling.schedules.bubbles import Placement
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.search.bounds import LowerBounds, gathers_and_scatters, least_compute, least_state
from scheduling.search.outcome import SearchOutcome, memory_of, options_of, with_schedule_chunks
from scheduling.search.scheduler import Scheduler
from scheduling.search.space import Space, backbone_plans, family_members, plan_families
from scheduling.simulate.lockstep import step_makespan
from sharding.plan import ParallelPlan

#: Reasons for which families are refused.
TOO_LARGE = "more memory than there is, by their lower bounds"
TOO_SLOW = "slower, by their lower bounds"
#: Reasons for which numbers of devices are refused, before their families are enumerated.
DEVICES_TOO_LARGE = "numbers of devices: more memory than there is, by the parameters of each"
DEVICES_TOO_SLOW = "numbers of devices: slower, by what each would compute"
#: Reason for which plans of several encoders with equal degrees are refused, but for the first.
SHARED_PLAN = "plans of several encoders: parameters shared among ranks in another way"
#: Number of families that are tried with further kinds of schedules: the most promising.
MAX_OTHER_KINDS = 8
#: Number of families whose most promising members come before all others.
PROBED_FAMILIES = 16
#: Number of backbone forwards of a step from which a fast schedule is made before a thorough one.
MANY_FORWARDS = 256
#: Assumed largest speed-up of a thorough schedule over a fast one; 1.04 among 60 that were tried.
THOROUGH_SPEEDUP = 1.06
#: Relative tolerance of the least memory that `leanest` finds.
MEMORY_TOLERANCE = 0.01
#: Ratio of the memory bounds that count as near each other.
TOLERANCE_RATIO = (1 + MEMORY_TOLERANCE) ** 0.5
#: A strategy and its bytes of memory.
Lean = tuple[Strategy, float]


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
        best: the fastest strategies that fit, the fastest first.
        simulated: number of strategies that were simulated.
        families: number of families that were enumerated.
        refused: reasons for which families were left out, each with its count.
    """

    best: tuple[SearchOutcome, ...]
    simulated: int
    families: int
    refused: Mapping[str, int]

    def joined_with(self, later: SearchResult) -> SearchResult:
        """Combine two searches, of which the later one knew the best of this one."""
        return SearchResult(
            later.best,
            self.simulated + later.simulated,
            self.families + later.families,
            dict(Counter(self.refused) + Counter(later.refused)),
        )


#: Called after each simulation with the number of simulations, the seconds to undercut (infinite
#: until enough strategies are found), and a lower bound of the seconds of all strategies left.
ProgressCallback = Callable[[int, float, float], None]


def search_space(
    space: Space,
    scheduler: Scheduler,
    top: int = 1,
    progress: ProgressCallback | None = None,
    within: float = 0.0,
    known: Sequence[SearchOutcome] = (),
    bounds: LowerBounds | None = None,
) -> SearchResult:
    """Search the `top` fastest strategies of `space`, at most one for each plan of the backbone.

    With several encoders and several stages, of encoder plans that have the same degrees and differ
    in how ranks share parameters, only the first that has room is simulated.

    Args:
        scheduler: makes the schedules, of a workload on some hardware.
        progress: see `ProgressCallback`.
        within: the search stops when no strategy can be faster than the result by more than this
            share of its seconds.
        known: outcomes of other searches, inside the space or outside; they count as found.
        bounds: bounds of this workload on this hardware, which other searches may share.
    """
    bounds = bounds or LowerBounds(scheduler.workload, scheduler.hardware)
    state = _Search(space, bounds, scheduler, top, progress, within)
    for outcome in known:
        state.add_outcome(outcome)
    return state.run_search()


def find_leanest(space: Space, scheduler: Scheduler) -> Lean | None:
    """Find a strategy of `space` that takes the least memory, and its bytes; None if there is none.

    Another strategy may take less by `MEMORY_TOLERANCE`.

    Args: see `search_space`.
    """
    bounds = LowerBounds(scheduler.workload, scheduler.hardware)
    return _Search(space, bounds, scheduler, 1).find_leanest()


def find_fitting(space: Space, scheduler: Scheduler) -> Lean | None:
    """Find a strategy of `space` that fits the memory, and its bytes; None if there is none.

    Args: see `search_space`.
    """
    bounds = LowerBounds(scheduler.workload, scheduler.hardware)
    leanest = _Search(space, bounds, scheduler, 1).find_leanest(enough=space.memory)
    return leanest if leanest and leanest[1] <= space.memory else None


def _family_key(member: Strategy) -> Hashable:
    """A key that is equal for members that differ only in how ranks share encoder parameters."""
    plans = [(name, plan.stage, plan.context, plan.tensor) for name, plan in member.plans.items()]
    return member.placement, member.co_issue, *plans


def _is_over(best: Lean | None, bound: float, enough: float | None) -> bool:
    """Whether strategies of about `bound` bytes (`TOLERANCE_RATIO`) cannot improve the result."""
    if enough is not None and bound > enough * TOLERANCE_RATIO:
        return True
    return best is not None and best[1] <= max(bound * TOLERANCE_RATIO, enough or 0.0)


@dataclass
class _Family:
    """A family that the search has opened.

    Attributes:
        members: members that are left, each with its bound and a number, the lowest bound first.
        tried: degrees of those that have been simulated and have room, see `_family_key`.
    """

    members: list[tuple[float, int, Strategy]]
    tried: set[Hashable] = field(default_factory=set)


#: An entry of the queue: its bound, a unique number, and a family or the backbone's plans for a
#: number of devices.
Entry = tuple[float, int, "Strategy | _Family | list[ParallelPlan]"]


@dataclass
class _Search:
    """The state of a search.

    Attributes:
        best: the outcomes found, the fastest first.
        opened_families: families in the order in which the search has opened them.
    """

    space: Space
    bounds: LowerBounds
    scheduler: Scheduler
    top: int
    progress: ProgressCallback | None = None
    within: float = 0.0
    best: list[SearchOutcome] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    simulated: int = 0
    families: int = 0
    opened_families: list[Strategy] = field(default_factory=list)

    @property
    def workload(self) -> Workload:
        """The work of a step."""
        return self.bounds.workload

    @property
    def hardware(self) -> Hardware:
        """The hardware that runs the step."""
        return self.bounds.hardware

    def run_search(self) -> SearchResult:
        """Families in the order of their bounds, until none can be better.

        The most promising members of the first families come before all others: an early good
        result lets the bounds exclude more.
        """
        queue = list(self._count_entries())
        heapq.heapify(queue)
        for entry in self._visit_queue(queue, PROBED_FAMILIES):
            heapq.heappush(queue, entry)
        self._visit_queue(queue)
        self._visit_queue(self._entries_of_other_kinds())
        left = Counter(
            DEVICES_TOO_SLOW if isinstance(queued, list) else TOO_SLOW for *_, queued in queue
        )
        refused = dict(self.refused + left)
        return SearchResult(tuple(self.best), self.simulated, self.families, refused)

    def _visit_queue(self, queue: list[Entry], probed: int | None = None) -> list[Entry]:
        """Visit families from the queue in the order of their bounds.

        Args:
            probed: visit only the most promising members of this number of families.

        Returns:
            The entries of the families.
        """
        seen: list[Entry] = []
        while queue and queue[0][0] < self.limit and (probed is None or len(seen) < probed):
            bound, number, queued = heapq.heappop(queue)
            if isinstance(queued, list):
                for entry in self._family_entries(queued):
                    heapq.heappush(queue, entry)
                continue
            family = self._open_family(queued) if isinstance(queued, Strategy) else queued
            self._visit_members(family, bound, probed is not None)
            seen.append((bound, number, family))
        return seen

    def _entries_of_other_kinds(self) -> list[Entry]:
        """Entries of the opened families, with the space's further kinds of schedules.

        Where encoders have more work than the bubbles of 1F1B hold, a further kind lowers no bound.
        """
        strategies = [
            replace(family, kind=kind)
            for family in self.opened_families
            for kind in self.space.kinds
            if family.backbone.stage > 1
        ]
        bounded = [
            (self.bounds.seconds_of(strategy), number, strategy)
            for number, strategy in enumerate(strategies)
        ]
        promising: list[Entry] = [
            (bound, number, strategy)
            for bound, number, strategy in sorted(bounded)
            if bound < min(self.limit, self.bounds.seconds_of(replace(strategy, kind="1f1b")))
            and self._has_room(strategy)
        ]
        return promising[:MAX_OTHER_KINDS]

    @property
    def limit(self) -> float:
        """Seconds that a strategy must undercut."""
        full = len(self.best) == self.top
        return self.best[-1].seconds * (1 - self.within) if full else float("inf")

    def _count_entries(self) -> Iterator[Entry]:
        """Entries of the backbone's plans, one for each number of devices."""
        for devices, plans in backbone_plans(self.space, self.workload).items():
            if least_state(self.workload, devices) > self.space.memory:
                self.refused[DEVICES_TOO_LARGE] += 1
            else:
                remats = self.space.remats
                bound = least_compute(self.workload, devices, remats, self.hardware)
                yield bound, -devices, plans

    def _family_entries(self, plans: Iterable[ParallelPlan]) -> Iterator[Entry]:
        """Entries of the families of `plans` that may beat the result so far, and have room."""
        for family in plan_families(self.space, self.workload, plans):
            self.families += 1
            if not self._has_room(family):
                self.refused[TOO_LARGE] += 1
            elif (bound := self.bounds.seconds_of(family)) < self.limit:
                yield bound, self.families, family
            else:
                self.refused[TOO_SLOW] += 1

    def _has_room(self, strategy: Strategy) -> bool:
        """Whether the device has the least memory that a strategy needs."""
        return self.bounds.memory_of(strategy) <= self.space.memory

    def find_leanest(self, enough: float | None = None) -> Lean | None:
        """The strategy that takes the least memory, by branch and bound once more.

        Args:
            enough: bytes; the first strategy that takes no more is the result, and none that takes
                more is.
        """
        best: Lean | None = None
        for devices, plans in backbone_plans(self.space, self.workload).items():
            least = least_state(self.workload, devices)
            if _is_over(best, least, enough):
                break
            for bound, family in self._sort_by_memory(
                plan_families(self.space, self.workload, plans)
            ):
                if _is_over(best, bound, enough):
                    break
                best = self._find_leanest_member(family, best, enough)
        return best

    def _find_leanest_member(
        self, family: Strategy, best: Lean | None, enough: float | None
    ) -> Lean | None:
        """The member of a family that takes the least memory, or `best`."""
        for least, member in self._sort_by_memory(
            family_members(self.space, self.workload, family)
        ):
            if _is_over(best, least, enough):
                break
            best = self._choose_leaner(member, best)
        return best

    def _sort_by_memory(self, strategies: Iterator[Strategy]) -> list[tuple[float, Strategy]]:
        """Strategies with their bounds in rising order; near bounds by their numbers of tasks."""
        pairs = [(self.bounds.memory_of(strategy), strategy) for strategy in strategies]
        return sorted(
            pairs, key=lambda pair: (floor(log(pair[0], TOLERANCE_RATIO)), pair[1].forward_count)
        )

    def _choose_leaner(self, member: Strategy, best: Lean | None) -> Lean | None:
        """Choose the one of both that takes less memory; `best` if `member` has no schedule."""
        try:
            schedule = self._make_schedule(member)
        except ScheduleError:
            return best
        strategy = with_schedule_chunks(member, schedule)
        candidate = strategy, memory_of(self.workload, strategy, self.hardware, schedule).total
        return candidate if best is None or candidate[1] < best[1] else best

    def _open_family(self, family: Strategy) -> _Family:
        """The members of a family that have room, if the backbone alone is fast enough."""
        self.opened_families.append(family)
        alone = self.bounds.backbone_seconds_of(family)
        if alone >= self.limit:
            self.refused["slower, by the backbone's step alone"] += 1
            return _Family([])
        strategies = list(family_members(self.space, self.workload, family))
        if not strategies:
            self.refused["no plan for an encoder that goes with the backbone's"] += 1
        bounded = [
            (self._lower_bound(member, alone), number, member)
            for number, member in enumerate(strategies)
            if self._has_room(member)
        ]
        if len(bounded) < len(strategies):
            self.refused["more memory than there is, encoders included"] += len(strategies) - len(
                bounded
            )
        return _Family(sorted(bounded))

    def _visit_members(self, family: _Family, least: float, probing: bool) -> None:
        """Simulate the members that can be better than the result so far.

        No member is faster than the backbone alone with the gathers and scatters of its encoders.

        Args:
            least: lower bound of all remaining strategies.
            probing: whether to simulate only the first member of each placement.
        """
        left, placements = [], set[Placement]()
        for entry in family.members:
            bound, _, member = entry
            if bound >= self.limit or (probing and member.placement in placements):
                left.append(entry)
                continue
            placements.add(member.placement)
            self._visit_member(member, family)
            if self.progress:
                self.progress(self.simulated, self.limit, least)
        family.members = left

    def _visit_member(self, member: Strategy, family: _Family) -> None:
        """Simulate a member, unless one of equal degrees was simulated."""
        degrees = _family_key(member)
        if degrees in family.tried:
            self.refused[SHARED_PLAN] += 1
        elif self._try_member(member) and len(self.workload.sources) > 1 < member.backbone.stage:
            family.tried.add(degrees)

    def _lower_bound(self, member: Strategy, alone: float) -> float:
        names = self.workload.sources
        ends = gathers_and_scatters(self.workload, member, self.hardware, names)
        if alone + ends >= self.limit:
            return alone + ends
        return max(alone + ends, self.bounds.seconds_of(member))

    def _try_member(self, member: Strategy) -> bool:
        """Simulate a strategy; whether it has room, or would be too slow with any.

        Its memory and seconds are computed in the order of their expense.
        """
        try:
            self.simulated += 1
            if not self._may_improve(member):
                return True
            schedule = self._make_schedule(member)
        except ScheduleError:
            self.simulated -= 1
            self.refused["no schedule for their sizes"] += 1
            return False
        strategy, times, seconds = self._time_schedule(member, schedule)
        if seconds >= self.limit:
            return True
        memory = memory_of(self.workload, strategy, self.hardware, schedule)
        if memory.total > self.space.memory:
            self.refused["more memory than there is"] += 1
            return False
        self.add_outcome(SearchOutcome(strategy, schedule, times, seconds, memory))
        return True

    def _make_schedule(self, member: Strategy, thorough: bool = True) -> Schedule:
        self.space.check_strategy(member)
        return self.scheduler(member, thorough)

    def _may_improve(self, member: Strategy) -> bool:
        """Whether a thorough schedule of many tasks may be fast enough."""
        if member.forward_count < MANY_FORWARDS or self.limit == inf:
            return True
        _, _, seconds = self._time_schedule(member, self._make_schedule(member, thorough=False))
        return seconds < self.limit * THOROUGH_SPEEDUP

    def _time_schedule(
        self, member: Strategy, schedule: Schedule
    ) -> tuple[Strategy, StepTimes, float]:
        """The strategy as scheduled, the times of its tasks, and the seconds of its step."""
        strategy = with_schedule_chunks(member, schedule)
        times = step_times(self.workload, strategy, self.hardware)
        return strategy, times, step_makespan(schedule, times, options_of(strategy))

    def add_outcome(self, outcome: SearchOutcome) -> None:
        """Add an outcome, keeping the fastest for each plan of the backbone."""
        others = [old for old in self.best if old.strategy.backbone != outcome.strategy.backbone]
        same = [old for old in self.best if old.strategy.backbone == outcome.strategy.backbone]
        outcomes: Sequence[SearchOutcome] = [
            *others,
            min([*same, outcome], key=lambda each: each.seconds),
        ]
        self.best = sorted(outcomes, key=lambda each: each.seconds)[: self.top]
