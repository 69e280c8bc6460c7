"""Kinds of tasks that the project does not have: an entry, and all but the executor knows them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.costs.workload import Workload
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.check import check_schedule, peak_live
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.make import SCHEDULES
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import KINDS, B, F, W, parse_kind
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages, Task
from scheduling.search.scheduler import make_schedule, seconds_on
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.simulation import SimulationOptions
from scheduling.simulate.timeline import predict_timeline
from scheduling.simulate.trace import chrome_trace, draw_timelines
from sharding.plan import ParallelPlan
from tests.scheduling import placing
from tests.scheduling import workloads as small

SHADES = ("#CC79A7", "#7A3B62")
#: Another kind of gradients of weights, which the project does not have.
X = replace(W, name="X", colours=(SHADES, (SHADES[0],)))
VISION = ModuleStages("vision")


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "X", X)
    monkeypatch.setitem(SCHEDULES, "weights apart", weights_apart)


def weights_apart(stages: int, chunks: int, microbatches: int) -> Schedule:
    """1F1B whose weight gradients are made one tick after those of the inputs."""
    return split(interleaved_schedule(stages, chunks, microbatches))


def split(schedule: Schedule, later: int = 1) -> Schedule:
    """`schedule` with weight gradients `later` ticks after every backward."""
    kinds = {BACKBONE: W, "vision": X}
    weights = [
        [tuple(t._replace(kind=kinds[t.module]) for t in own if t.kind is B) for own in row]
        for row in schedule.ticks
    ]
    none: list[tuple[Task, ...]] = [()] * schedule.stages
    ticks = tuple(
        tuple(
            tuple(sorted((*own, *more), key=lambda task: placing.group(schedule, task)))
            for own, more in zip(row, late, strict=True)
        )
        for row, late in zip_longest(schedule.ticks, [none] * later + weights, fillvalue=none)
    )
    return replace(schedule, ticks=ticks)


def with_encoder() -> Schedule:
    """Two stages; the encoder's backwards and their weight gradients come after the decoder's."""
    plain = interleaved_schedule(2, 1, 2)
    vision = [[((Task(kind, "vision", m),), ()) for m in (0, 1)] for kind in (F, B)]
    ticks = (*vision[0], *plain.ticks, *vision[1])
    modules = (plain.backbone, VISION)
    return split(replace(plain, modules=modules, feeds=(Feed("vision"),), ticks=ticks))


def seconds(compute: float) -> TaskTime:
    return TaskTime((TaskSegment(compute),))


def times(**changes: Any) -> StepTimes:
    pieces = {(kind, "vision", 0): seconds(own) for kind, own in ((F, 1.0), (B, 2.0), (X, 4.0))}
    more = {"weights": seconds(3.0)}
    return replace(
        StepTimes(seconds(1.0), seconds(2.0), pieces, seconds(0.5), more=more), **changes
    )


def refusal(schedule: Schedule) -> str:
    with pytest.raises(ScheduleError) as refused:
        check_schedule(schedule)
    return str(refused.value)


def without(schedule: Schedule, lost: Task, stage: int) -> Schedule:
    return replace(
        schedule,
        ticks=tuple(
            tuple(
                tuple(task for task in own if (task, s) != (lost, stage))
                for s, own in enumerate(row)
            )
            for row in schedule.ticks
        ),
    )


# ---- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [1, 2])
def test_complete_schedules_with_another_kind_pass(chunks: int) -> None:
    schedule = weights_apart(2, chunks, 4)
    check_schedule(schedule)
    check_schedule(with_encoder())
    assert schedule.kinds == (F, B, W)
    assert with_encoder().kinds == (F, B, W, X)


def test_schedules_without_the_kind_still_pass() -> None:
    check_schedule(interleaved_schedule(2, 2, 4))


def test_what_the_kind_waits_for_is_checked() -> None:
    assert refusal(split(interleaved_schedule(1, 1, 1), later=0)) == (
        "tick 1, stage 0: decoder W(0, 0) needs decoder B(0, 0) (tick 1, stage 0); "
        "valid: tick 2 or later"
    )


def test_all_tasks_of_the_kind_are_there_or_none() -> None:
    lost = without(weights_apart(2, 1, 3), Task(W, BACKBONE, 1, 1), stage=1)
    assert refusal(lost) == "decoder W(1, 1) is missing; valid: once"
    lost = without(with_encoder(), Task(X, "vision", 1), stage=0)
    assert refusal(lost) == "vision X(1, 0) is missing; valid: once"


def test_a_kind_that_is_not_registered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = with_encoder()
    monkeypatch.delitem(KINDS, "X")
    text = "tick 8, stage 0: vision X(0, 0) has an unknown kind; valid: F, B, W"
    assert text in refusal(schedule)
    with pytest.raises(ScheduleError, match="'X' is unknown; valid: F, B, W"):
        Schedule.from_json(schedule.to_json())


def test_activations_live_until_the_last_task_that_reads_them() -> None:
    plain = interleaved_schedule(3, 1, 9)
    # In a full pipeline every stage starts one forward in the tick in which weights are left.
    assert peak_live(split(plain)) == tuple(n + 1 for n in peak_live(plain))


def test_stages_meet_only_where_a_kind_passes_something_on() -> None:
    schedule = weights_apart(2, 1, 2)
    assert schedule.stage_syncs.tolist() == [True] * (len(schedule.ticks) - 1) + [False]
    passing = replace(W, passes=True)
    ticks = [
        tuple(tuple(t._replace(kind=passing) if t.kind is W else t for t in own) for own in row)
        for row in schedule.ticks
    ]
    assert replace(schedule, ticks=tuple(ticks)).stage_syncs.all()


def test_tasks_are_printed_and_read_again() -> None:
    assert str(weights_apart(1, 1, 2)) == ("tick     0  1     2     3\nstage 0  F0 F1+B0 B1+W0 W1")
    schedule = with_encoder()
    assert "visx1" in str(schedule)
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_a_kind_is_one_value_wherever_it_is_copied() -> None:
    for kind in KINDS.values():
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind
        assert parse_kind(kind.name) is kind


def test_kinds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="'W' has no colour; valid: one or more"):
        replace(W, colours=((),))


# ---- costs and times -----------------------------------------------------------------------------


def test_costs_are_found_by_name() -> None:
    chunks = {"vision": ChunkCosts((1.0,), (2.0,), {"weights": (4.0,)})}
    costs = TaskCosts(1.0, 2.0, 0.5, chunks, more={"weights": 3.0})
    assert times().costs == costs
    assert costs.cost_of(Task(W, BACKBONE, 0)) == times().cost_of(Task(W, BACKBONE, 0)) == 3.0
    assert costs.cost_of(Task(X, "vision", 0)) == times().cost_of(Task(X, "vision", 0)) == 4.0
    assert costs.divided_by(2.0).cost_of(Task(W, BACKBONE, 0)) == 1.5
    assert costs.divided_by(2.0).cost_of(Task(X, "vision", 0)) == 2.0


def test_a_cost_that_is_not_given_is_named() -> None:
    expected = "kind W have no cost 'weights'; costs: forward, backward"
    with pytest.raises(ScheduleError, match=expected):
        TaskCosts(1.0, 2.0).cost_of(Task(W, BACKBONE, 0))
    with pytest.raises(ScheduleError, match=expected):
        simulate_step(weights_apart(2, 1, 2), times(more={}))
    with pytest.raises(ScheduleError, match="kind X have no cost 'weights'; costs: forward"):
        TaskCosts(1.0, 2.0, sources={"vision": ChunkCosts((1.0,), (2.0,))}).cost_of(
            Task(X, "vision", 0)
        )


def test_encoders_are_placed_around_the_kind() -> None:
    def costs(workload: Workload, strategy: Strategy) -> TaskCosts:
        own = seconds_on(small.hardware())(workload, strategy)
        return replace(own, more={"weights": own.backward / 2})

    plans = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}
    strategy = Strategy(plans, 4, chunks={"vision": 2}, kind="weights apart")
    schedule = make_schedule(small.workload(), strategy, costs)
    check_schedule(schedule)
    assert {(t, s) for _, s, t in schedule if t.kind is W} == {
        (Task(W, BACKBONE, m, s), s) for m in range(4) for s in range(2)
    }
    with pytest.raises(ScheduleError, match="kind W have no cost"):
        make_schedule(small.workload(), strategy, seconds_on(small.hardware()))


# ---- simulations and pictures --------------------------------------------------------------------


def test_steps_are_simulated_with_the_kind() -> None:
    # F0 | F0, head | B0 | B0 beside W0 | W0: the stages do not wait for weight gradients.
    schedule = weights_apart(2, 1, 1)
    assert simulate_step(schedule, times()).makespan == 1 + 1 + 0.5 + 2 + 3 + 3
    assert predict_timeline(schedule, times().costs).makespan == 1 + 1 + 0.5 + 2 + 3 + 3


def test_pictures_and_traces_show_the_kind() -> None:
    lines = {
        "predicted": simulate_step(
            with_encoder(), times(), SimulationOptions(co_issue=False)
        ).timeline
    }
    figure = draw_timelines(lines)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"decoder weight gradients", "vision weight gradients"} <= {*names}
    boxes = {str(collection.get_label()) for collection in figure.axes[0].collections}
    assert {"decoder W", "vision X"} <= boxes
    kinds = [event["args"].get("kind") for event in chrome_trace(lines)["traceEvents"]]
    assert kinds.count("W") == 4
    assert kinds.count("X") == 2


# ---- the executor --------------------------------------------------------------------------------


def test_the_executor_names_kinds_that_it_has_no_function_for() -> None:
    with pytest.raises(
        ScheduleError, match=r"no function for .* kind X of 'vision', .* valid: F, B$"
    ):
        lower_schedule(with_encoder(), "full")
