"""A pass through the ticks that places the tasks of one queue: step 3 of `schedules.bubbles`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduling.schedules.builder import ScheduleBuilder
from scheduling.schedules.gain import gainful_stages_of_tick
from scheduling.schedules.task_queue import TOLERANCE, PlacedTasks, PlacementRules, TaskQueue


def slot_capacities(
    table: ScheduleBuilder, queue: TaskQueue, microbatches: range, rules: PlacementRules
) -> list[int]:
    """Chunks that idle slots take, by encoder pipeline, for evenly distributed microbatches."""
    slots = table.count_slots(queue, rules)[:, queue.stages[0] :: queue.module.stages]
    arrivals = np.bincount(table.ready_ticks(queue, microbatches, rules), minlength=len(slots) + 1)
    even = arrivals[:, None] * (queue.chunks_by_stage[queue.stages[0]] / slots.shape[1])
    supply = np.broadcast_to(even, (len(slots) + 1, slots.shape[1]))
    _, left = _waiting_for_slots(slots, supply)
    return np.floor(supply.sum(axis=0) - left + TOLERANCE).astype(int).tolist()


def place_tasks(
    table: ScheduleBuilder,
    queue: TaskQueue,
    microbatches: range,
    owners: list[int],
    rules: PlacementRules,
) -> ScheduleBuilder:
    """Adds the tasks of `microbatches`; `owners` are the encoder pipelines that run them."""
    placer = _TaskPlacer(table, queue, microbatches, owners, rules)
    placer.place_all()
    ticks, where, tasks = np.array(placer.ticks), np.array(placer.positions), np.array(placer.tasks)
    if queue.reverse:
        ticks = np.where(ticks < 0, -1, len(table.source) - 1 - ticks)[::-1]
        where, tasks = where[::-1].copy(), tasks[::-1].copy()
        where[:, 0] = len(ticks) - 1 - where[:, 0]
    grown = table.with_ticks(ticks)
    cost = dict(zip(queue.chunks, queue.costs, strict=True))
    np.add.at(grown.load, tuple(where.T), [cost[chunk] for chunk in tasks[:, 1].tolist()])
    grown.occupied[queue.kind][*where.T] = True
    return replace(grown, placed=(*grown.placed, PlacedTasks(queue, where, tasks)))


def _waiting_for_slots(slots: np.ndarray, supply: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of chunks that wait for slots, if every slot takes the chunks that were ready last.

    Args:
        slots: `[ticks, stages]`: number of chunks that an idle slot takes.
        supply: `[ticks + 1, stages]`: number of chunks that become ready in a tick, or at the end.

    Returns:
        `[ticks + 1, stages]`: of the chunks that are ready before a tick's slot, the number that
        this slot and later ones take; `[stages]`: the number of chunks that no slot takes.
    """
    open_slots = np.concatenate([slots, np.zeros_like(slots[:1])])
    # Backwards through the ticks: number of open slots, or minus the number of chunks without one.
    balance = np.cumsum((open_slots - supply)[::-1], axis=0)
    left = np.maximum(np.maximum.accumulate(-balance, axis=0), 0)
    later = np.concatenate([(balance + left)[-2::-1], np.zeros_like(left[:1])])
    return later + open_slots, left[-1]


@dataclass
class _Job:
    """A microbatch to place: `base` is its first stage, `done` counts its placed chunks."""

    microbatch: int
    base: int
    done: int = 0


class _TaskPlacer:
    """Places the tasks of one queue: step 3 of `scheduling.schedules.bubbles`.

    Attributes:
        ticks: ticks of the new table in the order of placement, each as the old table's tick, or -1
            for a new one.
        positions: index into `ticks` and stage of each task.
        tasks: microbatch and chunk of each task.
    """

    def __init__(
        self,
        table: ScheduleBuilder,
        queue: TaskQueue,
        microbatches: range,
        owners: list[int],
        rules: PlacementRules,
    ) -> None:
        self.queue, self.rules = queue, rules
        self.ticks: list[int] = []
        self.positions: list[tuple[int, int]] = []
        self.tasks: list[tuple[int, int]] = []
        stride = -1 if queue.reverse else 1
        self.load, self.occupied = table.load[::stride], table.occupied[queue.kind][::stride]
        self.floor = table.floor[::stride]
        self.slots = table.count_slots(queue, rules)
        self.has_slots = _to_bools(self.slots.any(axis=1))
        self.stage_jobs: list[deque[_Job]] = [deque() for _ in range(table.stages)]
        self.pending = [0] * table.stages
        self.moving: list[_Job] = []
        self.waiting, self.unfinished = 0, len(microbatches)
        ready = table.ready_ticks(queue, microbatches, rules)
        bases = np.array(owners) * queue.module.stages
        self.arrivals: list[list[_Job]] = [[] for _ in range(len(self.load) + 1)]
        jobs = map(_Job, microbatches, bases.tolist())
        for tick, job in [*zip(ready.tolist(), jobs, strict=True)][::stride]:
            self.arrivals[tick].append(job)
        self._plan_rounds(ready, bases)

    def _plan_rounds(self, ready: np.ndarray, bases: np.ndarray) -> None:
        """Which chunks wait for slots, and how many rounds each stage needs."""
        supply = np.zeros((len(self.load) + 1, len(self.stage_jobs)), int)
        tail = np.zeros(len(self.stage_jobs), int)
        left = len(self.queue.chunks)
        for place, chunks in self.queue.chunks_by_stage.items():
            np.add.at(supply, (ready, bases + place), chunks)
            left -= chunks
            tail[place :: self.queue.module.stages] = left
        before, need = _waiting_for_slots(self.slots, supply)
        self.before, self.need, self.tail = before.tolist(), need.tolist(), tail.tolist()
        self.reserved_before = (before[:-1] - self.slots).tolist()
        self.active = np.flatnonzero(supply.any(axis=0)).tolist()
        self.free = _to_bools((~self.occupied[:, self.active]).all(axis=1))
        self._update_critical()

    def place_all(self) -> None:
        """Go through the ticks, and on until everything is placed."""
        self._admit_jobs(self.arrivals[0])
        for tick, arriving in enumerate(self.arrivals[1:]):
            while self.rules.rounds == "separate" and self._is_round_due(self.before[tick]):
                self._insert_round(tick)
            while not self.rules.max_waiting and any(self.pending):
                self._insert_round(tick, everyone=True)
            if arriving:
                self._bound_waiting(tick, len(arriving))
            self.ticks.append(tick)
            if self.has_slots[tick]:
                self._fill_slots(tick)
            elif self._allows_round(tick):
                self._run_round(
                    tick, everyone=self.waiting + len(arriving) > self.rules.max_waiting
                )
            if arriving or self.moving:
                self._admit_jobs(arriving)
        while self.unfinished:
            self._insert_round(len(self.load), everyone=True)

    def _admit_jobs(self, jobs: Sequence[_Job]) -> None:
        """Microbatches that are ready, and those that go on to another stage, join the queues."""
        self.waiting += len(jobs)
        for job in (*self.moving, *jobs):
            place = self.queue.stages[job.done]
            self.stage_jobs[job.base + place].append(job)
            self.pending[job.base + place] += self.queue.chunks_by_stage[place]
        self.moving.clear()

    def _bound_waiting(self, tick: int, arriving: int) -> None:
        """Inserts rounds before `tick` if more than `max_waiting` outputs would wait after it."""
        while self.waiting and arriving + self._waiting_after(tick) > self.rules.max_waiting:
            self._insert_round(tick, everyone=True)

    def _waiting_after(self, tick: int) -> int:
        """Number of waiting microbatches that still wait after `tick`, with a round in it."""
        if self.has_slots[tick] or not self._allows_round(tick):
            return self.waiting
        pairs = zip(self.stage_jobs, self.occupied[tick], strict=True)
        return self.waiting - sum(
            1 for queue, is_busy in pairs if queue and not (queue[0].done or is_busy)
        )

    def _allows_round(self, tick: int) -> bool:
        """Whether a round may share `tick` with its tasks."""
        return self.rules.rounds == "overlapped" and (self.free[tick] or self.rules.eager)

    def _insert_round(self, tick: int, everyone: bool = False) -> None:
        """Inserts a round in a new tick before `tick`."""
        self.ticks.append(-1)
        self._run_round(tick, everyone)
        self._admit_jobs(())

    def _is_round_due(self, counts: list[int]) -> bool:
        """Whether every stage that needs the most rounds has more chunks than slots will take."""
        if self.rules.eager:
            return any(self.pending)
        return bool(self.critical) and all(self.pending[s] > counts[s] for s in self.critical)

    def _update_critical(self) -> None:
        """Finds the stages that need the most rounds, with the needs of later stages."""
        rounds = {s: self.need[s] + self.tail[s] for s in self.active if self.need[s] > 0}
        most = max(rounds.values(), default=0)
        self.critical = [stage for stage, count in rounds.items() if count == most]

    def _run_round(self, tick: int, everyone: bool) -> None:
        """Runs a round if one is due, or if `everyone` is to run the chunks that it has."""
        shares_tick = self.ticks[-1] >= 0
        counts = (self.reserved_before if shares_tick else self.before)[tick]
        if not (everyone or self._is_round_due(counts)):
            return
        for stage in self.active:
            has_surplus = self.pending[stage] > counts[stage]
            blocked = shares_tick and self.occupied[tick, stage]
            if self.pending[stage] and (has_surplus or everyone) and not blocked:
                self.need[stage] -= has_surplus
                self._run_next(stage)
        self._update_critical()

    def _fill_slots(self, tick: int) -> None:
        """Runs chunks in idle slots where the costs make that worth it."""
        room = self.slots[tick].tolist()
        if not any(self.pending[stage] and room[stage] for stage in self.active):
            return
        load, floor = self.load[tick].tolist(), float(self.floor[tick])
        share, stretch = self.queue.round_share(len(self.stage_jobs)), self.rules.stretch
        while True:
            costs = {
                stage: self.queue.costs[self.stage_jobs[stage][0].done]
                for stage in self.active
                if self.pending[stage] and room[stage]
            }
            worth = gainful_stages_of_tick(load, floor, costs, share, stretch)
            if not worth:
                return
            for stage in worth:
                self._run_next(stage)
                load[stage] += costs[stage]
                room[stage] -= 1

    def _run_next(self, stage: int) -> None:
        """Runs the next chunk of the first microbatch in the stage's queue."""
        job, places = self.stage_jobs[stage][0], self.queue.stages
        self.positions.append((len(self.ticks) - 1, stage))
        self.tasks.append((job.microbatch, self.queue.chunks[job.done]))
        self.pending[stage] -= 1
        self.waiting -= not job.done
        job.done += 1
        if job.done == len(places):
            self.unfinished -= 1
        elif places[job.done] == places[job.done - 1]:
            return
        else:
            self.moving.append(job)
        self.stage_jobs[stage].popleft()


def _to_bools(values: Any) -> list[bool]:
    """A one-dimensional array of truth values as a list, which is faster to look up."""
    return [bool(value) for value in values]
