"""Pipeline schedules as data: which task runs on which stage in which tick.

A schedule is a table `bundle[tick, stage]`; a bundle holds at most one task of each kind
(`scheduling.schedules.task_kinds`). Values sent in a tick have arrived when the next one starts: at
the tick's end the stages meet. They do not meet after a tick in which nothing moves from stage to
stage: encoder tasks in such ticks fill a long idle slot beside the next tick that has a stage sync.
With 2 stages and 4 microbatches (1F1B; F = forward, B = backward)::

    tick      0   1   2      3      4      5   6
    stage 0   F0  F1  F2     F3+B0  B1     B2  B3
    stage 1   .   F0  F1+B0  F2+B1  F3+B2  B3  .

In a tick that holds forwards and backwards every stage runs both, so that P stages, V virtual
chunks and M >= P microbatches take `(M + (P - 1) / V) (t_forward + t_backward)`, the makespan of
interleaved 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.task_arrays import TaskArrays
from scheduling.schedules.task_kinds import EF, KINDS, B, F, TaskKind, W, parse_kind
from scheduling.schedules.tasks import EncoderPieces, FusedTask, Task

#: Most forwards of chunks in a schedule; larger schedules take minutes to make.
MOST_FORWARDS = 2**18


def most_microbatches(stages: int, chunks: int) -> int:
    """Microbatches of the longest schedule that is made."""
    return MOST_FORWARDS // (stages * chunks)


class ScheduleError(ValueError):
    """A schedule that cannot be made, or that breaks a rule."""


#: Kind, part and module of each task of a bundle.
DistinctFused = tuple[tuple[TaskKind, int, str], ...]


@dataclass(frozen=True)
class Schedule:
    """The schedule of one training step of the pipeline.

    Attributes:
        stages, chunks, microbatches: P, V and M.
        encoders: how the encoders' work is cut.
        ticks: `ticks[t][s]` is the bundle of stage s in tick t.
        prologue: number of the first ticks that certainly run before the decoder's parameters are
            needed.
    """

    stages: int
    chunks: int
    microbatches: int
    encoders: tuple[EncoderPieces, ...]
    ticks: tuple[tuple[FusedTask, ...], ...]
    prologue: int = 0

    def __iter__(self) -> Iterator[tuple[int, int, Task]]:
        """Every task as `(tick, stage, task)`, by tick, stage and kind."""
        for tick, row in enumerate(self.ticks):
            for stage, bundle in enumerate(row):
                for task in bundle:
                    yield tick, stage, task

    @cached_property
    def when(self) -> Mapping[Task, tuple[int, int]]:
        """`(tick, stage)` of every task; the last one if a task appears twice."""
        return {task: (tick, stage) for tick, stage, task in self}

    @cached_property
    def distinct_fused(self) -> tuple[tuple[DistinctFused, ...], NDArray[np.intp]]:
        """Bundles that differ in more than microbatches; `[ticks, stages]`: indices into them."""
        numbers: dict[DistinctFused, int] = {}
        index = [
            [
                numbers.setdefault(tuple([(t.kind, t.part, t.module) for t in own]), len(numbers))
                for own in row
            ]
            for row in self.ticks
        ]
        return tuple(numbers), np.array(index, np.intp).reshape(len(self.ticks), self.stages)

    @cached_property
    def kinds(self) -> tuple[TaskKind, ...]:
        """Kinds of the tasks that it holds, in the order of `KINDS`."""
        held = {kind for _, kind in self.task_arrays.keys}
        return tuple(kind for kind in KINDS.values() if kind in held)

    @cached_property
    def task_arrays(self) -> TaskArrays:
        """All tasks in numbers."""
        return TaskArrays.of(self.ticks)

    def ticks_with(self, test: Callable[[TaskKind, str], bool]) -> NDArray[np.bool_]:
        """`[ticks, stages]`: whether a bundle holds a task with `test(kind, module)`."""
        tasks, found = self.task_arrays, np.zeros((len(self.ticks), self.stages), bool)
        own = np.array([test(kind, module) for module, kind in tasks.keys], bool)[tasks.key]
        found[tasks.tick[own], tasks.stage[own]] = True
        return found

    def tasks_of(
        self, kind: TaskKind, part: int, stage: int | None = None, module: str = "decoder"
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Ticks and microbatches of the tasks of a part of a module, on one stage or on any."""
        tasks = self.task_arrays
        own = tasks.of_key(module, kind) & (tasks.part == part)
        if stage is not None:
            own &= tasks.stage == stage
        return tasks.tick[own], tasks.microbatch[own]

    @cached_property
    def runs_backbone(self) -> NDArray[np.bool_]:
        """`[ticks, stages]`: whether a bundle holds a task of the decoder."""
        return self.ticks_with(lambda _, module: module == "decoder")

    @cached_property
    def sends(self) -> NDArray[np.bool_]:
        """`[ticks]`: whether a tick makes something that may move to another stage."""
        moving = {"decoder", *(cut.name for cut in self.encoders if cut.stages > 1)}
        moves = self.ticks_with(lambda kind, module: kind.passes and module in moving)
        return np.any(moves, axis=1)

    @cached_property
    def stage_syncs(self) -> NDArray[np.bool_]:
        """`[ticks]`: whether the stages meet at the end of a tick.

        They meet where values move between them: in ticks that hold a task of the decoder or of an
        encoder of several stages whose kind passes its result on, in the last tick before a
        microbatch enters the decoder in which encoders finish its inputs, and at the end of the
        prologue.
        """
        meets = self.sends.copy()
        meets[self.prologue - 1 : self.prologue] = True
        encoded, entry = (np.full(self.microbatches, -1) for _ in range(2))
        ticks, microbatches = self.tasks_of(F, 0, 0)
        entry[microbatches] = ticks
        for cut in self.encoders:
            done = np.full(cut.units(self.microbatches), -1)
            ticks, numbers = self.tasks_of(EF, cut.pieces - 1, module=cut.name)
            own = numbers < len(done)
            done[numbers[own]] = ticks[own]
            units, fed = cut.feed_pairs(self.microbatches)
            np.maximum.at(encoded, fed, done[units])
        before = np.concatenate([[-1], last_true_index(meets)])[entry]
        meets[encoded[(before < encoded) & (encoded < entry)]] = True
        return meets

    @cached_property
    def last_sync(self) -> NDArray[np.intp]:
        """`[ticks]`: the last tick before each at whose end the stages meet, -1 if none does."""
        return np.concatenate([[-1], last_true_index(self.stage_syncs)[:-1]])

    @cached_property
    def span(self) -> range:
        """Ticks from the first to the last decoder task; the others are prologue and epilogue."""
        busy = np.flatnonzero(self.runs_backbone.any(axis=1)).tolist()
        return range(busy[0], busy[-1] + 1) if busy else range(0)

    @cached_property
    def phases(self) -> tuple[range, range, range]:
        """Ticks before the first decoder task's input is complete, until the last, and after it."""
        start = int(self.last_sync[self.span.start]) + 1 if self.span else 0
        return range(start), range(start, self.span.stop), range(self.span.stop, len(self.ticks))

    def encoder(self, name: str) -> EncoderPieces:
        """The cut of the encoder `name`."""
        for cut in self.encoders:
            if cut.name == name:
                return cut
        valid = ", ".join(cut.name for cut in self.encoders) or "none, for there is none"
        raise ScheduleError(f"encoder {name!r} is not in the schedule; valid: {valid}")

    def __str__(self) -> str:
        """A row per stage, a column per tick."""
        cells = [[format_fused(bundle) for bundle in row] for row in self.ticks]
        widths = [max(1, *(len(cell) for cell in row)) for row in cells]
        lines = [["tick    ", *(str(t).ljust(w) for t, w in enumerate(widths))]]
        for stage in range(self.stages):
            row = (column[stage].ljust(w) for column, w in zip(cells, widths, strict=True))
            lines.append([f"stage {stage:<2}", *row])
        return "\n".join(" ".join(line).rstrip() for line in lines)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict; a task is `[kind, microbatch, part, module]`."""
        rows = [
            [[[t.kind.name, t.microbatch, t.part, t.module] for t in bundle] for bundle in row]
            for row in self.ticks
        ]
        return {
            "stages": self.stages,
            "chunks": self.chunks,
            "microbatches": self.microbatches,
            "encoders": [asdict(cut) for cut in self.encoders],
            "ticks": rows,
            "prologue": self.prologue,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str) -> Schedule:
        """Inverse of `to_json`; takes the dict or its text.

        Raises:
            ScheduleError: `value` is nothing that `to_json` writes.
        """
        try:
            values = json.loads(value) if isinstance(value, str) else value
            rows = tuple(
                tuple(
                    tuple(Task(parse_kind(kind), *task) for kind, *task in bundle) for bundle in row
                )
                for row in values["ticks"]
            )
            encoders = tuple(_pieces_of(cut) for cut in values["encoders"])
            sizes = values["stages"], values["chunks"], values["microbatches"]
            prologue = values["prologue"]
            _refuse_other_types((*sizes, prologue), rows)
        except (KeyError, TypeError, ValueError) as error:
            raise ScheduleError(
                f"no schedule: {type(error).__name__}: {error}; valid: what Schedule.to_json writes"
            ) from error
        return cls(*sizes, encoders, rows, prologue)


def _pieces_of(value: Mapping[str, Any]) -> EncoderPieces:
    """Inverse of `asdict`, through JSON."""
    cut = EncoderPieces(**value)
    if cut.feeds is None:
        return cut
    return replace(cut, feeds=tuple((int(first), int(last)) for first, last in cut.feeds))


def _refuse_other_types(sizes: tuple[int, ...], rows: Sequence[Sequence[FusedTask]]) -> None:
    """Raise TypeError if a number is no whole number."""
    numbers = [n for row in rows for bundle in row for t in bundle for n in (t.microbatch, t.part)]
    for number in (*sizes, *numbers):
        if type(number) is not int:
            raise TypeError(f"{number!r} is no whole number")


def last_true_index(values: NDArray[np.bool_]) -> NDArray[np.intp]:
    """`[n]`: index of the last true value up to and with each of `values` `[n]`, -1 if none."""
    return np.maximum.accumulate(np.where(values, np.arange(len(values)), -1))


def gpipe(stages: int, chunks: int, microbatches: int) -> Schedule:
    """All forwards, then all backwards (Huang et al., arXiv 1811.06965)."""
    _check_sizes(stages, chunks, microbatches)
    forwards = max(slot for _, _, slot in _slots(stages, chunks, microbatches)) + stages
    return _lockstep(stages, chunks, microbatches, backward_start=forwards)


def one_forward_one_backward(stages: int, microbatches: int) -> Schedule:
    """1F1B (Narayanan et al., arXiv 1806.03377): interleaved 1F1B with one chunk."""
    return interleaved(stages, 1, microbatches)


def interleaved(stages: int, chunks: int, microbatches: int) -> Schedule:
    """Interleaved 1F1B with virtual chunks (arXiv 2104.04473, section 2.2).

    Layers of virtual chunk v on stage s follow those of chunk v on stage s - 1, or on stage 0 those
    of chunk v - 1 on the last stage. Microbatches go through in groups of at least `stages`, so
    that a microbatch is back at stage 0 before it is due there; any number of microbatches works.
    """
    return _interleaved(stages, chunks, microbatches)


@lru_cache(maxsize=64)
def _interleaved(stages: int, chunks: int, microbatches: int) -> Schedule:
    _check_sizes(stages, chunks, microbatches)
    width = _groups(stages, microbatches)[0][1]
    return _lockstep(stages, chunks, microbatches, backward_start=(chunks - 1) * width + stages)


def zero_bubble(stages: int, chunks: int, microbatches: int) -> Schedule:
    """Interleaved 1F1B whose weight gradients run where a stage would wait (arXiv 2401.10241).

    Weight gradients wait while a tick with them would be longer: in the first ticks with backwards
    stages begin with backwards one after the other, and in the last with forwards they end. What
    waits runs in ticks that another stage makes long anyway, in ticks in which every stage has
    some, and after the last backward. With P stages and M >= 2 P microbatches the step takes
    `M (f + b + w) + (P - 1) (f + b - w)` if a forward `f`, a backward for inputs `b` and one for
    weights `w` cost the same: as long as ZB-H1 of the paper. With 2 stages and 4 microbatches::

        tick      0   1   2      3      4      5   6   7   8   9
        stage 0   F0  F1  F2     F3+B0  B1+W0  B2  B3  W1  W2  W3
        stage 1   .   F0  F1+B0  F2+B1  F3+B2  B3  W0  W1  W2  W3
    """
    return _zero_bubble(stages, chunks, microbatches)


@lru_cache(maxsize=64)
def _zero_bubble(stages: int, chunks: int, microbatches: int) -> Schedule:
    schedule = interleaved(stages, chunks, microbatches)
    waiting: list[deque[Task]] = [deque() for _ in range(stages)]
    rows = [_with_weights(row, waiting) for row in schedule.ticks]
    while any(waiting):
        rows.append(tuple((own.popleft(),) if own else () for own in waiting))
    return replace(schedule, ticks=tuple(rows))


def _with_weights(
    row: tuple[FusedTask, ...], waiting: Sequence[deque[Task]]
) -> tuple[FusedTask, ...]:
    """A tick with weight gradients that make it no longer, or that every stage has.

    Args:
        waiting: weight gradients that wait on each stage, as changed by the tick.
    """
    full = all(len(own) > 1 for own in row) and all(waiting)
    length = max(map(len, row)) + full
    made = []
    for own, deferred in zip(row, waiting, strict=True):
        more = (deferred.popleft(),) if deferred and len(own) < length else ()
        deferred.extend(replace(task, kind=W) for task in own if task.kind is B)
        made.append((*own, *more))
    return tuple(made)


#: Makes the decoder's tasks of so many stages, chunks and microbatches.
SCHEDULES: dict[str, Callable[[int, int, int], Schedule]] = {
    "1f1b": interleaved,
    "gpipe": gpipe,
    "zero_bubble": zero_bubble,
}


def _lockstep(stages: int, chunks: int, microbatches: int, backward_start: int) -> Schedule:
    """Forwards run down the stages in the order of `_slots`, backwards up with chunks reversed."""
    slots = _slots(stages, chunks, microbatches)
    length = backward_start + max(slot for _, _, slot in slots) + stages
    table: list[list[list[Task]]] = [[[] for _ in range(stages)] for _ in range(length)]
    for microbatch, chunk, slot in slots:
        for stage in range(stages):
            table[slot + stage][stage].append(Task(F, microbatch, chunk))
    for microbatch, chunk, slot in slots:
        for stage in range(stages):
            tick = backward_start + slot + stages - 1 - stage
            table[tick][stage].append(Task(B, microbatch, chunks - 1 - chunk))
    ticks = tuple(tuple(tuple(bundle) for bundle in row) for row in table)
    return Schedule(stages, chunks, microbatches, (), ticks)


def _slots(stages: int, chunks: int, microbatches: int) -> list[tuple[int, int, int]]:
    """`(microbatch, chunk, slot)`: stage s runs a forward in tick slot + s."""
    slots, start = [], 0
    for group, width in _groups(stages, microbatches):
        for chunk in range(chunks):
            slots += [(m, chunk, start + chunk * width + i) for i, m in enumerate(group)]
        start += chunks * width
    return slots


def _groups(stages: int, microbatches: int) -> list[tuple[range, int]]:
    """Groups of microbatches with their widths in slots, the widest first.

    A group is as wide as the pipeline is long, or wider by its share of the remainder: three
    stages and eight microbatches make two groups of four.
    """
    count = max(microbatches // stages, 1)
    groups, start = [], 0
    for i in range(count):
        size = microbatches // count + (i < microbatches % count)
        groups.append((range(start, start + size), max(size, stages)))
        start += size
    return groups


def _check_sizes(stages: int, chunks: int, microbatches: int) -> None:
    sizes = {"stages": stages, "chunks": chunks, "microbatches": microbatches}
    for name, size in sizes.items():
        if size < 1:
            raise ScheduleError(f"{name}: {size} is refused; valid: 1 or more")


def format_fused(bundle: Sequence[Task]) -> str:
    """`F3.1` is the forward of microbatch 3 through chunk 1; encoders add their first letters."""
    return "+".join(format_task(task) for task in bundle) or "."


def format_task(task: Task) -> str:
    part = f".{task.part}" if task.part else ""
    if task.module == "decoder":
        return f"{task.kind}{task.microbatch}{part}"
    return f"{task.module[:3]}{task.kind.letter}{task.microbatch}{part}"
