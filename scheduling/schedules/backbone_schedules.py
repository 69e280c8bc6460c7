"""Schedules of a backbone alone: GPipe, interleaved 1F1B, and 1F1B without bubbles."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import BACKBONE, FusedTask, Task

#: Most forwards of chunks in a schedule; larger schedules take minutes to make.
MOST_FORWARDS = 2**18


def most_microbatches(stages: int, stage_chunks: int) -> int:
    """Microbatches of the longest schedule."""
    return MOST_FORWARDS // (stages * stage_chunks)


def gpipe_schedule(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    """All forwards, then all backwards (Huang et al., arXiv 1811.06965).

    >>> print(gpipe_schedule(stages=2, stage_chunks=1, microbatches=2))
    tick     0  1  2  3  4  5
    stage 0  F0 F1 .  .  B0 B1
    stage 1  .  F0 F1 B0 B1 .
    """
    _check_sizes(stages, stage_chunks, microbatches)
    forwards = (
        max(slot for _, _, slot in _forward_slots(stages, stage_chunks, microbatches)) + stages
    )
    return _make_lockstep(stages, stage_chunks, microbatches, backward_start=forwards)


def one_forward_one_backward(stages: int, microbatches: int) -> Schedule:
    """1F1B (Narayanan et al., arXiv 1806.03377): interleaved 1F1B with one chunk."""
    return interleaved_schedule(stages, 1, microbatches)


def interleaved_schedule(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    """Interleaved 1F1B with virtual chunks (arXiv 2104.04473, section 2.2).

    Layers of virtual chunk v on stage s follow those of chunk v on stage s - 1, or on stage 0 those
    of chunk v - 1 on the last stage. Microbatches go through in groups of at least `stages`, so
    that a microbatch is back at stage 0 before it is due there; any number of microbatches works.

    >>> print(interleaved_schedule(stages=2, stage_chunks=1, microbatches=3))
    tick     0  1  2     3     4  5
    stage 0  F0 F1 F2    B0    B1 B2
    stage 1  .  F0 F1+B0 F2+B1 B2 .
    """
    return _cached_interleaved(stages, stage_chunks, microbatches)


@lru_cache(maxsize=64)
def _cached_interleaved(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    _check_sizes(stages, stage_chunks, microbatches)
    width = _group_microbatches(stages, microbatches)[0][1]
    return _make_lockstep(
        stages, stage_chunks, microbatches, backward_start=(stage_chunks - 1) * width + stages
    )


def zero_bubble_schedule(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    """Interleaved 1F1B whose weight gradients run where a stage would wait (arXiv 2401.10241).

    Weight gradients wait while a tick with them would be longer: in the first ticks with backwards
    stages begin with backwards one after the other, and in the last with forwards they end. What
    waits runs in ticks that another stage makes long anyway, in ticks in which every stage has
    some, and after the last backward. With P stages and M >= 2 P microbatches the step takes
    `M (f + b + w) + (P - 1) (f + b - w)` if a forward `f`, a backward for inputs `b` and one for
    weights `w` cost the same: as long as ZB-H1 of the paper.

    >>> print(zero_bubble_schedule(stages=2, stage_chunks=1, microbatches=4))
    tick     0  1  2     3     4     5  6  7  8  9
    stage 0  F0 F1 F2    F3+B0 B1+W0 B2 B3 W1 W2 W3
    stage 1  .  F0 F1+B0 F2+B1 F3+B2 B3 W0 W1 W2 W3
    """
    return _cached_zero_bubble(stages, stage_chunks, microbatches)


@lru_cache(maxsize=64)
def _cached_zero_bubble(stages: int, stage_chunks: int, microbatches: int) -> Schedule:
    schedule = interleaved_schedule(stages, stage_chunks, microbatches)
    deferred: list[deque[Task]] = [deque() for _ in range(stages)]
    rows = [_with_weights(row, deferred) for row in schedule.ticks]
    while any(deferred):
        rows.append(tuple((weights.popleft(),) if weights else () for weights in deferred))
    return replace(schedule, ticks=tuple(rows))


def _with_weights(
    row: tuple[FusedTask, ...], deferred: Sequence[deque[Task]]
) -> tuple[FusedTask, ...]:
    """A tick with weight gradients that make it no longer, or that every stage has.

    Args:
        deferred: by stage, tasks of weight gradients that have not run; the tick changes them.
    """
    every_stage_has_weights = all(len(tasks) > 1 for tasks in row) and all(deferred)
    length = max(map(len, row)) + every_stage_has_weights
    fused = []
    for tasks, weights in zip(row, deferred, strict=True):
        first = (weights.popleft(),) if weights and len(tasks) < length else ()
        weights.extend(task._replace(kind=W) for task in tasks if task.kind is B)
        fused.append((*tasks, *first))
    return tuple(fused)


def _make_lockstep(
    stages: int, stage_chunks: int, microbatches: int, backward_start: int
) -> Schedule:
    """Run forwards down the stages in the order of `_forward_slots`, backwards up in reverse."""
    slots = _forward_slots(stages, stage_chunks, microbatches)
    length = backward_start + max(slot for _, _, slot in slots) + stages
    table: list[list[list[Task]]] = [[[] for _ in range(stages)] for _ in range(length)]
    for microbatch, loop, slot in slots:
        for stage in range(stages):
            task = Task(F, BACKBONE, microbatch, loop * stages + stage)
            table[slot + stage][stage].append(task)
    for microbatch, loop, slot in slots:
        for stage in range(stages):
            tick = backward_start + slot + stages - 1 - stage
            task = Task(B, BACKBONE, microbatch, (stage_chunks - 1 - loop) * stages + stage)
            table[tick][stage].append(task)
    ticks = [[tuple(fused) for fused in row] for row in table]
    return Schedule.of_backbone(stages, stage_chunks, microbatches, ticks)


def _forward_slots(stages: int, stage_chunks: int, microbatches: int) -> list[tuple[int, int, int]]:
    """`(microbatch, chunk, slot)`: stage s runs a forward in tick slot + s."""
    slots, start = [], 0
    for group, width in _group_microbatches(stages, microbatches):
        for chunk in range(stage_chunks):
            slots += [(m, chunk, start + chunk * width + i) for i, m in enumerate(group)]
        start += stage_chunks * width
    return slots


def _group_microbatches(stages: int, microbatches: int) -> list[tuple[range, int]]:
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


def _check_sizes(stages: int, stage_chunks: int, microbatches: int) -> None:
    sizes = {"stages": stages, "stage_chunks": stage_chunks, "microbatches": microbatches}
    for name, size in sizes.items():
        if size < 1:
            raise ScheduleError(f"{name}: {size} is refused; valid: 1 or more")
