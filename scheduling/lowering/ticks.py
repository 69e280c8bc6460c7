"""When the tasks of a schedule run: ticks as arrays, from which slots and tables are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.lowering.lowered import Ints
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import Feed, ModuleStages


def task_rows(schedule: Schedule) -> dict[tuple[str, TaskKind], Ints]:
    """Rows `(microbatch, chunk, tick, stage)` by module and kind."""
    tasks = schedule.task_arrays
    rows = np.stack([tasks.microbatch, tasks.chunk, tasks.tick, tasks.stage], axis=1)
    return {key: rows[tasks.of_key(*key)] for key in tasks.keys}


@dataclass(frozen=True)
class BackboneTicks:
    """Ticks of the decoder's forwards and backwards, `[microbatches, chunks, stages]`.

    `weights`: those of its weight gradients, None if these are not apart. `entry`,
    `[microbatches]`: the tick at whose end the input of a microbatch is summed up.
    """

    forward: Ints
    backward: Ints
    weights: Ints | None
    entry: Ints

    @classmethod
    def of(cls, schedule: Schedule, tasks: Mapping[tuple[str, TaskKind], Ints]) -> BackboneTicks:
        backbone = schedule.backbone

        def ticks(kind: TaskKind) -> Ints:
            microbatch, chunk, tick, stage = tasks[backbone.name, kind].T
            table = np.empty((schedule.microbatches, schedule.chunks, schedule.stages), np.intp)
            table[microbatch, backbone.local_chunk(chunk), stage] = tick
            return table

        forward = ticks(F)
        weights = ticks(W) if schedule.split_backward else None
        return cls(forward, ticks(B), weights, schedule.last_sync[forward[:, 0, 0]])

    @property
    def stage(self) -> Ints:
        """The stage of every entry."""
        return np.broadcast_to(np.arange(self.forward.shape[2]), self.forward.shape)

    @property
    def inputs_written(self) -> Ints:
        """Ticks at whose end the inputs of chunks are written."""
        written = np.empty_like(self.forward)
        written[:, :, 1:] = self.forward[:, :, :-1]
        written[:, 1:, 0] = self.forward[:, :-1, -1]
        written[:, 0, 0] = self.entry
        return written

    @property
    def gradients_written(self) -> Ints:
        """Ticks at whose end the gradients of the outputs of chunks are written."""
        written = np.empty_like(self.backward)
        written[:, :, :-1] = self.backward[:, :, 1:]
        written[:, :-1, -1] = self.backward[:, 1:, 0]
        written[:, -1, -1] = self.forward[:, -1, -1]
        return written


@dataclass(frozen=True)
class SourceTicks:
    """Ticks and stages of one encoder's tasks, `[units, chunks]`: its own microbatches.

    Microbatch `M + i` of the next step stands in the row of i, which this step does not encode.
    Backwards are -1 for chunks that have none.
    """

    module: ModuleStages
    feed: Feed
    forward: Ints
    backward: Ints
    stage: Ints

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        module: ModuleStages,
        feed: Feed,
        tasks: Mapping[tuple[str, TaskKind], Ints],
    ) -> SourceTicks:
        count = feed.source_count(schedule.microbatches)
        forward, backward, stages = (np.full((count, module.chunks), -1, np.intp) for _ in range(3))
        if not count:
            return cls(module, feed, forward, backward, stages)
        microbatch, chunk, tick, stage = tasks[module.name, F].T
        forward[microbatch % count, chunk] = tick
        stages[microbatch % count, chunk] = stage
        if module.trains:
            microbatch, chunk, tick, _ = tasks[module.name, B].T
            backward[microbatch, chunk] = tick
        return cls(module, feed, forward, backward, stages)

    @property
    def owners(self) -> Ints:
        """Encoder pipeline of every microbatch."""
        return self.stage[:, -1] // self.module.stages

    @property
    def numbers(self) -> Ints:
        """Microbatch that each row encodes: `M + i` for those of the next step."""
        rows = np.arange(len(self.forward))
        return np.where(rows < self.module.prefetch, rows + len(rows), rows)
