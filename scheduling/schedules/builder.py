"""A schedule under construction, in numbers, and its room for encoder tasks.

`scheduling.schedules.place` and `scheduling.schedules.refine` change it;
`scheduling.schedules.bubbles` combines them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.gain import gainful_stages
from scheduling.schedules.schedule import Schedule, last_true_index
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.task_queue import TOLERANCE, PlacedTasks, PlacementRules, TaskQueue
from scheduling.schedules.tasks import Feed, FusedTask, ModuleStages, Task

#: Most ticks during a gather or a scatter.
MAX_END_TICKS = 1024


@dataclass(frozen=True, eq=False)
class ScheduleBuilder:
    """A schedule under construction, in numbers.

    Attributes:
        backbone: the schedule without encoders.
        first: by kind of encoder task, `[microbatches]`: the backbone's tick in which stage 0 runs
            chunk 0 in the same direction.
        source: `[ticks]`: the tick of `backbone`, -1 for ticks without backbone tasks.
        load: `[ticks, stages]`: cost of the tasks.
        floor: `[ticks]`: least length of a tick whatever its load: the gather of the parameters
            before the backbone's first tick, the scatter of the gradients after its last.
        shared: cost of all heads.
        occupied: by kind of encoder task, `[ticks, stages]`: whether the fused task holds such a
            task.
        placed: the encoders' tasks.
    """

    backbone: Schedule
    first: Mapping[TaskKind, np.ndarray]
    source: np.ndarray
    load: np.ndarray
    floor: np.ndarray
    shared: float
    occupied: Mapping[TaskKind, np.ndarray]
    placed: tuple[PlacedTasks, ...] = ()
    _slots: dict[Any, np.ndarray] = field(init=False, default_factory=dict)

    @classmethod
    def of_backbone(
        cls, schedule: Schedule, costs: TaskCosts, ends: Sequence[TaskQueue] = ()
    ) -> ScheduleBuilder:
        """The table of the backbone alone.

        Args:
            ends: queues that may use the time in which parameters are gathered and gradients
                scattered; then there are ticks for that.
        """
        tasks, load = schedule.task_arrays, np.zeros((len(schedule.ticks), schedule.stages))
        cost = np.array([costs.of_kind(kind) for _, kind in tasks.keys], float)
        np.add.at(load, (tasks.tick, tasks.stage), cost[tasks.key])
        heads = len(schedule.tasks_of(F, schedule.backbone.chunks - 1)[0])
        free = np.zeros(load.shape, bool)
        table = cls(
            schedule,
            {F: _first_chunk_ticks(schedule, F), B: _first_chunk_ticks(schedule, B)},
            np.arange(len(load)),
            load,
            np.zeros(len(load)),
            heads * costs.shared,
            {F: free, B: free},
        )
        if not ends:
            return table
        return table._with_end_ticks(
            _end_tick_floors(costs.gather, F, ends), _end_tick_floors(costs.scatter, B, ends)
        )

    def _with_end_ticks(self, before: np.ndarray, after: np.ndarray) -> ScheduleBuilder:
        """A copy with additional ticks of these least lengths before and after it."""
        around = [np.full(len(floor), -1) for floor in (before, after)]
        ticks = np.concatenate([around[0], self.source, around[1]])
        floor = np.concatenate([before, np.zeros(len(self.source)), after])
        return replace(self.with_ticks(ticks), floor=floor)

    @property
    def tick_lengths(self) -> np.ndarray:
        """`[ticks]`: length of each tick."""
        return np.maximum(self.load.max(axis=1), self.floor)

    @property
    def stages(self) -> int:
        """Number of stages of the backbone."""
        return self.backbone.stages

    @cached_property
    def makespan(self) -> float:
        """Length of the step without its ends, in the unit of the costs."""
        length = float(self.tick_lengths.sum())
        if self._shares_forwards:
            # The tick becomes several, and stages may synchronize after another one than the last.
            exact = self._rows_length()
            length = exact if abs(exact - length) > TOLERANCE * length else length
        return length + self.shared

    @property
    def _shares_forwards(self) -> bool:
        """Whether forwards of several modules stand on one stage in a tick without the backbone."""
        modules: dict[str, np.ndarray] = {}
        for part in self.placed:
            if part.queue.kind.forward:
                runs = modules.setdefault(part.queue.module.name, np.zeros(self.load.shape, bool))
                runs[tuple(part.positions.T)] = True
        shared = np.sum([*modules.values()], axis=0) > 1
        return bool(np.any(shared & (self.source < 0)[:, None]))

    def step_length(self, gather: float, scatter: float) -> float:
        """Length of the step with its ends, also where no ticks stand for them."""
        syncs, work = self._stage_syncs(), self.load.max(axis=1)
        span = np.flatnonzero(self.source >= 0)
        start = int(np.flatnonzero(syncs[: span[0]]).max(initial=-1)) + 1
        before, after = work[:start].sum(), work[span[-1] + 1 :].sum()
        middle = work[start : span[-1] + 1].sum()
        return float(max(before, gather) + middle + max(after, scatter)) + self.shared

    def ready_ticks(
        self, queue: TaskQueue, microbatches: range | np.ndarray, rules: PlacementRules
    ) -> np.ndarray:
        """First tick, in the order of placement, in which a task of each microbatch may run."""
        span = np.flatnonzero(self.source >= 0)
        ticks = span[self._end_ticks(queue)[microbatches]]
        if rules.rounds == "end":
            ticks[:] = span[0] if queue.reverse else span[-1]
        return len(self.source) - ticks if queue.reverse else ticks + 1

    def _end_ticks(self, queue: TaskQueue) -> np.ndarray:
        """`[microbatches of the module]`: tick of `backbone` in which stage 0 begins or ends what
        each feeds.

        It begins with the first that a forward feeds, and ends with the last that feeds a backward.
        """
        choose = np.minimum if queue.kind.forward else np.maximum
        return queue.feed.reduce_consumers(self.first[queue.kind], choose)

    def count_slots(self, queue: TaskQueue, rules: PlacementRules) -> np.ndarray:
        """`[ticks, stages]`, in the order of placement: chunks of mean cost that fit."""
        key = queue, rules.slots, rules.stretch
        if key not in self._slots:
            self._slots[key] = self._count_slots(queue, rules)
        return self._slots[key]

    def _count_slots(self, queue: TaskQueue, rules: PlacementRules) -> np.ndarray:
        is_busy = self.occupied[queue.kind]
        counts = np.zeros(is_busy.shape, np.intp)
        uneven = self.load.min(axis=1) < self.tick_lengths
        usable = (rules.slots | (self.source < 0)) & uneven
        mean, share = queue.mean_costs(self.stages), queue.round_share(self.stages)
        rows, load, floor = np.flatnonzero(usable), self.load[usable], self.floor[usable]
        tasks = queue.feed.source_count(self.backbone.microbatches) * len(queue.chunks)
        while len(rows):
            full = (is_busy[rows] | (counts[rows] > 0)) & queue.moves_between_stages
            full |= counts[rows] >= tasks
            costs = np.where(full, inf, mean)
            more = gainful_stages(load, floor, costs, share, rules.stretch)
            counts[rows] += more
            open_ = more.any(axis=1)
            rows, load = rows[open_], (load + np.where(more, costs, 0))[open_]
            floor = floor[open_]
        return counts[::-1] if queue.reverse else counts

    def with_ticks(self, ticks: np.ndarray) -> ScheduleBuilder:
        """A copy whose tick i is this table's tick `ticks[i]`, or empty if that is -1."""
        old = ticks >= 0

        def spread_ticks(values: np.ndarray, empty: float) -> np.ndarray:
            grown = np.full((len(ticks), *values.shape[1:]), empty, values.dtype)
            grown[old] = values
            return grown

        new = np.flatnonzero(old)
        return replace(
            self,
            source=spread_ticks(self.source, -1),
            load=spread_ticks(self.load, 0),
            floor=spread_ticks(self.floor, 0),
            occupied={
                kind: spread_ticks(is_busy, False) for kind, is_busy in self.occupied.items()
            },
            placed=tuple(part.with_ticks(new) for part in self.placed),
        )

    def merge_unsynced(self) -> ScheduleBuilder:
        """A copy in which every tick without a stage sync at its end is merged with the next."""
        syncs = self._stage_syncs()
        new = np.cumsum(syncs) - syncs
        first = np.flatnonzero(np.diff(new, prepend=-1))
        last = np.append(first[1:], len(new)) - 1
        return replace(
            self,
            source=self.source[last],
            load=np.add.reduceat(self.load, first),
            floor=np.add.reduceat(self.floor, first),
            occupied={
                k: np.logical_or.reduceat(is_busy, first) for k, is_busy in self.occupied.items()
            },
            placed=tuple(part.with_ticks(new) for part in self.placed),
        )

    def _rows_length(self) -> float:
        """The stages' time from sync to sync, summed, once `build_schedule` has split the ticks."""
        parts = sorted(self.placed, key=_sync_order)
        depth, ranks = self._split_ticks(parts)
        last = np.cumsum(depth) - 1
        rows = [last[part.positions[:, 0]] - rank for part, rank in zip(parts, ranks, strict=True)]
        load, backbone = np.zeros((int(depth.sum()), self.stages)), self.load.copy()
        for part, row in zip(parts, rows, strict=True):
            (tick, stage), cost = part.positions.T, part.task_costs
            np.add.at(load, (row, stage), cost)
            np.subtract.at(backbone, (tick, stage), cost)
        load[last] += backbone
        syncs = self._find_syncs(last, dict(zip(parts, rows, strict=True)))
        segment = np.flatnonzero(np.diff(np.cumsum(syncs) - syncs, prepend=-1))
        floor = np.zeros(len(load))
        floor[last] = self.floor
        longest = np.add.reduceat(load, segment).max(axis=1)
        return float(np.maximum(longest, np.add.reduceat(floor, segment)).sum())

    def _split_ticks(self, parts: Sequence[PlacedTasks]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Number of ticks that each becomes; how far each task of a part is before the last one."""
        later: dict[TaskKind, dict[tuple[int, int], int]] = defaultdict(dict)
        depth, ranks = [1] * len(self.source), []
        for part in reversed(parts):
            later_of_kind, rank = later[part.queue.kind], []
            for tick, stage in reversed(part.positions.tolist()):
                count = later_of_kind.get((tick, stage), 0)
                rank.append(count)
                later_of_kind[tick, stage] = count + 1
                if count >= depth[tick]:
                    depth[tick] = count + 1
            ranks.append(np.array(rank[::-1], np.intp))
        return np.array(depth, np.intp), ranks[::-1]

    def _stage_syncs(self) -> np.ndarray:
        """`[ticks]`: `Schedule.stage_syncs` of the resulting schedule, if no tick is split."""
        ticks = np.arange(len(self.source))
        return self._find_syncs(ticks, {part: part.positions[:, 0] for part in self.placed})

    def _find_syncs(self, last: np.ndarray, places: Mapping[PlacedTasks, np.ndarray]) -> np.ndarray:
        """`[rows]`: whether the stages meet, where a tick ends in row `last[tick]`.

        Args:
            places: the row of each task.
        """
        syncs = np.zeros(int(last[-1]) + 1, bool)
        # All stages wait for the parameters; the scatter is the last tick.
        syncs[last[(self.source >= 0) | (self.floor > 0)]] = True
        entry = last[np.flatnonzero(self.source >= 0)[self.first[F]]]
        encoded = np.full(len(entry), -1)
        for part, tick in places.items():
            microbatch, chunk = part.tasks.T
            if part.queue.moves_between_stages:
                syncs[tick] = True
            if part.queue.kind.forward and not part.queue.prefetch:
                feed, last = part.queue.feed, chunk == part.queue.module.chunks - 1
                done = np.full(feed.source_count(len(entry)), -1)
                done[microbatch[last]] = tick[last]
                sources, targets = feed.microbatch_pairs(len(entry))
                np.maximum.at(encoded, targets, done[sources])
        before = np.concatenate([[-1], last_true_index(syncs)])[entry]
        syncs[encoded[before < encoded]] = True
        return syncs

    def build_schedule(self, modules: Sequence[ModuleStages], feeds: Sequence[Feed]) -> Schedule:
        """The table as a schedule; a tick with several tasks of a kind becomes several ticks."""
        encoder_tasks, empty = self._encoder_tasks(), ((),) * self.stages
        rows: list[tuple[FusedTask, ...]] = []
        prologue, gathered = 0, self._gather_ticks
        for tick, source in enumerate(self.source.tolist()):
            if tick == gathered:
                prologue = len(rows)
            backbone = self.backbone.ticks[source] if source >= 0 else empty
            if added := encoder_tasks.get(tick):
                rows += _add_encoder_tasks(backbone, added)
            elif source >= 0:
                rows.append(backbone)
        every = (*self.backbone.modules, *modules)
        return replace(
            self.backbone, modules=every, feeds=tuple(feeds), ticks=tuple(rows), prologue=prologue
        )

    @property
    def _gather_ticks(self) -> int:
        """Number of ticks up to the last one during the gather."""
        start = int(np.flatnonzero(self.source >= 0)[0])
        return int(np.flatnonzero(self.floor[:start]).max(initial=-1)) + 1

    def _encoder_tasks(self) -> dict[int, dict[tuple[int, TaskKind], list[Task]]]:
        """Encoder tasks by tick, then by stage and kind, in the order in which they run."""
        by_tick: dict[int, dict[tuple[int, TaskKind], list[Task]]] = {}
        for placed in sorted(self.placed, key=_sync_order):
            kind, name = placed.queue.kind, placed.queue.module.name
            step = self.backbone.microbatches if placed.queue.prefetch else 0
            pairs = zip(placed.positions.tolist(), placed.tasks.tolist(), strict=True)
            for (tick, stage), (microbatch, chunk) in pairs:
                tasks = by_tick.setdefault(tick, {}).setdefault((stage, kind), [])
                tasks.append(Task(kind, name, microbatch + step, chunk))
        return by_tick


def _sync_order(placed: PlacedTasks) -> bool:
    """Order of tasks in a tick: what moves comes last, to be ready where the stages meet."""
    return placed.queue.moves_between_stages


def _add_encoder_tasks(
    backbone: tuple[FusedTask, ...], encoder_tasks: Mapping[tuple[int, TaskKind], Sequence[Task]]
) -> list[tuple[FusedTask, ...]]:
    """Fused tasks of a tick with encoder tasks: the last of each kind, the others before it."""
    depth = max(map(len, encoder_tasks.values()))
    rows: list[list[FusedTask]] = [[()] * len(backbone) for _ in range(depth)]
    rows[-1] = list(backbone)
    # Fused tasks are ordered as KINDS: encoder tasks come last, their forwards first.
    for (stage, _), tasks in sorted(encoder_tasks.items(), key=lambda item: not item[0][1].forward):
        for row, task in zip(rows[::-1], reversed(tasks), strict=False):
            row[stage] += (task,)
    return [tuple(row) for row in rows]


def _end_tick_floors(seconds: float, kind: TaskKind, queues: Sequence[TaskQueue]) -> np.ndarray:
    """`[ticks]`, summing to `seconds`: a tick takes one chunk of a queue that moves."""
    if not seconds:
        return np.zeros(0)
    longest = max(
        (max(f.costs) for f in queues if f.moves_between_stages and f.kind is kind), default=0.0
    )
    count = max(1, min(int(seconds / longest), MAX_END_TICKS)) if longest else 1
    return np.full(count, seconds / count)


def _first_chunk_ticks(schedule: Schedule, kind: TaskKind) -> np.ndarray:
    """`[microbatches]`: the tick in which stage 0 runs chunk 0."""
    first = np.zeros(schedule.microbatches, np.intp)
    ticks, microbatches = schedule.tasks_of(kind, 0)
    first[microbatches] = ticks
    return first
