"""The step of the lockstep executor (`scheduling.executor.pipeline`), simulated.

As in `scheduling.simulate.timeline`, every stage runs its bundles and the stages meet at the ends
of the ticks of `Schedule.meetings`; here tasks have collectives and overlap, meetings take time,
and the step has its ends::

    gather | prologue | deliver | tick, tick, .. | epilogue | scatter | update
                                      ^ a meeting: send, head and loss, deliver

Prologue and epilogue hold encoder tasks only. With `Options.overlap_gather` they run beside gather
and scatter. A meeting sends if decoder tasks or pieces of encoders of several stages have run,
computes the head if a microbatch has left the last chunk, and delivers if one enters next. Lengths
change tasks and heads; activations move in buffers of fixed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduling.costs.times import StepTimes
from scheduling.schedules.schedule import Bundle, Schedule
from scheduling.simulate.bundle import BundleClock, BundleTime
from scheduling.simulate.simulation import (
    USUAL,
    Options,
    Ran,
    Replica,
    Run,
    Simulation,
    StageRun,
    Step,
)
from scheduling.simulate.timeline import beats_of, leaving


def simulate(schedule: Schedule, times: StepTimes, options: Options = USUAL) -> Simulation:
    """Simulates one step.

    Raises:
        ScheduleError: the options name what the schedule does not have.
        KeyError: `times` lacks an encoder of the schedule.
    """
    alone = None
    if schedule.encoders:
        alone = makespan(_decoder_only(schedule), times, options)
    return _step(schedule, times, options).simulation(alone)


def makespan(schedule: Schedule, times: StepTimes, options: Options = USUAL) -> float:
    """Seconds of the step that `simulate` describes, without the description.

    Raises: as `simulate`.
    """
    return _step(schedule, times, options).makespan


def _step(schedule: Schedule, times: StepTimes, options: Options) -> Step:
    modules = {"decoder", *(module for _, module, _ in times.encoders)}
    replicas = options.counted(schedule.stages, schedule.microbatches, modules)
    plan, clock = _Plan.of(schedule, times, options), BundleClock(options.co_issue)
    runs = [_Lockstep(plan, replica, clock).run(count) for replica, count in replicas]
    return Step(runs, times.scatter, times.update)


def _decoder_only(schedule: Schedule) -> Schedule:
    """`schedule` without its encoders' tasks, in the same ticks."""
    ticks = tuple(
        tuple(tuple(task for task in bundle if task.module == "decoder") for bundle in row)
        for row in schedule.ticks
    )
    return replace(schedule, encoders=(), ticks=ticks)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all replicas do.

    Attributes:
        options: how.
        meets, sends, delivers, heads: `[ticks]`, whether the stages meet at a tick's end, something
            moves to another stage, a microbatch enters the decoder, and which one leaves it.
    """

    schedule: Schedule
    times: StepTimes
    options: Options
    meets: Sequence[bool]
    sends: Sequence[bool]
    delivers: Sequence[bool]
    heads: Sequence[int | None]

    @classmethod
    def of(cls, schedule: Schedule, times: StepTimes, options: Options) -> _Plan:
        ticks = range(len(schedule.ticks))
        heads = [leaving(schedule, tick) for tick in ticks]
        meets = schedule.meetings.tolist()
        return cls(schedule, times, options, meets, _sends(schedule), _delivers(schedule), heads)


class _Lockstep:
    """One replica's step up to the scatter; `clocks[s]` is where stage s stands, in seconds."""

    def __init__(self, plan: _Plan, replica: Replica, clock: BundleClock) -> None:
        self.plan, self.times, self.replica, self.clock = plan, plan.times, replica, clock
        stages = range(plan.schedule.stages)
        self.uneven = bool(replica.lengths)
        self.slow = [replica.slow.get(stage, 1.0) for stage in stages]
        self.ran: list[list[Ran]] = [[] for _ in stages]
        self.known: dict[Any, tuple[BundleTime, bool]] = {}
        self.clocks = [0.0 for _ in stages]
        self.first: dict[int, float] = {}
        self.last: dict[int, float] = {}
        self.start: list[float] = []
        self.end: list[float] = []

    def run(self, count: int) -> Run:
        """All ticks."""
        prologue, middle, epilogue = self.plan.schedule.phases
        gathered = self.times.gather
        if not self.plan.options.overlap_gather:
            self._wait(gathered)
        self._ticks(prologue)
        if middle:
            self._wait(max(*self.clocks, gathered) + self.times.deliver)
        self._ticks(middle)
        decoded = [max(clock, gathered) for clock in self.clocks]
        self._ticks(epilogue)
        stages = [self._stage(stage, end) for stage, end in enumerate(decoded)]
        start, end = np.array(self.start or [0.0]), np.array(self.end or [0.0])
        beats = beats_of(self.plan.schedule) if self.start else np.zeros(1, int)
        return Run(self.replica, count, tuple(stages), start, end, beats)

    def _stage(self, stage: int, decoded: float) -> StageRun:
        """What the stage `stage` did, which ended the middle then."""
        gathered, options = self.times.gather, self.plan.options
        done = max(self.clocks[stage], gathered)
        ready = decoded if options.overlap_gather else done
        first, last = self.first.get(stage, gathered), self.last.get(stage, decoded)
        ran = tuple(self.ran[stage])
        return StageRun(stage, ran, options.co_issue, gathered, first, last, ready, done)

    def _wait(self, until: float) -> None:
        self.clocks = [until] * len(self.clocks)

    def _ticks(self, ticks: range) -> None:
        for tick in ticks:
            self.start.append(min(self.clocks))
            for stage, bundle in enumerate(self.plan.schedule.ticks[tick]):
                if bundle:
                    self._bundle(tick, stage, bundle)
            if self.plan.meets[tick]:
                self._meet(tick)
            self.end.append(max(self.clocks))

    def _bundle(self, tick: int, stage: int, bundle: Bundle) -> None:
        start = self.clocks[stage]
        own, decodes = self._time(stage, bundle)
        end = self.clocks[stage] = start + own.seconds
        if decodes:
            self.first.setdefault(stage, start)
            self.last[stage] = end
        self.ran[stage].append(Ran(tick, start, end, bundle, own))

    def _time(self, stage: int, bundle: Bundle) -> tuple[BundleTime, bool]:
        """What `bundle` takes, and whether it holds a task of the decoder."""
        slow = self.slow[stage]
        lengths = self.replica.lengths_of(bundle) if self.uneven else (1.0,) * len(bundle)
        key = (lengths, slow, *[(task.kind, task.part, task.module) for task in bundle])
        known = self.known.get(key)
        if known is None:
            tasks = tuple([self.times.time(task) for task in bundle])
            decodes = any(task.module == "decoder" for task in bundle)
            known = self.known[key] = self.clock.time(tasks, lengths, slow), decodes
        return known

    def _meet(self, tick: int) -> None:
        """The stages wait for each other, then send, compute the head and deliver."""
        now = max(self.clocks)
        if self.plan.sends[tick]:
            now += self.times.send
        microbatch = self.plan.heads[tick]
        if microbatch is not None:
            now = self._head(tick, microbatch, now)
        self._wait(now + self.times.deliver * self.plan.delivers[tick])

    def _head(self, tick: int, microbatch: int, start: float) -> float:
        """Head and loss on all stages; when the slowest has done its share."""
        head, length = (self.times.head,), (self.replica.length("decoder", microbatch),)
        ends = []
        for stage, slow in enumerate(self.slow):
            own = self.clock.time(head, length, slow)
            ends.append(start + own.seconds)
            self.ran[stage].append(Ran(tick, start, ends[-1], (), own, microbatch))
        return max(ends)


def _sends(schedule: Schedule) -> list[bool]:
    """`[ticks]`: whether a tick makes something that moves to another stage."""
    moving = {"decoder", *(cut.name for cut in schedule.encoders if cut.stages > 1)}
    return [
        any(task.module in moving for bundle in row for task in bundle) for row in schedule.ticks
    ]


def _delivers(schedule: Schedule) -> list[bool]:
    """`[ticks]`: whether a microbatch enters the decoder after a tick's meeting."""
    delivers = [False] * len(schedule.ticks)
    middle = schedule.phases[1]
    before = schedule.last_meeting
    for tick, row in enumerate(schedule.ticks):
        enters = any(task.kind == "F" and task.part == 0 for task in row[0])
        if enters and before[tick] in middle:
            delivers[before[tick]] = True
    return delivers
