"""Schedules that a function makes wrongly are refused by a rule, before encoders are placed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.bubbles import choose_chunks, choose_prefetch, place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.make import SCHEDULES, backbone_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import ModuleStages, Task

VISION = ModuleStages("vision", chunks=2)
PIECES = ChunkCosts((0.5, 0.5), (1.0, 1.0))
COSTS = TaskCosts(1.0, 2.0, sources={"vision": PIECES})


def with_tasks(schedule: Schedule, change: Callable[[Task], Task | None]) -> Schedule:
    ticks = tuple(
        tuple(tuple(made for task in own if (made := change(task))) for own in row)
        for row in schedule.ticks
    )
    return replace(schedule, ticks=ticks)


def shifted(by: int) -> Callable[[Schedule], Schedule]:
    return lambda schedule: with_tasks(
        schedule, lambda task: task._replace(microbatch=task.microbatch + by)
    )


#: What is wrong with a schedule of 2 stages, 1 chunk and 4 microbatches, and what the error names.
WRONG: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "microbatches from one": (shifted(1), "microbatch"),
    "far microbatches": (shifted(40), "microbatch"),
    "negative microbatches": (shifted(-9), "microbatch"),
    "a chunk too many": (
        lambda s: with_tasks(s, lambda t: t._replace(chunk=t.chunk + 2)),
        "unknown chunk",
    ),
    "a wrong stage": (lambda s: with_tasks(s, lambda t: t._replace(chunk=1)), "wrong stage"),
    "a missing microbatch": (
        lambda s: with_tasks(s, lambda t: None if t.microbatch == 2 else t),
        "missing",
    ),
    "a microbatch twice": (
        lambda s: with_tasks(s, lambda t: t._replace(microbatch=t.microbatch // 2 * 2)),
        "already in",
    ),
    "a row without a stage": (lambda s: replace(s, ticks=(s.ticks[0][:1], *s.ticks[1:])), "stage"),
    "backwards first": (lambda s: replace(s, ticks=s.ticks[::-1]), "needs"),
    "no ticks": (lambda s: replace(s, ticks=()), "missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_schedule_is_refused_before_it_is_filled(name: str) -> None:
    change, word = WRONG[name]
    schedule = change(interleaved_schedule(2, 1, 4))
    fillers: tuple[Callable[[], Any], ...] = (
        lambda: place_modules(schedule, [VISION], COSTS),
        lambda: place_modules(schedule, [VISION], COSTS, "first_stage"),
        lambda: choose_prefetch(schedule, [replace(VISION, first_backward=2)], COSTS),
        lambda: choose_chunks(schedule, {VISION: PIECES}, COSTS),
    )
    for fill in fillers:
        with pytest.raises(ScheduleError, match=word):
            fill()


@pytest.mark.parametrize("name", WRONG)
def test_the_function_of_a_wrong_schedule_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, word = WRONG[name]
    monkeypatch.setitem(SCHEDULES, "mine", lambda p, v, m: change(interleaved_schedule(p, v, m)))
    with pytest.raises(ScheduleError, match=f"'mine' makes no valid schedule: (?s:.*){word}"):
        backbone_schedule("mine", 2, 1, 4)


def test_other_sizes_than_asked_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULES, "mine", lambda p, v, m: interleaved_schedule(p, m, v))
    with pytest.raises(ScheduleError, match="chunks of a stage: 4 is refused; valid: 1"):
        backbone_schedule("mine", 2, 1, 4)


def test_a_schedule_with_encoders_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def filled(stages: int, chunks: int, microbatches: int) -> Schedule:
        return place_modules(interleaved_schedule(stages, chunks, microbatches), [VISION], COSTS)

    monkeypatch.setitem(SCHEDULES, "mine", filled)
    with pytest.raises(ScheduleError, match="modules: vision are refused"):
        backbone_schedule("mine", 2, 1, 4)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'dualpipe' is unknown; valid: 1f1b, gpipe"):
        backbone_schedule("dualpipe", 2, 1, 4)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_function_takes_sizes_in_one_order(name: str) -> None:
    schedule = SCHEDULES[name](2, 3, 4)
    assert (schedule.stages, schedule.stage_chunks, schedule.microbatches) == (2, 3, 4)


def test_a_schedule_says_the_name_of_its_backbone() -> None:
    plain = place_modules(interleaved_schedule(2, 1, 4), [VISION], COSTS)
    named = plain.with_name("language")
    assert named.backbone.name == "language"
    assert {task.module for _, _, task in named} == {"language", "vision"}
    assert [feed.target for feed in named.feeds] == ["language"]
    assert named.with_name(plain.backbone.name) == plain
    backbone = backbone_schedule("1f1b", 2, 1, 4, "language")
    assert place_modules(backbone, [VISION], COSTS) == named
