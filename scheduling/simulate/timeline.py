"""Start and end of every task of a schedule: predicted from costs, or as measured.

Where stages meet at a tick's end they wait for the slowest, then comes the head if a
microbatch leaves the last stage in the tick; where nothing moves, each goes on with its next tick.
Two stages, one microbatch, a forward of 1 s, a backward of 2 s, a head of 0.5 s::

    seconds   0     1     2   2.5         4.5         6.5
    stage 0   |  F  |     |head|           |     B     |
    stage 1   |     |  F  |head|     B     |           |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import F
from scheduling.schedules.tasks import FusedTask, ModuleStages, Task


class TaskSeconds(Protocol):
    """Costs of the tasks of a schedule, in seconds."""

    @property
    def shared(self) -> float:
        """Seconds of head and embedding of one microbatch, on each stage."""

    def cost_of(self, task: Task) -> float:
        """Seconds of `task` on the stage that runs it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which a stage works.

    Attributes:
        row: number of the timeline's row that holds the span.
        stage, tick: place of the span in the schedule.
        start, end: seconds from the step's start.
        tasks: one task in a prediction, a fused task in a measurement; empty for the head.
        head: microbatch whose head and loss all stages share in this span; None for tasks.
        operation: operation of the step outside the schedule: `"update"`, or `"gather"` or
            `"scatter"` if the stage waits for that; None for parts of the schedule.
    """

    row: int
    stage: int
    tick: int
    start: float
    end: float
    tasks: FusedTask = ()
    head: int | None = None
    operation: Literal["gather", "scatter", "update"] | None = None

    @property
    def seconds(self) -> float:
        """Duration of the span."""
        return self.end - self.start

    @property
    def waits(self) -> bool:
        """Whether the stage does no work in it."""
        return self.operation in ("gather", "scatter")

    def __str__(self) -> str:
        if self.operation is not None:
            return self.operation
        if self.head is not None:
            return f"head({self.head})"
        return " + ".join(str(task) for task in self.tasks)


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of one step of the pipeline, in seconds.

    Attributes:
        rows: names of the rows: stages of a prediction, devices of a measurement.
        spans: spans by tick, row and time; spans of one row do not overlap.
        start, end: `[ticks]`, seconds: the earliest row's start and the latest row's end.
        beats: `[ticks]`, the number of each tick's beat: the ticks up to and with one at whose end
            the stages meet.
        encoder_hidden: share of the encoders' work in time that the backbone would leave idle; None
            without encoder work, and in a measurement, which knows fused tasks only.
        backbone: how the work of the backbone is divided.
    """

    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    start: np.ndarray
    end: np.ndarray
    beats: np.ndarray
    encoder_hidden: float | None
    backbone: ModuleStages

    @property
    def makespan(self) -> float:
        """Seconds of the step."""
        return float(self.end.max(initial=0.0))

    @property
    def work(self) -> float:
        """Sum of the seconds that the rows work."""
        return sum(span.seconds for span in self.spans if not span.waits)

    @property
    def bubble_share(self) -> float:
        """Share of the rows' time that is idle: 0 if nothing takes time."""
        total = len(self.rows) * self.makespan
        return max(0.0, 1 - self.work / total) if total else 0.0

    @property
    def tick_imbalance(self) -> float:
        """The makespan over its value if the rows that run tasks in a beat took equally long.

        This is the cost of lockstep among the stages that work; empty slots are in `bubble_share`.
        """
        work = np.zeros((self.beats.max(initial=-1) + 1, len(self.rows)))
        busy = np.zeros_like(work, bool)
        for span in self.spans:
            work[self.beats[span.tick], span.row] += span.seconds
            busy[self.beats[span.tick], span.row] |= bool(span.tasks)
        level = (work * busy).sum(axis=1) / np.maximum(busy.sum(axis=1), 1)
        return self.makespan / float(level.sum()) if level.any() else 1.0


def predict_timeline(schedule: Schedule, costs: TaskSeconds) -> Timeline:
    """Predicts when every task of `schedule` starts and ends.

    Tasks of a fused task run one after the other. The time of moving activations is not counted.
    """
    spans: list[Span] = []
    start, end = [], []
    clocks = [0.0] * schedule.stages
    for tick, meet in enumerate(schedule.stage_syncs.tolist()):
        start.append(min(clocks))
        work = list(_fused_spans(schedule, tick, clocks, costs))
        for span in work:
            clocks[span.row] = span.end
        if meet:
            heads = _head_spans(schedule, tick, max(clocks), costs.shared)
            clocks = [heads[0].end if heads else max(clocks)] * schedule.stages
            work += heads
        end.append(max(clocks))
        spans += work
    rows = tuple(f"stage {stage}" for stage in range(schedule.stages))
    hidden = _encoder_hidden(schedule, spans)
    beats = beats_of(schedule)
    bounds = np.array(start), np.array(end)
    return Timeline(rows, tuple(spans), *bounds, beats, hidden, schedule.backbone)


def beats_of(schedule: Schedule) -> np.ndarray:
    """`[ticks]`: how many stage syncs there were before each tick."""
    return np.cumsum(schedule.stage_syncs) - schedule.stage_syncs


def measured_timeline(records: ArrayLike, schedule: Schedule) -> Timeline:
    """The measured timeline: a row per device, a span per device and tick.

    A span holds one fused task; empty fused tasks have no span. Head and sends, which are not
    in a fused task, are idle time here.

    Args:
        records: `[records, 5]`: stage, number of the device within the stage, tick, start and end
            of its fused task in seconds of a clock that all devices share. Every device that occurs
            has every tick once, in any order.
        schedule: the schedule that the devices ran.

    Raises:
        ScheduleError: records do not fit `schedule`; the message names the record or the tick.
    """
    table = _check_records(np.asarray(records, np.float64), schedule)
    devices, row = np.unique(table[:, :2].astype(int), axis=0, return_inverse=True)
    times = np.empty((len(schedule.ticks), len(devices), 2))
    times[table[:, 2].astype(int), row] = table[:, 3:]
    times -= times.min()
    names = tuple(f"stage {stage}, device {device}" for stage, device in devices)
    spans = tuple(_measured_spans(schedule, devices[:, 0].tolist(), times.tolist()))
    bounds = times[..., 0].min(axis=1), times[..., 1].max(axis=1)
    return Timeline(names, spans, *bounds, beats_of(schedule), None, schedule.backbone)


def _fused_spans(
    schedule: Schedule, tick: int, start: list[float], costs: TaskSeconds
) -> Iterator[Span]:
    """The tasks of one tick, each stage's one after the other from its `start` on."""
    for stage, fused_task in enumerate(schedule.ticks[tick]):
        clock = start[stage]
        for task in fused_task:
            end = clock + costs.cost_of(task)
            yield Span(stage, stage, tick, clock, end, (task,))
            clock = end


def _head_spans(schedule: Schedule, tick: int, start: float, seconds: float) -> list[Span]:
    """The head of one tick, on all stages; nothing if the tick has none."""
    head = leaving_microbatch(schedule, tick)
    if head is None:
        return []
    end = start + seconds
    return [Span(stage, stage, tick, start, end, head=head) for stage in range(schedule.stages)]


def leaving_microbatch(schedule: Schedule, tick: int) -> int | None:
    """The microbatch that leaves the backbone's last chunk in `tick`."""
    last = F, schedule.backbone.name, schedule.backbone.chunks - 1
    for task in schedule.ticks[tick][-1]:
        if (task.kind, task.module, task.chunk) == last:
            return task.microbatch
    return None


def _encoder_hidden(schedule: Schedule, spans: list[Span]) -> float | None:
    """Share of encoder work that makes the backbone's beats no longer."""
    beats = beats_of(schedule)
    shape = (beats.max(initial=-1) + 1, schedule.stages)
    backbone, encoder = np.zeros(shape), np.zeros(shape)
    for span in spans:
        for task in span.tasks:
            work = backbone if task.module == schedule.backbone.name else encoder
            work[beats[span.tick], span.stage] += span.seconds
    idle = backbone.max(axis=1, keepdims=True) - backbone
    total = encoder.sum()
    return float(np.minimum(encoder, idle).sum() / total) if total else None


def _measured_spans(
    schedule: Schedule, stages: list[int], times: list[list[list[float]]]
) -> Iterator[Span]:
    """A span per tick and device that has something to run; `times` is `[ticks, devices, 2]`."""
    for tick, by_stage in enumerate(schedule.ticks):
        for row, stage in enumerate(stages):
            if by_stage[stage]:
                start, end = times[tick][row]
                yield Span(row, stage, tick, start, end, by_stage[stage])


def _check_records(records: np.ndarray, schedule: Schedule) -> np.ndarray:
    """`records`, if they fit `schedule`."""
    if records.ndim != 2 or records.shape[1:] != (5,) or not len(records):
        raise ScheduleError(
            f"records of shape {list(records.shape)} are refused; valid: [records, 5], at least "
            "one, each with stage, device, tick, start and end"
        )
    stage, device, tick, start, end = records.T
    ticks = len(schedule.ticks)
    placed = np.isin(stage, range(schedule.stages)) & np.isin(tick, range(ticks)) & (device >= 0)
    for record in records[~placed]:
        raise ScheduleError(
            f"record {record.tolist()}: the schedule has stages 0 to {schedule.stages - 1} "
            f"and ticks 0 to {ticks - 1}; devices count from 0"
        )
    for record in records[~((start <= end) & np.isfinite(start) & np.isfinite(end))]:
        raise ScheduleError(
            f"record {record.tolist()} is refused; valid: start <= end, both finite"
        )
    _check_complete(records, ticks)
    return records


def _check_complete(records: np.ndarray, ticks: int) -> None:
    """Every device that occurs must have every tick once."""
    devices, row = np.unique(records[:, :2].astype(int), axis=0, return_inverse=True)
    count = np.zeros((len(devices), ticks), int)
    np.add.at(count, (row, records[:, 2].astype(int)), 1)
    for index, tick in np.argwhere(count != 1):
        stage, device = devices[index]
        raise ScheduleError(
            f"stage {stage}, device {device}: tick {tick} is recorded {count[index, tick]} times; "
            "valid: once"
        )
