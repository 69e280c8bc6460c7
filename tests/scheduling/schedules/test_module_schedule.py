"""Schedules of modules on groups of devices: made ones keep every rule, broken ones are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.schedules.modules.check import check_module_schedule
from scheduling.schedules.modules.make import make_module_schedule
from scheduling.schedules.modules.schedule import ModuleSchedule, PlacedModule, ProgramTasks
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import Task

DECODER, IMAGE = PlacedModule("decoder", 0), PlacedModule("image", 1, ("decoder",))


@st.composite
def modules(draw: st.DrawFn, waits: bool) -> list[PlacedModule]:
    """Graphs of one to six modules on one to four groups."""
    made = [PlacedModule("m0", 0)]
    groups = draw(st.integers(1, 4))
    for number in range(1, draw(st.integers(1, 6))):
        known = {module.name: module for module in made}
        targets = draw(st.lists(st.sampled_from([*known]), min_size=not waits, unique=True))
        trains = draw(st.booleans()) and all(known[n].has_backward for n in targets)
        group = draw(st.integers(0, groups - 1))
        made.append(PlacedModule(f"m{number}", group, tuple(targets), trains))
    return made


@given(st.booleans().flatmap(lambda w: st.tuples(modules(w), st.just(w))), st.integers(1, 5))
def test_made_schedules_keep_every_rule(
    drawn: tuple[list[PlacedModule], bool], microbatches: int
) -> None:
    placed, waits = drawn
    schedule = make_module_schedule(placed, microbatches, waits=waits)
    check_module_schedule(schedule)
    assert all(
        most <= limit for most, limit in zip(schedule.in_flight, schedule.limits, strict=True)
    )


@given(modules(waits=False), st.integers(1, 5), st.integers(1, 3))
def test_any_limit_is_kept(placed: list[PlacedModule], microbatches: int, limit: int) -> None:
    groups = 1 + max(module.group for module in placed)
    schedule = make_module_schedule(placed, microbatches, limits=[limit] * groups)
    assert max(schedule.in_flight) <= limit


def test_a_chain_of_modules_keeps_every_group_busy() -> None:
    """Two ticks a microbatch, as in 1F1B, after as many ticks as the chain is long."""
    chain = [DECODER, IMAGE, PlacedModule("pixels", 2, ("image",))]
    assert len(make_module_schedule(chain, 4).ticks) == 2 * 4 + 2


def test_modules_of_a_group_make_a_pass_together() -> None:
    """The decoder reads the outputs of both, and is never kept waiting after the first."""
    encoders = [PlacedModule(name, 1, ("decoder",)) for name in ("fine", "coarse")]
    schedule = make_module_schedule([DECODER, *encoders], 4)
    passes = [f"{task.kind.name}{task.microbatch}" for _, group, task in schedule if group == 1]
    assert passes[::2] == passes[1::2] == ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"]


def test_frozen_modules_have_no_backward() -> None:
    schedule = make_module_schedule([DECODER, replace(IMAGE, has_backward=False)], 3)
    assert not any(task.kind is B and task.module == "image" for _, _, task in schedule)
    assert schedule.in_flight == (1, 2)


def swapped(schedule: ModuleSchedule, *places: tuple[int, int]) -> ModuleSchedule:
    """The schedule with the tasks of two places swapped."""
    rows = [list(row) for row in schedule.ticks]
    (a, b), (c, d) = places
    rows[a][b], rows[c][d] = rows[c][d], rows[a][b]
    return replace(schedule, ticks=tuple(map(tuple, rows)))


def changed(schedule: ModuleSchedule, tick: int, group: int, tasks: ProgramTasks) -> ModuleSchedule:
    rows = [list(row) for row in schedule.ticks]
    rows[tick][group] = tasks
    return replace(schedule, ticks=tuple(map(tuple, rows)))


PIPELINE = make_module_schedule([DECODER, IMAGE], 3)
TOWERS = make_module_schedule([DECODER, replace(IMAGE, targets=())], 2, waits=True)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (swapped(TOWERS, (0, 1), (1, 1)), "image F.0. is after that of microbatch 1"),
        (swapped(PIPELINE, (1, 0), (0, 0)), r"decoder F\(0\) needs image F\(0\) \(tick 0\)"),
        (swapped(TOWERS, (2, 0), (3, 0)), r"decoder B\(0\) needs decoder L\(0\) \(tick 3\)"),
        (changed(PIPELINE, 2, 1, ()), r"image B\(0\) appears 0 times; valid: once"),
        (changed(PIPELINE, 3, 0, PIPELINE.ticks[3][1]), r"image F\(2\) is of group 1"),
        (changed(PIPELINE, 3, 0, (Task(F, "audio", 0),)), r"audio F\(0\) is no task of the step"),
        (changed(PIPELINE, 1, 0, (Task(F, "decoder", 0),)), "valid: tasks as they run as one"),
        (replace(PIPELINE, limits=(1, 1)), "group 1: 2 microbatches are in flight; valid: 1"),
        (replace(TOWERS, limits=(2, 1)), "group 1: a limit of 1 is refused, as losses wait"),
        (replace(PIPELINE, ticks=(((),),)), "tick 0 has 1 tasks; valid: 2, one per group"),
    ],
)
def test_broken_schedules_are_refused(schedule: ModuleSchedule, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check_module_schedule(schedule)


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ([], "no modules; valid: one or more"),
        ([DECODER, DECODER], "module 'decoder': the name is taken"),
        ([IMAGE, DECODER], "target 'decoder' is no module before it; valid: none"),
        ([replace(DECODER, has_backward=False), IMAGE], "image has a backward, but decoder has"),
        ([DECODER, replace(IMAGE, targets=())], "image has no target and no losses wait for it"),
        ([replace(DECODER, group=-1)], "decoder: there is no group -1; valid"),
    ],
)
def test_impossible_modules_are_refused(placed: list[PlacedModule], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        make_module_schedule(placed, 2)


def test_it_is_printed_with_a_row_per_group() -> None:
    audio = PlacedModule("audio", 1, ("decoder",))
    assert str(make_module_schedule([DECODER, IMAGE, audio], 1)).splitlines() == [
        "tick        0     1     2     3     4",
        "decoder     .     .     F0+B0 .     .",
        "image+audio imaF0 audF0 .     imaB0 audB0",
    ]
