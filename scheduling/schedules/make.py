"""Schedules of the backbone by name, checked before anything reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    zero_bubble_schedule,
)
from scheduling.schedules.check import check_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import BACKBONE

#: Makes the backbone's tasks of so many stages, virtual chunks of each stage and microbatches.
SCHEDULES: dict[str, Callable[[int, int, int], Schedule]] = {
    "1f1b": interleaved_schedule,
    "gpipe": gpipe_schedule,
    "zero_bubble": zero_bubble_schedule,
}


def backbone_schedule(
    kind: str, stages: int, stage_chunks: int, microbatches: int, name: str = BACKBONE
) -> Schedule:
    """Make the tasks of a backbone of this name by the function that `SCHEDULES` has for `kind`.

    Raises:
        ScheduleError: no function has this name, a size is refused, or the function returns a
            schedule of other sizes, with other modules, or one that `check_schedule` refuses.
    """
    if kind not in SCHEDULES:
        valid = ", ".join(SCHEDULES)
        raise ScheduleError(f"schedule.kind: {kind!r} is unknown; valid: {valid}")
    try:
        return _make_checked(SCHEDULES[kind], stages, stage_chunks, microbatches, name)
    except ScheduleError as error:
        raise ScheduleError(f"schedule.kind: {kind!r} makes no valid schedule: {error}") from error


@lru_cache(maxsize=64)
def _make_checked(
    make: Callable[[int, int, int], Schedule],
    stages: int,
    stage_chunks: int,
    microbatches: int,
    backbone: str,
) -> Schedule:
    schedule = make(stages, stage_chunks, microbatches)
    sizes = {
        "stages": (schedule.stages, stages),
        "chunks of a stage": (schedule.stage_chunks, stage_chunks),
        "microbatches": (schedule.microbatches, microbatches),
    }
    for name, (size, valid) in sizes.items():
        if size != valid:
            raise ScheduleError(f"{name}: {size} is refused; valid: {valid}")
    if schedule.sources:
        names = ", ".join(module.name for module in schedule.sources)
        raise ScheduleError(f"modules: {names} are refused; valid: the backbone alone")
    check_schedule(schedule)
    return schedule.with_name(backbone)
