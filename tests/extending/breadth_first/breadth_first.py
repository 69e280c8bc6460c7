"""Breadth-first pipeline parallelism (Lamy-Poirier 2022): a schedule of one's own."""

from __future__ import annotations

from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, FusedTask, Task


def breadth_first(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    """All microbatches go through one virtual chunk before the next one begins.

    A virtual chunk has at least as many ticks as there are stages, so that a microbatch is back at
    stage 0 before it is due there. Backwards mirror the forwards.
    """
    width = max(stages, microbatches)
    half = (stage_chunks - 1) * width + microbatches + stages - 1
    ticks: list[list[FusedTask]] = [[()] * stages for _ in range(2 * half)]
    for chunk in range(stages * stage_chunks):
        loop, stage = divmod(chunk, stages)
        for microbatch in range(microbatches):
            tick = loop * width + microbatch + stage
            ticks[tick][stage] = (Task(F, BACKBONE, microbatch, chunk),)
            back = Task(B, BACKBONE, microbatches - 1 - microbatch, chunk)
            ticks[-1 - tick][stage] = (back,)
    return Schedule.of_backbone(stages, stage_chunks, microbatches, ticks)
