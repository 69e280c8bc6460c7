"""Plan search: a fast strategy for a workload on some devices, by branch and bound.

A strategy may leave devices idle, so that more of them never make the result slower. Strategies
are enumerated (`scheduling.search.space`) for so many devices each, by families. A number of
devices, and a family, a decoder with all that its encoders may do, have lower bounds that need no
schedule (`scheduling.search.bounds`, `least_memory`). Both are looked at in the order of their
bounds; a strategy is simulated only if its bound is below the best time found, and the search ends
when no bound is. So the result is the fastest strategy of the space under the cost model, but for
two shortcuts: a schedule of many tasks that is made in one way, and is slower than the best by more
than `GAIN`, is not made in all ways; and of plans of several encoders with equal degrees, which
share parameters among ranks in other ways, the first that has room stands for all (`SHARED`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, inf, log

from scheduling.costs.estimate import Strategy, Workload, step_times
from scheduling.costs.hardware import Hardware
from scheduling.costs.memory import Memory, Sizes, step_memory
from scheduling.costs.times import StepTimes
from scheduling.programs.compile import compile_program
from scheduling.schedules.bubbles import Placement
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.search.bounds import (
    Bounds,
    gathers_and_scatters,
    least_compute,
    least_state,
)
from scheduling.search.make import Scheduler
from scheduling.search.space import Space, decoder_plans, families, members
from scheduling.simulate.lockstep import makespan, simulate
from scheduling.simulate.simulation import Options, Simulation
from sharding.plan import ParallelPlan

#: Why families are refused.
LARGE = "more memory than there is, by their lower bounds"
SLOW = "slower, by their lower bounds"
#: Why numbers of devices are, before families that use so many are enumerated.
FEW_LARGE = "numbers of devices: more memory than there is, by the parameters of each"
FEW_SLOW = "numbers of devices: slower, by what each would compute"
#: Why plans of several encoders are: those of equal degrees come in the order of their bounds.
SHARED = "plans of several encoders: parameters shared among ranks in another way"
#: Families whose most promising members come before all others.
PROBED = 16
#: Forwards of a step's decoder from which on a fast schedule is made before a thorough one.
MANY = 256
#: Thorough schedules are at most so many times as fast as fast ones: 1.04 of 60 that were tried.
GAIN = 1.06
#: What is leanest is so to such a share.
NEAR = 0.01
#: Bounds of one such ratio are near each other.
STEP = (1 + NEAR) ** 0.5
#: A strategy and the bytes that it takes.
Lean = tuple[Strategy, float]


@dataclass(frozen=True)
class Outcome:
    """A strategy and what it is predicted to take.

    Attributes:
        strategy: how the step is run.
        schedule: its tasks.
        times: of the tasks.
        seconds: of a step.
        memory: of one device.
    """

    strategy: Strategy
    schedule: Schedule
    times: StepTimes
    seconds: float
    memory: Memory

    @cached_property
    def simulation(self) -> Simulation:
        """The step in all its parts."""
        return simulate(self.schedule, self.times, _options(self.strategy))


@dataclass(frozen=True)
class Search:
    """What was found.

    Attributes:
        best: the fastest strategies that fit, the fastest first.
        simulated: strategies that were simulated.
        families: decoders that were enumerated.
        refused: why families were left out, with their numbers.
    """

    best: tuple[Outcome, ...]
    simulated: int
    families: int
    refused: Mapping[str, int]


#: Told after each simulation: how many there were, the seconds to undercut (infinite until enough
#: are found), and what all that is left takes at least.
Progress = Callable[[int, float, float], None]


def evaluate(strategy: Strategy, scheduler: Scheduler) -> Outcome:
    """Schedules and simulates a strategy.

    Raises:
        ScheduleError: its sizes do not fit together.
    """
    workload, hardware = scheduler.workload, scheduler.hardware
    schedule = scheduler(strategy)
    strategy = _cut(strategy, schedule)
    times = step_times(workload, strategy, hardware)
    memory = _memory(workload, strategy, hardware, schedule)
    seconds = makespan(schedule, times, _options(strategy))
    return Outcome(strategy, schedule, times, seconds, memory)


def _cut(strategy: Strategy, schedule: Schedule) -> Strategy:
    """`strategy` with the pieces of its schedule."""
    return replace(strategy, pieces={cut.name: cut.pieces for cut in schedule.encoders})


def _options(strategy: Strategy) -> Options:
    return Options(
        co_issue=strategy.co_issue,
        # Without stages nothing runs beside the collectives of a step's ends.
        overlap_gather=strategy.decoder.stage > 1,
        replicas=strategy.decoder.batch,
    )


def buffer_sizes(schedule: Schedule, strategy: Strategy) -> Sizes | None:
    """Slots of the ring buffers of a schedule's program; None without stages."""
    if strategy.decoder.stage == 1:
        return None
    program = compile_program(schedule, strategy.remat, not strategy.co_issue)
    return program.sizes, {name: own.sizes for name, own in program.encoders.items()}


def _memory(
    workload: Workload, strategy: Strategy, hardware: Hardware, schedule: Schedule
) -> Memory:
    return step_memory(workload, strategy, hardware, buffer_sizes(schedule, strategy))


def search(
    space: Space,
    scheduler: Scheduler,
    top: int = 1,
    progress: Progress | None = None,
    within: float = 0.0,
    known: Sequence[Outcome] = (),
    bounds: Bounds | None = None,
) -> Search:
    """The `top` fastest strategies of `space`, at most one of a family's decoder degrees.

    With several encoders beside stages, plans of theirs that have the same degrees and share their
    parameters among ranks in other ways are not all simulated: the first that has room stands for
    them.

    Args:
        scheduler: makes the schedules, of a workload on some hardware.
        progress: see `Progress`.
        within: none is faster than what is found by more than this share of its seconds.
        known: what other searches have found, inside the space or outside; they count as found.
        bounds: of this workload on this hardware, which other searches may have asked for, too.
    """
    bounds = bounds or Bounds(scheduler.workload, scheduler.hardware)
    made = _Search(space, bounds, scheduler, top, progress, within)
    for outcome in known:
        made.keep(outcome)
    return made.run()


def leanest(space: Space, scheduler: Scheduler) -> Lean | None:
    """A strategy of `space` that takes the least memory (to `NEAR`), and its bytes; None if none.

    Args: as for `search`.
    """
    bounds = Bounds(scheduler.workload, scheduler.hardware)
    return _Search(space, bounds, scheduler, 1).leanest()


def fitting(space: Space, scheduler: Scheduler) -> Lean | None:
    """Some strategy of `space` that has room, and its bytes; None if none has.

    Args: as for `search`.
    """
    bounds = Bounds(scheduler.workload, scheduler.hardware)
    found = _Search(space, bounds, scheduler, 1).leanest(enough=space.memory)
    return found if found and found[1] <= space.memory else None


def _degrees(member: Strategy) -> Hashable:
    """What members share that differ only in how encoders' parameters are shared among ranks."""
    plans = [(name, plan.stage, plan.context, plan.tensor) for name, plan in member.plans.items()]
    return member.placement, member.co_issue, *plans


def _is_over(found: Lean | None, bound: float, enough: float | None) -> bool:
    """Whether what takes at least `bound` bytes, to a `STEP`, changes nothing any more."""
    if enough is not None and bound > enough * STEP:
        return True
    return found is not None and found[1] <= max(bound * STEP, enough or 0.0)


@dataclass
class _Family:
    """A family that has been looked at.

    Attributes:
        members: that are left, each with its bound and a number of its own, the lowest bound first.
        tried: degrees of those that have been simulated and have room, see `_degrees`.
    """

    members: list[tuple[float, int, Strategy]]
    tried: set[Hashable] = field(default_factory=set)


#: What is looked at in the order of its bound: a family, or the decoder's plans for a number of
#: devices. The number between is another for each.
Entry = tuple[float, int, "Strategy | _Family | list[ParallelPlan]"]


@dataclass
class _Search:
    """The state of a search; `best` holds the outcomes found, the fastest first."""

    space: Space
    bounds: Bounds
    scheduler: Scheduler
    top: int
    progress: Progress | None = None
    within: float = 0.0
    best: list[Outcome] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    simulated: int = 0
    families: int = 0

    @property
    def workload(self) -> Workload:
        """What a step computes."""
        return self.bounds.workload

    @property
    def hardware(self) -> Hardware:
        """What computes it."""
        return self.bounds.hardware

    def run(self) -> Search:
        """Families in the order of their bounds, until none can be better.

        Of the first ones the most promising members come before all others: the sooner something
        good is found, the fewer the bounds leave.
        """
        queue = list(self._counts())
        heapq.heapify(queue)
        for entry in self._pass(queue, PROBED):
            heapq.heappush(queue, entry)
        self._pass(queue)
        left = Counter(FEW_SLOW if isinstance(own, list) else SLOW for *_, own in queue)
        refused = dict(self.refused + left)
        return Search(tuple(self.best), self.simulated, self.families, refused)

    def _pass(self, queue: list[Entry], probed: int | None = None) -> list[Entry]:
        """Families, which are taken from the queue, in the order of their bounds.

        Args:
            probed: look at the most promising members of so many families alone.

        Returns:
            The entries of the families.
        """
        seen: list[Entry] = []
        while queue and queue[0][0] < self.limit and (probed is None or len(seen) < probed):
            bound, number, own = heapq.heappop(queue)
            if isinstance(own, list):
                for entry in self._families(own):
                    heapq.heappush(queue, entry)
                continue
            family = self._opened(own) if isinstance(own, Strategy) else own
            self._visit(family, bound, probed is not None)
            seen.append((bound, number, family))
        return seen

    @property
    def limit(self) -> float:
        """What a strategy must undercut."""
        full = len(self.best) == self.top
        return self.best[-1].seconds * (1 - self.within) if full else float("inf")

    def _counts(self) -> Iterator[Entry]:
        """Plans of the decoder by how many devices they use."""
        for devices, plans in decoder_plans(self.space, self.workload).items():
            if least_state(self.workload, devices) > self.space.memory:
                self.refused[FEW_LARGE] += 1
            else:
                remats = self.space.remats
                bound = least_compute(self.workload, devices, remats, self.hardware)
                yield bound, -devices, plans

    def _families(self, plans: Iterable[ParallelPlan]) -> Iterator[Entry]:
        """Families of some plans that can be better than what was found, and have room."""
        for family in families(self.space, self.workload, plans):
            self.families += 1
            if not self._has_room(family):
                self.refused[LARGE] += 1
            elif (bound := self.bounds.seconds(family)) < self.limit:
                yield bound, self.families, family
            else:
                self.refused[SLOW] += 1

    def _has_room(self, strategy: Strategy) -> bool:
        """Whether the least memory that a strategy can take is there."""
        return self.bounds.memory(strategy) <= self.space.memory

    def leanest(self, enough: float | None = None) -> Lean | None:
        """The strategy that takes the least memory, by branch and bound once more.

        Args:
            enough: bytes; the first strategy that takes no more will do, and others do not count.
        """
        found: Lean | None = None
        for devices, plans in decoder_plans(self.space, self.workload).items():
            least = least_state(self.workload, devices)
            if _is_over(found, least, enough):
                break
            for bound, family in self._by_least_memory(families(self.space, self.workload, plans)):
                if _is_over(found, bound, enough):
                    break
                found = self._leanest_of(family, found, enough)
        return found

    def _leanest_of(
        self, family: Strategy, found: Lean | None, enough: float | None
    ) -> Lean | None:
        """What takes the least memory of a family, or `found`."""
        for least, member in self._by_least_memory(members(self.space, self.workload, family)):
            if _is_over(found, least, enough):
                break
            found = self._leaner(member, found)
        return found

    def _by_least_memory(self, found: Iterator[Strategy]) -> list[tuple[float, Strategy]]:
        """With their bounds; of those that are near each other, the one of fewest tasks first."""
        pairs = [(self.bounds.memory(own), own) for own in found]
        return sorted(pairs, key=lambda pair: (floor(log(pair[0], STEP)), pair[1].tasks))

    def _leaner(self, member: Strategy, found: Lean | None) -> Lean | None:
        """What takes less memory; `found` if `member` has no schedule."""
        try:
            schedule = self._schedule(member)
        except ScheduleError:
            return found
        strategy = _cut(member, schedule)
        own = strategy, _memory(self.workload, strategy, self.hardware, schedule).total
        return own if found is None or own[1] < found[1] else found

    def _opened(self, family: Strategy) -> _Family:
        """The members of a family that have room, if the decoder alone is fast enough."""
        alone = self.bounds.alone(family)
        if alone >= self.limit:
            self.refused["slower, by the decoder's step alone"] += 1
            return _Family([])
        own = list(members(self.space, self.workload, family))
        if not own:
            self.refused["no plan for an encoder beside the decoder's"] += 1
        bounded = [
            (self._bound(member, alone), number, member)
            for number, member in enumerate(own)
            if self._has_room(member)
        ]
        if len(bounded) < len(own):
            self.refused["more memory than there is, encoders included"] += len(own) - len(bounded)
        return _Family(sorted(bounded))

    def _visit(self, family: _Family, least: float, probing: bool) -> None:
        """Simulate the members that can be better than what was found.

        None is faster than the decoder alone, with the gathers and scatters of its encoders.

        Args:
            least: bound of all that is left.
            probing: simulate the first of each placement alone.
        """
        left, placements = [], set[Placement]()
        for entry in family.members:
            bound, _, member = entry
            if bound >= self.limit or (probing and member.placement in placements):
                left.append(entry)
                continue
            placements.add(member.placement)
            self._look_at(member, family)
            if self.progress:
                self.progress(self.simulated, self.limit, least)
        family.members = left

    def _look_at(self, member: Strategy, family: _Family) -> None:
        """Simulate a member, unless one of equal degrees has been."""
        degrees = _degrees(member)
        if degrees in family.tried:
            self.refused[SHARED] += 1
        elif self._try(member) and len(self.workload.encoders) > 1 < member.decoder.stage:
            family.tried.add(degrees)

    def _bound(self, member: Strategy, alone: float) -> float:
        names = self.workload.encoders
        ends = gathers_and_scatters(self.workload, member, self.hardware, names)
        if alone + ends >= self.limit:
            return alone + ends
        return max(alone + ends, self.bounds.seconds(member))

    def _try(self, member: Strategy) -> bool:
        """Whether a strategy has room, or would be too slow with any.

        What makes it slower or too large is looked at in the order of what that costs.
        """
        try:
            self.simulated += 1
            if not self._promises(member):
                return True
            schedule = self._schedule(member)
        except ScheduleError:
            self.simulated -= 1
            self.refused["no schedule for their sizes"] += 1
            return False
        strategy, times, seconds = self._timed(member, schedule)
        if seconds >= self.limit:
            return True
        memory = _memory(self.workload, strategy, self.hardware, schedule)
        if memory.total > self.space.memory:
            self.refused["more memory than there is"] += 1
            return False
        self.keep(Outcome(strategy, schedule, times, seconds, memory))
        return True

    def _schedule(self, member: Strategy, thorough: bool = True) -> Schedule:
        self.space.check(member)
        return self.scheduler(member, thorough)

    def _promises(self, member: Strategy) -> bool:
        """Whether a thorough schedule of many tasks may be fast enough."""
        if member.tasks < MANY or self.limit == inf:
            return True
        _, _, seconds = self._timed(member, self._schedule(member, thorough=False))
        return seconds < self.limit * GAIN

    def _timed(self, member: Strategy, schedule: Schedule) -> tuple[Strategy, StepTimes, float]:
        """The strategy as it is scheduled, the times of its tasks, and seconds of its step."""
        strategy = _cut(member, schedule)
        times = step_times(self.workload, strategy, self.hardware)
        return strategy, times, makespan(schedule, times, _options(strategy))

    def keep(self, outcome: Outcome) -> None:
        """One outcome for each plan of the decoder."""
        others = [old for old in self.best if old.strategy.decoder != outcome.strategy.decoder]
        same = [old for old in self.best if old.strategy.decoder == outcome.strategy.decoder]
        found: Sequence[Outcome] = [*others, min([*same, outcome], key=lambda own: own.seconds)]
        self.best = sorted(found, key=lambda own: own.seconds)[: self.top]
