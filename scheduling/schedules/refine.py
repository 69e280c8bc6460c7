"""Single chunks moved to ticks with room: step 4 of `scheduling.schedules.bubbles`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from scheduling.schedules.builder import ScheduleBuilder
from scheduling.schedules.task_queue import TOLERANCE, PlacedTasks, PlacementRules

#: Number of passes over all chunks; three are enough for nearly all schedules.
MAX_PASSES = 4


def refine_placement(table: ScheduleBuilder, rules: PlacementRules) -> ScheduleBuilder:
    """Shorten ticks that a chunk on one stage makes longer than all other stages need.

    A chunk moves, between the chunks of its microbatch that come before and after it, to the tick
    that grows least, if that tick grows by less than the chunk's tick shrinks. Chunks of encoders
    of several stages stay where they are.
    """
    table = table.merge_unsynced()
    load = table.load.copy()
    placed = tuple(replace(part, positions=part.positions.copy()) for part in table.placed)
    windows = [
        _Windows.of_placed(table, part, rules)
        for part in placed
        if not part.queue.moves_between_stages
    ]
    for _ in range(MAX_PASSES):
        if not sum(window.shift_tasks(load) for window in windows):
            break
    return replace(table, load=load, placed=placed)


@dataclass(frozen=True, eq=False)
class _Windows:
    """The tasks of one queue and the ticks to which each may move.

    Attributes:
        placed: the tasks; their places change.
        costs: `[tasks]`: cost of each task.
        before, after: `[tasks]`: the task of the same microbatch that comes before and after, or
            -1.
        first, last: `[tasks]`: bounds of the ticks of tasks that have no task before or after.
        begin: `[tasks]`: whether the microbatch waits until this task (backwards) or after it
            (forwards).
        waiting: `[ticks]`: number of microbatches that wait at the end of a tick.
        max_waiting: largest number of microbatches that may wait.
        floor: `[ticks]`, as in `ScheduleBuilder`.
    """

    placed: PlacedTasks
    costs: np.ndarray
    before: np.ndarray
    after: np.ndarray
    first: np.ndarray
    last: np.ndarray
    begin: np.ndarray
    waiting: np.ndarray
    max_waiting: float
    floor: np.ndarray

    @classmethod
    def of_placed(
        cls, table: ScheduleBuilder, part: PlacedTasks, rules: PlacementRules
    ) -> _Windows:
        queue, microbatches = part.queue, part.tasks[:, 0]
        count, ticks = len(microbatches), len(table.source)
        before, after = np.full(count, -1), np.full(count, -1)
        order = np.argsort(microbatches, kind="stable")
        same = microbatches[order[1:]] == microbatches[order[:-1]]
        before[order[1:][same]], after[order[:-1][same]] = order[:-1][same], order[1:][same]
        ready = table.ready_ticks(queue, microbatches, rules)
        first = np.zeros(count, int) if queue.reverse else ready
        last = ticks - 1 - ready if queue.reverse else np.full(count, ticks - 1)
        begin = (after if queue.reverse else before) < 0
        waiting, tick = np.zeros(ticks + 1, int), part.positions[:, 0]
        ends = (tick, last + 1) if queue.reverse else (first - 1, tick)
        np.add.at(waiting, ends[0][begin], 1)
        np.add.at(waiting, ends[1][begin], -1)
        costs = part.task_costs
        max_waiting = inf if queue.prefetch else rules.max_waiting
        counted = waiting.cumsum()
        return cls(
            part, costs, before, after, first, last, begin, counted, max_waiting, table.floor
        )

    def shift_tasks(self, load: np.ndarray) -> int:
        """Move tasks that shorten the step, changing `load` `[ticks, stages]`; number of moves."""
        tick, stage = self.placed.positions.T
        # A single stage is compared with a second one without load.
        second = np.sort(np.pad(load, ((0, 0), (1, 0))), axis=1)[:, -2]
        second = np.maximum(second, self.floor)
        alone = load[tick, stage] > second[tick]
        return sum(self._move_task(load, task) for task in np.flatnonzero(alone).tolist())

    def _move_task(self, load: np.ndarray, task: int) -> bool:
        (tick, stage), cost = self.placed.positions[task].tolist(), self.costs[task]
        others = np.delete(load[tick], stage).max(initial=self.floor[tick])
        gain = load[tick, stage] - max(load[tick, stage] - cost, others)
        ticks = self._find_window(task, tick)
        if gain <= TOLERANCE * cost or not len(ticks):
            return False
        length = np.maximum(load[ticks].max(axis=1), self.floor[ticks])
        growth = np.maximum(load[ticks, stage] + cost - length, 0)
        least = ticks[growth <= growth.min() + TOLERANCE * cost]
        if gain - growth.min() <= TOLERANCE * cost:
            return False
        to = int(least[np.abs(least - tick).argmin()])
        load[tick, stage] -= cost
        load[to, stage] += cost
        self._update_waiting(task, tick, to)
        self.placed.positions[task, 0] = to
        return True

    def _find_window(self, task: int, tick: int) -> np.ndarray:
        """Ticks to which `task` may go from `tick`."""
        ticks, before, after = self.placed.positions[:, 0], self.before[task], self.after[task]
        first = ticks[before] if before >= 0 else self.first[task]
        last = ticks[after] if after >= 0 else self.last[task]
        if self.begin[task]:
            full = self.waiting[first:last] >= self.max_waiting
            if self.placed.queue.reverse:
                first = first + np.flatnonzero(full[: tick - first]).max(initial=-1) + 1
            else:
                last = tick + np.flatnonzero(full[tick - first :]).min(initial=last - tick)
        window = np.arange(first, last + 1)
        return window[window != tick]

    def _update_waiting(self, task: int, tick: int, to: int) -> None:
        """Count the microbatches that wait once `task` has gone from `tick` to `to`."""
        if self.begin[task]:
            longer = (to < tick) == self.placed.queue.reverse
            self.waiting[min(tick, to) : max(tick, to)] += 1 if longer else -1
