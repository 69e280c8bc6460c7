"""Schedules of the decoder by name, checked before anything reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from scheduling.schedules.check import check
from scheduling.schedules.schedule import SCHEDULES, Schedule, ScheduleError


def decoder_schedule(kind: str, stages: int, chunks: int, microbatches: int) -> Schedule:
    """Make the decoder's tasks by the function that `SCHEDULES` has for `kind`.

    Raises:
        ScheduleError: no function has this name, a size is refused, or the function returns a
            schedule of other sizes, with encoders, or one that breaks a rule of `check`.
    """
    if kind not in SCHEDULES:
        valid = ", ".join(SCHEDULES)
        raise ScheduleError(f"schedule.kind: {kind!r} is unknown; valid: {valid}")
    try:
        return _checked(SCHEDULES[kind], stages, chunks, microbatches)
    except ScheduleError as error:
        raise ScheduleError(f"schedule.kind: {kind!r} makes no valid schedule: {error}") from error


@lru_cache(maxsize=64)
def _checked(
    make: Callable[[int, int, int], Schedule], stages: int, chunks: int, microbatches: int
) -> Schedule:
    schedule = make(stages, chunks, microbatches)
    wanted = {"stages": stages, "chunks": chunks, "microbatches": microbatches}
    for name, size in wanted.items():
        if getattr(schedule, name) != size:
            raise ScheduleError(f"{name}: {getattr(schedule, name)} is refused; valid: {size}")
    if schedule.encoders:
        names = ", ".join(cut.name for cut in schedule.encoders)
        raise ScheduleError(f"encoders: {names} are refused; valid: tasks of the decoder alone")
    check(schedule)
    return schedule
