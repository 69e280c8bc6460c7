"""Pipeline schedules as data: which task runs on which stage in which tick.

A schedule is a table `fused[tick, stage]`; a fused task holds at most one task of each kind
(`scheduling.schedules.task_kinds`). Values sent in a tick have arrived when the next one starts: at
the tick's end the stages meet. They do not meet after a tick in which nothing moves from stage to
stage: encoder tasks in such ticks fill a long idle slot until the next stage sync.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules import older_json
from scheduling.schedules.task_arrays import TaskArrays
from scheduling.schedules.task_kinds import KINDS, F, TaskKind, W, parse_kind
from scheduling.schedules.tasks import BACKBONE, Feed, FusedTask, ModuleStages, Task


class ScheduleError(ValueError):
    """A schedule that is impossible, or that breaks a rule."""


@dataclass(frozen=True)
class Schedule:
    """The schedule of one training step of the pipeline.

    Attributes:
        modules: how the modules' work is divided: the backbone, and modules that feed it.
        microbatches: number of the backbone's microbatches.
        feeds: which microbatches of the other modules feed which of the backbone's, one for each.
        ticks: `ticks[t][s]` is the fused task of stage s in tick t.
        prologue: number of the first ticks that certainly run before the backbone's parameters are
            needed.
    """

    modules: tuple[ModuleStages, ...]
    microbatches: int
    feeds: tuple[Feed, ...]
    ticks: tuple[tuple[FusedTask, ...], ...]
    prologue: int = 0

    @classmethod
    def of_backbone(
        cls,
        stages: int,
        stage_chunks: int,
        microbatches: int,
        ticks: Sequence[Sequence[FusedTask]],
        name: str = BACKBONE,
    ) -> Schedule:
        """A schedule of the backbone alone.

        Args:
            stages, stage_chunks: numbers of stages, and of virtual chunks of each.
            ticks: see the attribute.
        """
        backbone = ModuleStages(name, stages, stages * stage_chunks, looped=True, shared_ends=True)
        return cls((backbone,), microbatches, (), tuple(map(tuple, ticks)))

    def with_name(self, name: str) -> Schedule:
        """The same schedule of a backbone that has this name."""
        before = self.backbone.name
        if name == before:
            return self
        ticks = tuple(
            tuple(
                tuple(
                    task._replace(module=name) if task.module == before else task for task in fused
                )
                for fused in row
            )
            for row in self.ticks
        )
        modules = replace(self.backbone, name=name), *self.sources
        feeds = tuple(
            replace(feed, target=name) if feed.target == before else feed for feed in self.feeds
        )
        return replace(self, modules=modules, feeds=feeds, ticks=ticks)

    def __iter__(self) -> Iterator[tuple[int, int, Task]]:
        """Every task as `(tick, stage, task)`, by tick, stage and kind."""
        for tick, row in enumerate(self.ticks):
            for stage, fused in enumerate(row):
                for task in fused:
                    yield tick, stage, task

    @property
    def backbone(self) -> ModuleStages:
        """The module whose microbatches count the step."""
        return self.modules[0]

    @property
    def sources(self) -> tuple[ModuleStages, ...]:
        """All other modules, whose outputs reach the backbone, by itself or through others."""
        return self.modules[1:]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.backbone.stages

    @property
    def stage_chunks(self) -> int:
        """Number of chunks of each stage of the backbone."""
        return self.backbone.stage_chunks

    def module_named(self, name: str) -> ModuleStages:
        """The module of that name.

        Raises:
            ScheduleError: there is none.
        """
        for module in self.modules:
            if module.name == name:
                return module
        valid = ", ".join(module.name for module in self.modules)
        raise ScheduleError(f"module {name!r} is not in the schedule; valid: {valid}")

    def feeds_of(self, source: str) -> tuple[Feed, ...]:
        """What a module's microbatches feed; nothing of the backbone's."""
        return tuple(feed for feed in self.feeds if feed.source == source)

    def microbatches_of(self, name: str) -> int:
        """Number of the microbatches of a module, on which all of its feeds agree."""
        for feed in self.feeds_of(name):
            return feed.source_count(self.microbatches_of(feed.target))
        return self.microbatches

    @cached_property
    def task_places(self) -> Mapping[Task, tuple[int, int]]:
        """`(tick, stage)` of every task; the last one if a task appears twice."""
        return {task: (tick, stage) for tick, stage, task in self}

    @cached_property
    def distinct_fused(self) -> tuple[tuple[FusedTask, ...], NDArray[np.intp]]:
        """Fused tasks that differ in what they cost; `[ticks, stages]`: indices into them.

        Those that differ only in their microbatches cost the same, and so do all chunks of the
        backbone; those given are of microbatch 0.
        """
        backbone = self.backbone.name
        numbers: dict[tuple[tuple[TaskKind, str, int], ...], int] = {}
        examples: list[FusedTask] = []

        def number(fused: FusedTask) -> int:
            key = tuple([(t.kind, t.module, t.chunk if t.module != backbone else 0) for t in fused])
            if key not in numbers:
                examples.append(tuple([task._replace(microbatch=0) for task in fused]))
            return numbers.setdefault(key, len(numbers))

        index = [[number(fused) for fused in row] for row in self.ticks]
        return tuple(examples), np.array(index, np.intp).reshape(len(self.ticks), self.stages)

    @cached_property
    def kinds(self) -> tuple[TaskKind, ...]:
        """Kinds of the tasks that it holds, in the order of `KINDS`."""
        present = {kind for _, kind in self.task_arrays.keys}
        return tuple(kind for kind in KINDS.values() if kind in present)

    @cached_property
    def split_backward(self) -> bool:
        """Whether the backbone's weight gradients are separate tasks."""
        return (self.backbone.name, W) in self.task_arrays.keys

    @cached_property
    def task_arrays(self) -> TaskArrays:
        """All tasks in numbers."""
        return TaskArrays.of_ticks(self.ticks)

    def ticks_with(self, test: Callable[[TaskKind, str], bool]) -> NDArray[np.bool_]:
        """`[ticks, stages]`: whether a fused task holds one with `test(kind, module)`."""
        tasks, ticks = self.task_arrays, np.zeros((len(self.ticks), self.stages), bool)
        chosen = np.array([test(kind, module) for module, kind in tasks.keys], bool)[tasks.key]
        ticks[tasks.tick[chosen], tasks.stage[chosen]] = True
        return ticks

    def tasks_of(
        self, kind: TaskKind, chunk: int, module: str | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Ticks and microbatches of the tasks of a chunk, of the backbone or another module."""
        tasks = self.task_arrays
        chosen = tasks.of_key(module or self.backbone.name, kind) & (tasks.chunk == chunk)
        return tasks.tick[chosen], tasks.microbatch[chosen]

    @cached_property
    def runs_backbone(self) -> NDArray[np.bool_]:
        """`[ticks, stages]`: whether a fused task holds a task of the backbone."""
        return self.ticks_with(lambda _, module: module == self.backbone.name)

    @cached_property
    def sends_values(self) -> NDArray[np.bool_]:
        """`[ticks]`: whether a tick makes something that may move to another stage."""
        moving = {module.name for module in self.sources if module.stages > 1}
        moving.add(self.backbone.name)
        sends = self.ticks_with(lambda kind, module: kind.passes and module in moving)
        return np.any(sends, axis=1)

    @cached_property
    def stage_syncs(self) -> NDArray[np.bool_]:
        """`[ticks]`: whether the stages meet at the end of a tick.

        They meet where values move between them: in ticks that hold a task of the backbone or of
        another module of several stages whose kind passes its result on, in the last tick before a
        microbatch enters the backbone, or another module that is fed, in which its inputs are
        finished, and at the end of the prologue.
        """
        syncs = self.sends_values.copy()
        syncs[self.prologue - 1 : self.prologue] = True
        for target in dict.fromkeys(feed.target for feed in self.feeds):
            entry, finished = self._ticks_of_forwards(target, 0), self._inputs_finished(target)
            before = np.concatenate([[-1], last_true_index(syncs)])[entry]
            syncs[finished[(before < finished) & (finished < entry)]] = True
        return syncs

    def _inputs_finished(self, target: str) -> NDArray[np.intp]:
        """`[microbatches]`: ticks in which the last of a module's inputs is computed, or -1."""
        finished = np.full(self.microbatches_of(target), -1)
        for feed in self.feeds:
            if feed.target == target:
                last = self.module_named(feed.source).chunks - 1
                done = self._ticks_of_forwards(feed.source, last)
                sources, targets = feed.microbatch_pairs(len(finished))
                np.maximum.at(finished, targets, done[sources])
        return finished

    def _ticks_of_forwards(self, module: str, chunk: int) -> NDArray[np.intp]:
        """`[microbatches]`: ticks of the forwards of a chunk, -1 if the step before has run one."""
        last_ticks = np.full(self.microbatches_of(module), -1)
        ticks, numbers = self.tasks_of(F, chunk, module)
        of_step = numbers < len(last_ticks)
        last_ticks[numbers[of_step]] = ticks[of_step]
        return last_ticks

    @cached_property
    def last_sync(self) -> NDArray[np.intp]:
        """`[ticks]`: the last tick before each at whose end the stages meet, -1 if none does."""
        return np.concatenate([[-1], last_true_index(self.stage_syncs)[:-1]])

    @cached_property
    def span(self) -> range:
        """Ticks from the backbone's first to its last; the others are prologue and epilogue."""
        busy = np.flatnonzero(self.runs_backbone.any(axis=1)).tolist()
        return range(busy[0], busy[-1] + 1) if busy else range(0)

    @cached_property
    def phases(self) -> tuple[range, range, range]:
        """Prologue, the backbone's ticks, and epilogue."""
        start = int(self.last_sync[self.span.start]) + 1 if self.span else 0
        return range(start), range(start, self.span.stop), range(self.span.stop, len(self.ticks))

    def __str__(self) -> str:
        """A row per stage, a column per tick."""
        cells = [[self._format_fused(fused) for fused in row] for row in self.ticks]
        widths = [max(1, *(len(cell) for cell in row)) for row in cells]
        lines = [["tick    ", *(str(t).ljust(w) for t, w in enumerate(widths))]]
        for stage in range(self.stages):
            row = (column[stage].ljust(w) for column, w in zip(cells, widths, strict=True))
            lines.append([f"stage {stage:<2}", *row])
        return "\n".join(" ".join(line).rstrip() for line in lines)

    def _format_fused(self, fused: FusedTask) -> str:
        """`F3.1` is the forward of microbatch 3 through virtual chunk 1 of the backbone's stage.

        Those of other modules have the first letters of the module before them, and chunks are
        counted along the module.
        """
        return "+".join(map(self._format_task, fused)) or "."

    def _format_task(self, task: Task) -> str:
        if task.module != self.backbone.name:
            name, chunk = task.module[:3] + task.kind.name.lower(), task.chunk
        else:
            name, chunk = task.kind.name, self.backbone.local_chunk(task.chunk)
        return f"{name}{task.microbatch}" + (f".{chunk}" if chunk else "")

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict; a task is `[kind, module, microbatch, chunk]`."""
        rows = [
            [[[t.kind.name, t.module, t.microbatch, t.chunk] for t in fused] for fused in row]
            for row in self.ticks
        ]
        return {
            "modules": [asdict(module) for module in self.modules],
            "microbatches": self.microbatches,
            "feeds": [asdict(feed) for feed in self.feeds],
            "ticks": rows,
            "prologue": self.prologue,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str) -> Schedule:
        """Inverse of `to_json`; takes the dict or its text, and those of older schedules.

        Raises:
            ScheduleError: `value` is nothing that `to_json` writes.
        """
        try:
            values = json.loads(value) if isinstance(value, str) else value
            if older_json.is_older(values):
                values = older_json.translate_values(values)
            rows = tuple(
                tuple(
                    tuple(Task(parse_kind(kind), *task) for kind, *task in fused) for fused in row
                )
                for row in values["ticks"]
            )
            # Written before modules said whether stages share their ends: the backbone's.
            modules = tuple(
                ModuleStages(**{"shared_ends": number == 0} | module)
                for number, module in enumerate(values["modules"])
            )
            feeds = tuple(map(_parse_feed, values["feeds"]))
            microbatches, prologue = values["microbatches"], values["prologue"]
            sizes = [n for module in modules for n in (module.stages, module.chunks)]
            _refuse_other_types([*sizes, microbatches, prologue], rows)
        except (KeyError, TypeError, ValueError) as error:
            raise ScheduleError(
                f"no schedule: {type(error).__name__}: {error}; valid: what Schedule.to_json writes"
            ) from error
        return cls(modules, microbatches, feeds, rows, prologue)


def _parse_feed(value: Mapping[str, Any]) -> Feed:
    """Inverse of `asdict`, through JSON."""
    feed = Feed(**value)
    if feed.consumers is None:
        return feed
    spans = tuple((int(first), int(last)) for first, last in feed.consumers)
    return replace(feed, consumers=spans)


def _refuse_other_types(sizes: Sequence[int], rows: Sequence[Sequence[FusedTask]]) -> None:
    """Raise TypeError if a number is no integer."""
    numbers = [n for row in rows for fused in row for t in fused for n in (t.microbatch, t.chunk)]
    for number in (*sizes, *numbers):
        if type(number) is not int:
            raise TypeError(f"{number!r} is no integer")


def last_true_index(values: NDArray[np.bool_]) -> NDArray[np.intp]:
    """`[n]`: index of the last true value up to and with each of `values` `[n]`, -1 if none."""
    return np.maximum.accumulate(np.where(values, np.arange(len(values)), -1))
