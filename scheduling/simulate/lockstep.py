"""The step of the lockstep executor (`scheduling.executor.pipeline`), simulated.

As in `scheduling.simulate.timeline`, every stage runs its fused tasks and the stages meet at the
ends of the ticks of `Schedule.stage_syncs`; here tasks have collectives and overlap, stage syncs
take time, and the step has its ends::

    gather | prologue | embed | tick, tick, .. | epilogue | scatter | update
                                    ^ a stage sync: send, head and loss, embed

Prologue and epilogue hold encoder tasks only. With `SimulationOptions.overlap_gather` they overlap
with gather and scatter. A stage sync sends if backbone tasks or chunks of encoders of several
stages have run, computes the head if a microbatch has left the last chunk, and embeds if one
enters next. Lengths change tasks and heads; activations move in buffers of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from scheduling.costs.times import StepTimes
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import F
from scheduling.schedules.tasks import Task
from scheduling.simulate.fused_time import FusedTaskClock, FusedTaskTime
from scheduling.simulate.simulation import (
    DEFAULT_OPTIONS,
    FusedTaskRun,
    Replica,
    ReplicaRun,
    Simulation,
    SimulationOptions,
    StageRun,
    StepRun,
)
from scheduling.simulate.timeline import beats_of


def simulate_step(
    schedule: Schedule, times: StepTimes, options: SimulationOptions = DEFAULT_OPTIONS
) -> Simulation:
    """Simulates one step.

    Raises:
        ScheduleError: the options name what the schedule does not have.
        KeyError: `times` lacks an encoder of the schedule.
    """
    alone = None
    if schedule.sources:
        alone = _run_step(
            _backbone_only(schedule), times, options, microbatches_of(schedule, times)
        ).makespan
    return _run_step(schedule, times, options).summarize(alone)


def step_makespan(
    schedule: Schedule, times: StepTimes, options: SimulationOptions = DEFAULT_OPTIONS
) -> float:
    """Seconds of the step that `simulate_step` describes, without the description.

    Raises: as `simulate_step`.
    """
    return _run_step(schedule, times, options).makespan


def microbatches_of(schedule: Schedule, times: StepTimes) -> dict[str, int]:
    """Number of microbatches by module."""
    count = schedule.microbatches
    counts = dict.fromkeys((schedule.backbone.name, *times.modules), count)
    return counts | {
        module.name: schedule.microbatches_of(module.name) for module in schedule.sources
    }


def _run_step(
    schedule: Schedule,
    times: StepTimes,
    options: SimulationOptions,
    counts: Mapping[str, int] | None = None,
) -> StepRun:
    """Runs a step.

    Args:
        counts: as of `microbatches_of`, if the schedule lacks encoders of the options.
    """
    replicas = options.count_replicas(schedule.stages, counts or microbatches_of(schedule, times))
    arguments = schedule, times, options
    clock = FusedTaskClock(options.co_issue)
    runs = [
        _LockstepReplica(*arguments, replica, clock).run_replicas(count)
        for replica, count in replicas
    ]
    return StepRun(runs, times.scatter, times.update, schedule.backbone)


def _backbone_only(schedule: Schedule) -> Schedule:
    """`schedule` without the tasks of other modules, in the same ticks."""
    ticks = tuple(
        tuple(
            tuple(task for task in fused if task.module == schedule.backbone.name) for fused in row
        )
        for row in schedule.ticks
    )
    return replace(schedule, modules=schedule.modules[:1], feeds=(), ticks=ticks)


class _LockstepReplica:
    """The step of one replica up to the scatter; `clocks[s]` is the time of stage s, in seconds.

    Attributes:
        known: times of the distinct fused tasks.
        which: `[ticks, stages]`, index into `known` of each fused task.
        heads: `[ticks]`, the microbatch that leaves the backbone, or -1.
        starts, ends: `[ticks, stages]`, when fused tasks run.
        met: `[ticks]`, when the stages have met and sent.
        done: `[ticks]`, when the tick is over.
    """

    def __init__(
        self,
        schedule: Schedule,
        times: StepTimes,
        options: SimulationOptions,
        replica: Replica,
        clock: FusedTaskClock,
    ) -> None:
        self.schedule, self.times, self.options = schedule, times, options
        self.replica, self.clock = replica, clock
        self.slow = [replica.slow.get(stage, 1.0) for stage in range(schedule.stages)]
        self.known, self.which = self._uneven_cases() if replica.lengths else self._even_cases()
        self.heads, self.embeds = _head_microbatches(schedule), _entering_ticks(schedule)
        self.starts, self.ends = np.zeros((2, *self.which.shape))
        self.met, self.done = np.zeros((2, len(self.which)))
        self.clocks = np.zeros(schedule.stages)

    def _even_cases(self) -> tuple[list[FusedTaskTime], np.ndarray]:
        """`known` and `which` if microbatches are alike."""
        examples, index = self.schedule.distinct_fused
        factors = list(dict.fromkeys(self.slow))
        known = [self._time_fused(fused, slow) for slow in factors for fused in examples]
        return known, index + len(examples) * np.array(
            [factors.index(factor) for factor in self.slow]
        )

    def _uneven_cases(self) -> tuple[list[FusedTaskTime], np.ndarray]:
        """`known` and `which` if microbatches differ."""
        known = [
            self._time_fused(fused_task, slow)
            for row in self.schedule.ticks
            for slow, fused_task in zip(self.slow, row, strict=True)
        ]
        return known, np.arange(len(known)).reshape(-1, len(self.slow))

    def _time_fused(self, tasks: Sequence[Task], slow: float) -> FusedTaskTime:
        """The time of a fused task."""
        times = tuple([self.times.time_of(task) for task in tasks])
        return self.clock.time_of(times, self.replica.length_factors(tasks), slow)

    def run_replicas(self, count: int) -> ReplicaRun:
        """All ticks."""
        prologue, middle, epilogue = self.schedule.phases
        gathered = self.times.gather
        if not self.options.overlap_gather:
            self.clocks[:] = gathered
        self._run_ticks(prologue)
        if middle:
            self.clocks[:] = max(self.clocks.max(), gathered) + self.times.embed
        self._run_ticks(middle)
        decoded = np.maximum(self.clocks, gathered).tolist()
        self._run_ticks(epilogue)
        stages = tuple(self._stage_run(stage, end) for stage, end in enumerate(decoded))
        if not len(self.done):
            return ReplicaRun(
                self.replica, count, stages, np.zeros(1), np.zeros(1), np.zeros(1, int)
            )
        start, beats = self.starts.min(axis=1), beats_of(self.schedule)
        return ReplicaRun(self.replica, count, stages, start, self.done, beats)

    def _run_ticks(self, ticks: range) -> None:
        seconds = np.array([task.seconds for task in self.known])[self.which]
        is_sync = self.schedule.stage_syncs.tolist()
        for tick in ticks:
            self.starts[tick] = self.clocks
            self.clocks += seconds[tick]
            self.ends[tick] = self.clocks
            if is_sync[tick]:
                self._sync_stages(tick)
            self.done[tick] = self.clocks.max()

    def _sync_stages(self, tick: int) -> None:
        """The stages wait for each other, then send, compute the head and embed."""
        now = self.clocks.max() + self.times.send * self.schedule.sends_values[tick]
        self.met[tick] = now
        if self.heads[tick] >= 0:
            now = max(now + task.seconds for task in self._head_times(self.heads[tick]))
        self.clocks[:] = now + self.times.embed * self.embeds[tick]

    def _head_times(self, microbatch: int) -> list[FusedTaskTime]:
        """Times of head and loss by stage."""
        length = (self.replica.length_factor(self.schedule.backbone.name, microbatch),)
        return [self.clock.time_of((self.times.head,), length, slow) for slow in self.slow]

    def _stage_run(self, stage: int, decoded: float) -> StageRun:
        """The run of stage `stage`, whose backbone ticks ended at `decoded` seconds."""
        gathered, options = self.times.gather, self.options
        done = max(float(self.clocks[stage]), gathered)
        ready = decoded if options.overlap_gather else done
        busy = np.flatnonzero(self.schedule.runs_backbone[:, stage])
        first = float(self.starts[busy[0], stage]) if len(busy) else gathered
        last = float(self.ends[busy[-1], stage]) if len(busy) else decoded
        ran = partial(self._list_runs, stage)
        return StageRun(
            stage,
            self.schedule.backbone.name,
            ran,
            options.co_issue,
            gathered,
            first,
            last,
            ready,
            done,
        )

    def _list_runs(self, stage: int) -> Iterator[FusedTaskRun]:
        """Fused tasks and heads of a stage."""
        columns = (array[:, stage].tolist() for array in (self.which, self.starts, self.ends))
        pairs = zip(*columns, self.met.tolist(), strict=True)
        for tick, (which, start, end, met) in enumerate(pairs):
            if fused_task := self.schedule.ticks[tick][stage]:
                yield FusedTaskRun(tick, start, end, fused_task, self.known[which])
            if (microbatch := self.heads[tick]) >= 0:
                array = self._head_times(microbatch)[stage]
                yield FusedTaskRun(tick, met, met + array.seconds, (), array, microbatch)


def _head_microbatches(schedule: Schedule) -> list[int]:
    """`[ticks]`: the microbatch that leaves the last chunk of the last stage, or -1."""
    heads = np.full(len(schedule.ticks), -1)
    ticks, microbatches = schedule.tasks_of(F, schedule.backbone.chunks - 1)
    heads[ticks] = microbatches
    return [int(head) for head in heads]


def _entering_ticks(schedule: Schedule) -> list[bool]:
    """`[ticks]`: whether a microbatch enters the backbone after a tick's stage sync."""
    embeds = [False] * len(schedule.ticks)
    middle, before = schedule.phases[1], schedule.last_sync
    for tick in schedule.tasks_of(F, 0)[0].tolist():
        if before[tick] in middle:
            embeds[before[tick]] = True
    return embeds
