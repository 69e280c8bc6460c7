"""When the tasks of a schedule run: ticks as arrays, from which slots and tables are computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.lowering.lowered import Ints
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import ModuleStages


@dataclass(frozen=True)
class ModuleTicks:
    """Ticks and stages of a module's tasks, `[microbatches, chunks]`, of the module's microbatches.

    Microbatch `M + i` of the next step stands in the row of i, which this step does not run.

    Attributes:
        module: how the module's work is divided.
        forward: ticks of its forwards.
        backward: ticks of its backwards; -1 for chunks that have none.
        weights: ticks of its weight gradients; None if these are not split from backwards.
        stage: stages of its tasks.
        entry: of a module with shared ends the tick at whose end the input of a microbatch is
            summed up, -1 before the first one, `[microbatches]`; else nothing.
    """

    module: ModuleStages
    forward: Ints
    backward: Ints
    weights: Ints | None
    stage: Ints
    entry: Ints

    @classmethod
    def of_module(cls, schedule: Schedule, module: ModuleStages) -> ModuleTicks:
        """The ticks of a module of a schedule."""
        tasks = schedule.task_arrays
        shape = schedule.microbatches_of(module.name), module.chunks
        stage = np.full(shape, -1, np.intp)

        def ticks(kind: TaskKind) -> Ints:
            table, chosen = np.full(shape, -1, np.intp), tasks.of_key(module.name, kind)
            if chosen.any():
                place = tasks.microbatch[chosen] % len(table), tasks.chunk[chosen]
                table[place], stage[place] = tasks.tick[chosen], tasks.stage[chosen]
            return table

        forward = ticks(F)
        weights = ticks(W) if (module.name, W) in tasks.keys else None
        entry = schedule.last_sync[forward[:, 0]] if module.shared_ends else forward[:0, 0]
        return cls(module, forward, ticks(B), weights, stage, entry)

    @property
    def owners(self) -> Ints:
        """Pipeline of the module that runs every microbatch."""
        return self.stage[:, -1] // self.module.stages

    @property
    def numbers(self) -> Ints:
        """Microbatch that each row runs: `M + i` for those of the next step."""
        rows = np.arange(len(self.forward))
        return np.where(rows < self.module.prefetch, rows + len(rows), rows)
