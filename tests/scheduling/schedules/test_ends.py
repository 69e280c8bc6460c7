"""Encoder work beside the gather of the parameters and the scatter of the gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.check import check_schedule
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import ModuleStages
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.simulation import SimulationOptions
from tests.scheduling.schedules.test_bubbles import cases

APART = SimulationOptions(co_issue=False)
FILL = ("pipeline", "tensor")


def times_of(costs: TaskCosts) -> StepTimes:
    """Tasks without collectives that take what they cost."""

    def alone(seconds: float) -> TaskTime:
        return TaskTime((TaskSegment(seconds),))

    pieces = {}
    for name, own in costs.sources.items():
        for piece, (forward, backward) in enumerate(zip(own.forward, own.backward, strict=True)):
            pieces[F, name, piece] = alone(forward)
            pieces[B, name, piece] = alone(backward)
    ends = {"gather": costs.gather, "scatter": costs.scatter}
    decoder = alone(costs.forward), alone(costs.backward)
    return StepTimes(*decoder, pieces, alone(costs.shared), **ends)  # type: ignore[arg-type]


def makespan(schedule: Schedule, costs: TaskCosts) -> float:
    """Simulated seconds."""
    return simulate_step(schedule, times_of(costs), APART).makespan


@settings(max_examples=40)
@given(cases(), st.sampled_from(["bubbles", "prologue"]))
def test_without_ends_the_placement_is_as_if_they_were_not_used(case, placement) -> None:
    decoder, encoders, feeds, costs = case
    used = place_modules(decoder, encoders, costs, placement, feeds=feeds)
    assert used == place_modules(decoder, encoders, costs, placement, fill=FILL, feeds=feeds)


def one(
    stages: int, microbatches: int, forward: float, backward: float, **costs: Any
) -> tuple[Schedule, ModuleStages, TaskCosts]:
    """1F1B and a trained encoder in one piece."""
    encoder = {"vision": ChunkCosts((forward,), (backward,))}
    own = TaskCosts(1.0, 2.0, 0.2, encoder, **costs)
    return interleaved_schedule(stages, 1, microbatches), ModuleStages("vision"), own


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_work_that_fits_the_ends_is_hidden(stages: int, rounds: int) -> None:
    ends = {"gather": rounds * 0.3, "scatter": rounds * 0.7}
    decoder, cut, costs = one(stages, rounds * stages, 0.3, 0.7, **ends)
    schedule = place_modules(decoder, [cut], costs, max_waiting=decoder.microbatches)
    check_schedule(schedule)
    alone = makespan(decoder, replace(costs, sources={}))
    assert makespan(schedule, costs) == pytest.approx(alone)


def test_the_whole_prologue_is_beside_the_gather() -> None:
    """One stage: the second forward enters later, without a stage sync before the decoder."""
    decoder, cut, costs = one(1, 2, 0.3, 0.7, gather=0.6, scatter=1.4)
    schedule = place_modules(decoder, [cut], costs, max_waiting=2)
    alone = makespan(decoder, replace(costs, sources={}))
    assert makespan(schedule, costs) == pytest.approx(alone)


@pytest.mark.parametrize("rounds", [2, 4])
def test_using_the_ends_makes_a_step_shorter(rounds: int) -> None:
    decoder, cut, costs = one(2, 2 * rounds, 1.3, 2.7, gather=1.3 * rounds, scatter=2.7 * rounds)
    used, unused = (
        makespan(place_modules(decoder, [cut], costs, fill=fill), costs)
        for fill in ((*FILL, "data"), FILL)
    )
    assert used < unused


@given(cases(), st.sampled_from([0.0, 0.4, 3.0]), st.sampled_from([0.0, 0.7, 5.0]))
def test_using_the_ends_never_makes_a_step_longer(case, gather, scatter) -> None:
    decoder, encoders, feeds, costs = case
    costs = replace(costs, gather=gather, scatter=scatter)
    used, unused = (
        makespan(place_modules(decoder, encoders, costs, fill=fill, feeds=feeds), costs)
        for fill in ((*FILL, "data"), FILL)
    )
    assert used <= unused * (1 + 1e-9)


def test_ends_that_are_longer_than_all_work_take_no_longer_to_place() -> None:
    """Slow links leave room for millions of pieces; only those that there are count."""
    schedules = []
    for seconds in (1e2, 1e8):
        decoder, cut, costs = one(2, 4, 0.3, 0.7, gather=seconds, scatter=seconds)
        schedules.append(place_modules(decoder, [cut], costs))
    assert schedules[0] == schedules[1]
