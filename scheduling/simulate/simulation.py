"""A simulated step: its options, the busy time of its devices, and idle time by kind.

A device is idle while its compute units do nothing. The kinds are those of Optimus (Feng et al.,
arXiv 2408.03505, table 1). On each stage, in the order of time::

    gather      parameters are not there yet, and no encoder task runs meanwhile
    warm-up     until the stage's first backbone task
    other       until the end of its last backbone task
    cool-down   until its gradients may be scattered, and until the other stages are done
    scatter     its gradients are being scattered, or other data-parallel replicas are slower
    tensor      within tasks: collectives that overlap with no compute

Data-parallel replicas of the pipeline meet twice: they start together, with the gather of the
parameters, and a stage's gradients are scattered when the slowest replica has them. The optimizer
waits for all stages of all replicas, as it needs the norm of the full gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.tasks import FusedTask, ModuleStages, Task
from scheduling.simulate.fused_time import FusedTaskTime
from scheduling.simulate.timeline import Span, Timeline

IdleKind = Literal["gather", "scatter", "warm-up", "cool-down", "other", "tensor"]
IDLE_KINDS: tuple[IdleKind, ...] = get_args(IdleKind)

#: Relative rounding error of sums of a step's seconds.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Replica:
    """How one data-parallel replica differs from the times of `StepTimes`.

    Attributes:
        slow: factor on the compute time of a stage's devices, by stage: 1.1 is a tenth longer.
        lengths: by module, `[microbatches]`: factors on the work of each
            microbatch of the module, compute and collectives. Without an entry all are 1.
    """

    slow: Mapping[int, float] = field(default_factory=dict)
    lengths: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for replicas that take the same time."""
        lengths = ((name, tuple(map(float, values))) for name, values in self.lengths.items())
        return tuple(sorted(self.slow.items())), tuple(sorted(lengths))

    def length_factor(self, module: str, microbatch: int) -> float:
        """The factor of a microbatch; one of the next step has that of the same number in this."""
        values = self.lengths.get(module)
        return 1.0 if values is None else float(values[microbatch % len(values)])

    def length_factors(self, tasks: Sequence[Task]) -> tuple[float, ...]:
        """The factors of `tasks`."""
        return tuple([self.length_factor(task.module, task.microbatch) for task in tasks])

    def check(self, stages: int, counts: Mapping[str, int]) -> None:
        """Raise ScheduleError if a stage, a module, a number of factors or a factor is wrong.

        Args:
            counts: number of microbatches by module.
        """
        for stage, factor in self.slow.items():
            if not 0 <= stage < stages:
                raise ScheduleError(f"slow: stage {stage} does not exist; valid: 0 to {stages - 1}")
            if not 0 < factor < float("inf"):
                raise ScheduleError(
                    f"slow: factor {factor} of stage {stage} is refused; valid: above 0"
                )
        for module, values in self.lengths.items():
            _check_lengths(module, values, counts)


def _check_lengths(module: str, values: Sequence[float], counts: Mapping[str, int]) -> None:
    if module not in counts:
        valid = ", ".join(sorted(counts))
        raise ScheduleError(f"lengths: module {module!r} is not in the step; valid: {valid}")
    if len(values) != counts[module]:
        raise ScheduleError(
            f"lengths: {len(values)} factors for {module}; valid: one for each of {counts[module]} "
            "microbatches"
        )
    for factor in values:
        if not 0 <= factor < float("inf"):
            raise ScheduleError(
                f"lengths: factor {factor} of {module} is refused; valid: 0 or more"
            )


@dataclass(frozen=True)
class SimulationOptions:
    """How a step is simulated.

    Attributes:
        co_issue: tasks of a fused task run side by side, the compute of one under the collectives
            of another.
        overlap_gather: encoder work before the backbone's first task overlaps with the gather of
            the parameters, and that after its last with the scatter of the gradients. These do not
            slow its collectives, as data-parallel ranks are joined by other links (NICs, other
            axes of a torus) than a tensor group.
        replicas: data-parallel replicas of the pipeline. Equal ones are simulated once.
        usual: the replica that stands for all but the `distinct` ones.
        distinct: replicas unlike the others, at most `replicas` of them.
    """

    co_issue: bool = True
    overlap_gather: bool = True
    replicas: int = 1
    usual: Replica = Replica()
    distinct: tuple[Replica, ...] = ()

    def count_replicas(self, stages: int, counts: Mapping[str, int]) -> list[tuple[Replica, int]]:
        """The different replicas, each with its count.

        Args:
            counts: number of microbatches by module.

        Raises:
            ScheduleError: a replica does not fit the step, or there are too many distinct ones.
        """
        others = self.replicas - len(self.distinct)
        if self.replicas < 1 or others < 0:
            raise ScheduleError(
                f"replicas: {self.replicas} is refused; valid: at least 1 and at least as many as "
                f"the {len(self.distinct)} distinct ones"
            )
        by_key: dict[Any, tuple[Replica, int]] = {}
        for replica, number in [(self.usual, others), *((one, 1) for one in self.distinct)]:
            if number:
                replica.check(stages, counts)
                by_key[replica.key] = replica, by_key.get(replica.key, (replica, 0))[1] + number
        return list(by_key.values())


#: Co-issue, overlap, and equal replicas.
DEFAULT_OPTIONS = SimulationOptions()


class StageBlock(NamedTuple):
    """Uninterrupted work of a stage.

    Attributes:
        span: the work and its time.
        compute: seconds in which the stage's compute units work.
        encoder: the part of `compute` for encoders.
    """

    span: Span
    compute: float
    encoder: float = 0.0


class FusedTaskRun(NamedTuple):
    """A fused task that a stage has run, or its share of a head.

    Attributes:
        tick, start, end, tasks, head: as in `Span`.
        time: times of the tasks.
    """

    tick: int
    start: float
    end: float
    tasks: FusedTask
    time: FusedTaskTime
    head: int | None = None

    def joint_block(self, stage: int, backbone: str) -> list[StageBlock]:
        """A single block for all tasks of the fused task."""
        span = Span(stage, stage, self.tick, self.start, self.end, self.tasks, self.head)
        pairs = zip(self.tasks, self.time.compute, strict=False)
        encoder = sum(compute for task, compute in pairs if task.module != backbone)
        return [StageBlock(span, sum(self.time.compute), encoder)]

    def task_blocks(self, stage: int, backbone: str) -> list[StageBlock]:
        """A block for each task."""
        if self.head is not None:
            return self.joint_block(stage, backbone)
        blocks, start = [], self.start
        for task, seconds, compute in zip(
            self.tasks, self.time.ends, self.time.compute, strict=True
        ):
            end = self.start + seconds
            span = Span(stage, stage, self.tick, start, end, (task,))
            blocks.append(StageBlock(span, compute, compute if task.module != backbone else 0.0))
            start = end
        return blocks


@dataclass(frozen=True)
class StageRun:
    """A stage of one replica up to the scatter of its gradients, in seconds from the step's start.

    Attributes:
        stage: number of the stage.
        backbone: name of the backbone.
        ran: yields the fused tasks that it ran, in the order of time.
        co_issue: whether tasks of a fused task ran side by side.
        gathered: time at which the stage's parameters are gathered.
        first, last: start of its first and end of its last backbone task.
        ready: time at which the stage's gradients may be scattered.
        done: end of its last block.
    """

    stage: int
    backbone: str
    ran: Callable[[], Iterable[FusedTaskRun]]
    co_issue: bool
    gathered: float
    first: float
    last: float
    ready: float
    done: float

    @cached_property
    def blocks(self) -> tuple[StageBlock, ...]:
        """The stage's blocks, in the order of time."""
        make = FusedTaskRun.joint_block if self.co_issue else FusedTaskRun.task_blocks
        return tuple(
            block for task in self.ran() for block in make(task, self.stage, self.backbone)
        )


@dataclass(frozen=True, eq=False)
class ReplicaRun:
    """The stages of one replica.

    Attributes:
        replica, count: the replica, and the number of replicas equal to it.
        stages: stages by number.
        start, end, beats: as in `Timeline`.
    """

    replica: Replica
    count: int
    stages: tuple[StageRun, ...]
    start: np.ndarray
    end: np.ndarray
    beats: np.ndarray


@dataclass(frozen=True)
class DeviceUse:
    """Seconds of one device, or means over several: compute and all kinds of idle time.

    They add up to the makespan.
    """

    compute: float
    idle: Mapping[IdleKind, float]


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated step.

    Attributes:
        makespan: seconds of the step.
        stages: use of the devices of each stage, the mean over replicas.
        encoder_hidden: share of the encoders' compute that does not lengthen the step:
            1 - (makespan - makespan of the same step without encoder tasks) / mean seconds of
            encoder compute of a device; at least 0 and at most 1. None without encoder work.
        timeline: timeline of the slowest replica, with spans `"gather"` and `"scatter"` where a
            stage waits for them.
    """

    makespan: float
    stages: tuple[DeviceUse, ...]
    encoder_hidden: float | None
    timeline: Timeline

    @property
    def compute(self) -> float:
        """Seconds in which the compute units of a device work, the mean over all devices."""
        return sum(use.compute for use in self.stages) / len(self.stages)

    @property
    def idle(self) -> dict[IdleKind, float]:
        """Idle seconds of a device by kind, the mean over all devices."""
        count = len(self.stages)
        return {kind: sum(use.idle[kind] for use in self.stages) / count for kind in IDLE_KINDS}

    def to_json(self) -> dict[str, Any]:
        """`{"seconds", "compute", "idle": {kind: seconds}, "encoder_hidden"}`."""
        return {
            "seconds": self.makespan,
            "compute": self.compute,
            "idle": self.idle,
            "encoder_hidden": self.encoder_hidden,
        }


class StepRun:
    """All replicas from the scatter of their gradients to the end of the step.

    Args:
        runs: runs of the different replicas.
        scatter, update: seconds of the scatter of the gradients, and of the optimizer.
        backbone: as of `Timeline`.
    """

    def __init__(
        self, runs: Sequence[ReplicaRun], scatter: float, update: float, backbone: ModuleStages
    ) -> None:
        self.runs, self.update, self.backbone = runs, update, backbone
        columns = list(zip(*(run.stages for run in runs), strict=True))
        self.scattered = [
            max(stage_run.ready for stage_run in column) + scatter for column in columns
        ]
        self.done = [max(self._done_times(run)) for run in runs]
        self.complete = max(self.done)
        self.makespan = self.complete + max(
            self._update_seconds(run, s) for run in runs for s in self
        )

    def __iter__(self) -> Iterator[int]:
        """Numbers of the stages."""
        return iter(range(len(self.scattered)))

    def _done_times(self, run: ReplicaRun) -> Iterator[float]:
        """Times at which the stages of `run` are ready for the optimizer."""
        pairs = zip(run.stages, self.scattered, strict=True)
        return (max(stage_run.done, scattered) for stage_run, scattered in pairs)

    def _pace_key(self, index: int) -> tuple[float, float]:
        """A key that is greater for a slower replica."""
        return self.done[index], max(stage.done for stage in self.runs[index].stages)

    def _update_seconds(self, run: ReplicaRun, stage: int) -> float:
        return self.update * run.replica.slow.get(stage, 1.0)

    def summarize(self, alone: float | None = None) -> Simulation:
        """The simulation of the step.

        Args:
            alone: makespan of the step without its encoders' tasks; None if it has none.
        """
        uses = [
            [self._device_use(index, stage) for stage in self] for index in range(len(self.runs))
        ]
        counts = [run.count for run in self.runs]
        stages = tuple(_mean_use(column, counts) for column in zip(*uses, strict=True))
        hidden = None if alone is None else self._hidden_share(alone)
        slowest = max(range(len(self.runs)), key=self._pace_key)
        return Simulation(self.makespan, stages, hidden, self._make_timeline(slowest, hidden))

    def _hidden_share(self, alone: float) -> float | None:
        """See `Simulation.encoder_hidden`."""
        total = sum(
            run.count * block.encoder
            for run in self.runs
            for stage in run.stages
            for block in stage.blocks
        )
        devices = len(self.scattered) * sum(run.count for run in self.runs)
        if not total:
            return None
        return min(1.0, max(0.0, 1 - (self.makespan - alone) * devices / total))

    def _stage_blocks(self, index: int, stage: int) -> list[StageBlock]:
        """Blocks of a stage, the optimizer's among them."""
        run, start = self.runs[index], self.complete
        blocks = list(run.stages[stage].blocks)
        seconds = self._update_seconds(run, stage)
        if seconds:
            end = start + seconds
            tick = len(run.end) - 1
            blocks.append(
                StageBlock(Span(stage, stage, tick, start, end, operation="update"), seconds)
            )
        return blocks

    def _device_use(self, index: int, stage: int) -> DeviceUse:
        blocks = self._stage_blocks(index, stage)
        compute = sum(block.compute for block in blocks)
        idle: dict[IdleKind, float] = dict.fromkeys(IDLE_KINDS, 0.0)
        within = sum(block.span.seconds for block in blocks) - compute
        idle["tensor"] = within if within > ROUNDING * self.makespan else 0.0
        for kind, start, end in self._idle_spans(index, stage, blocks):
            idle[kind] += end - start
        return DeviceUse(compute, idle)

    def _idle_spans(
        self, index: int, stage: int, blocks: Sequence[StageBlock]
    ) -> Iterator[tuple[IdleKind, float, float]]:
        """Kind, start and end of all idle time between `blocks`."""
        marks = self._idle_marks(index, stage)
        clock = 0.0
        for start, end in [*((b.span.start, b.span.end) for b in blocks), (self.makespan,) * 2]:
            for until, kind in marks if start > clock else ():
                if clock < min(until, start):
                    yield kind, clock, min(until, start)
                    clock = min(until, start)
            clock = end

    def _idle_marks(self, index: int, stage: int) -> list[tuple[float, IdleKind]]:
        """Ends of the periods of a stage, each with the kind of its idle time."""
        stage_run = self.runs[index].stages[stage]
        return [
            (stage_run.gathered, "gather"),
            (stage_run.first, "warm-up"),
            (stage_run.last, "other"),
            (stage_run.ready, "cool-down"),
            (self.scattered[stage], "scatter"),
            (self.done[index], "cool-down"),
            (self.complete, "scatter"),
            (self.makespan, "cool-down"),
        ]

    def _make_timeline(self, index: int, hidden: float | None) -> Timeline:
        run = self.runs[index]
        spans = [span for stage in self for span in self._stage_spans(index, stage)]
        spans.sort(key=lambda span: (span.tick, span.row, span.start))
        end = run.end.copy()
        end[-1] = self.makespan
        rows = tuple(f"stage {stage}" for stage in self)
        times = run.start, end, run.beats
        return Timeline(rows, tuple(spans), *times, hidden, self.backbone)

    def _stage_spans(self, index: int, stage: int) -> Iterator[Span]:
        """Spans of a stage's work, and of its waiting for gather and scatter."""
        blocks = self._stage_blocks(index, stage)
        yield from (block.span for block in blocks)
        last = len(self.runs[index].end) - 1
        for kind, start, end in self._idle_spans(index, stage, blocks):
            if kind == "gather":
                yield Span(stage, stage, 0, start, end, operation="gather")
            elif kind == "scatter":
                yield Span(stage, stage, last, start, end, operation="scatter")


def _mean_use(uses: Sequence[DeviceUse], counts: Sequence[int]) -> DeviceUse:
    """The mean of `uses`, weighted by `counts`."""
    total = sum(counts)
    weights = [count / total for count in counts]
    pairs = list(zip(uses, weights, strict=True))
    compute = sum(use.compute * weight for use, weight in pairs)
    idle = {kind: sum(use.idle[kind] * weight for use, weight in pairs) for kind in IDLE_KINDS}
    return DeviceUse(compute, idle)
