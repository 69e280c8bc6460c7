"""Systems that are planned once: room for the largest load, and plans that do not move."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.systems.chain import BaselineStep
from benchmarks.systems.loads import workload_of_load
from benchmarks.systems.planned import PlannedOptimus, PlannedSystem, PlanningCase, list_searches
from scheduling.schedules.schedule import ScheduleError
from tests.scheduling import workloads as small

NAMES = ("megatron", "apart", "balanced", "optimus")
LOADS = (16, 64, 256)


@cache
def question(memory: float = 1e9) -> PlanningCase:
    workload = small.workload(16, encoders=[("vision", 32, 4)])
    usual, largest = (workload_of_load(workload, {"vision": load}) for load in LOADS[1:])
    return PlanningCase(small.space(4, workload, memory=memory), usual, largest, small.hardware())


@cache
def system(name: str) -> PlannedSystem:
    return list_searches(question())[name]()


def under(own: PlannedSystem, load: int) -> PlannedSystem:
    return own.with_workload(workload_of_load(question().usual, {"vision": load}))


@pytest.mark.parametrize("name", NAMES)
def test_more_media_take_more_time_and_memory_under_one_plan(name: str) -> None:
    seconds = [under(system(name), load).seconds for load in LOADS]
    memory = [under(system(name), load).memory for load in LOADS]
    assert seconds == sorted(seconds)
    assert memory == sorted(memory)
    assert seconds[0] < seconds[-1]


@pytest.mark.parametrize("name", NAMES)
def test_the_planned_load_takes_the_planned_time(name: str) -> None:
    made = system(name)
    usual = made.with_workload(question().usual)
    planned_seconds = made.planned.seconds if isinstance(made, PlannedOptimus) else made.seconds
    assert usual.seconds == pytest.approx(planned_seconds)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_has_room_for_the_largest_load(name: str) -> None:
    whole = under(system(name), LOADS[-1]).memory
    # A little less memory than this plan needs for the largest load, and more than for the usual.
    tight = question(whole - 1)
    other = list_searches(tight)[name]()
    assert under(other, LOADS[-1]).memory <= tight.space.memory
    assert other != system(name)


@pytest.mark.parametrize("name", ["megatron", "balanced"])
def test_the_leanest_plan_is_told_if_none_has_room(name: str) -> None:
    tight = question(1.0)
    assert under(list_searches(tight)[name](), LOADS[-1]).memory > tight.space.memory


def test_devices_apart_without_room_are_refused() -> None:
    with pytest.raises(ScheduleError, match="no split leaves devices and room for both"):
        list_searches(question(1.0))["apart"]()


def test_every_system_is_the_fastest_of_its_ways() -> None:
    """Megatron-LM's way is one of many cuts; the even one is no slower under the planned load."""
    first, even = system("megatron"), system("balanced")
    assert isinstance(first, BaselineStep)
    assert even.seconds <= first.seconds * (1 + 1e-9)


def test_work_that_outgrows_its_bubbles_keeps_the_decoder_waiting() -> None:
    made = system("optimus")
    assert isinstance(made, PlannedOptimus)
    for own in made.planned.packings:
        inside = own if any(own.inside) else own.move_inside(0)
        assert any(inside.inside)
        heavy = replace(inside, work=replace(inside.work, compute=10.0, seconds=10.0))
        assert heavy.delay > heavy.longest_exposed
