"""The tasks of a schedule in numbers: arrays with an entry for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.task_kinds import TaskKind
from scheduling.schedules.tasks import Task

Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class TaskArrays:
    """All tasks of a schedule, by tick, stage and place in the fused task.

    Attributes:
        keys: the modules of which there are tasks, each with a kind of these.
        key: `[tasks]`: index into `keys`.
        microbatch, chunk, tick, stage: `[tasks]`.
    """

    keys: tuple[tuple[str, TaskKind], ...]
    key: Ints
    microbatch: Ints
    chunk: Ints
    tick: Ints
    stage: Ints

    @classmethod
    def of_ticks(cls, ticks: Sequence[Sequence[Sequence[Task]]]) -> TaskArrays:
        """The tasks of `ticks[t][s]`, the fused task of stage s in tick t."""
        fused = [tasks_of_stage for row in ticks for tasks_of_stage in row]
        tasks = [task for tasks_of_stage in fused for task in tasks_of_stage]
        widths, sizes = list(map(len, ticks)), list(map(len, fused))
        starts = np.cumsum([0, *widths])[:-1]
        tick = np.repeat(np.arange(len(widths)), widths)
        stage = np.arange(len(fused)) - np.repeat(starts, widths)
        numbers: dict[tuple[str, TaskKind], int] = {}
        return cls(
            key=_int_array([numbers.setdefault((t.module, t.kind), len(numbers)) for t in tasks]),
            keys=tuple(numbers),
            microbatch=_int_array([task.microbatch for task in tasks]),
            chunk=_int_array([task.chunk for task in tasks]),
            tick=np.repeat(tick, sizes),
            stage=np.repeat(stage, sizes),
        )

    def of_key(self, module: str, kind: TaskKind) -> NDArray[np.bool_]:
        """`[tasks]`: whether a task is of this module and kind."""
        if (module, kind) not in self.keys:
            return np.zeros(len(self.key), bool)
        return self.key == self.keys.index((module, kind))


def _int_array(values: list[Any]) -> Ints:
    """Whole numbers, or what is none of these or too large as it is, to be refused by a check."""
    return np.array(values) if values else np.zeros(0, np.intp)
