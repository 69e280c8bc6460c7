"""Kinds of tasks that the project does not have: an entry, and all but the executor knows them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from scheduling.costs.strategy import Strategy
from scheduling.costs.times import Segment, StepTimes, TaskTime
from scheduling.costs.workload import Workload
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.check import check, peak_live
from scheduling.schedules.costs import EncoderCosts, TaskCosts
from scheduling.schedules.schedule import SCHEDULES, Schedule, ScheduleError, interleaved
from scheduling.schedules.task_kinds import EB, EF, KINDS, B, F, W, parse_kind
from scheduling.schedules.tasks import EncoderPieces, Task
from scheduling.search.scheduler import make_schedule, seconds_on
from scheduling.simulate.lockstep import simulate
from scheduling.simulate.orders import Ordered, OrderTimes, simulate_order
from scheduling.simulate.simulation import Options
from scheduling.simulate.timeline import timeline
from scheduling.simulate.trace import chrome_trace, draw
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

SHADES = ("#CC79A7", "#7A3B62")
#: Gradients of an encoder's weights, apart from those of inputs.
EW = replace(
    W, name="EW", colours=((SHADES[0],),), encoder=True, letter="w", same_chunk=EB, reads=EF
)
VISION = EncoderPieces("vision")


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "EW", EW)
    monkeypatch.setitem(SCHEDULES, "weights apart", weights_apart)


def weights_apart(stages: int, chunks: int, microbatches: int) -> Schedule:
    """1F1B whose weight gradients are made one tick after those of the inputs."""
    return split(interleaved(stages, chunks, microbatches))


def split(schedule: Schedule, later: int = 1) -> Schedule:
    """`schedule` with weight gradients `later` ticks after every backward."""
    kinds = {B: W, EB: EW}
    weights = [
        [tuple(replace(t, kind=kinds[t.kind]) for t in own if t.kind in kinds) for own in row]
        for row in schedule.ticks
    ]
    none: list[tuple[Task, ...]] = [()] * schedule.stages
    order = [*KINDS.values()]
    ticks = tuple(
        tuple(
            tuple(sorted((*own, *more), key=lambda task: order.index(task.kind)))
            for own, more in zip(row, late, strict=True)
        )
        for row, late in zip_longest(schedule.ticks, [none] * later + weights, fillvalue=none)
    )
    return replace(schedule, ticks=ticks)


def with_encoder() -> Schedule:
    """Two stages; the encoder's backwards and their weight gradients come after the decoder's."""
    plain = interleaved(2, 1, 2)
    vision = [[((Task(kind, m, 0, "vision"),), ()) for m in (0, 1)] for kind in (EF, EB)]
    ticks = (*vision[0], *plain.ticks, *vision[1])
    return split(replace(plain, encoders=(VISION,), ticks=ticks))


def seconds(compute: float) -> TaskTime:
    return TaskTime((Segment(compute),))


def times(**changes: Any) -> StepTimes:
    pieces = {(kind, "vision", 0): seconds(own) for kind, own in ((EF, 1.0), (EB, 2.0), (EW, 4.0))}
    more = {"weights": seconds(3.0)}
    return replace(
        StepTimes(seconds(1.0), seconds(2.0), pieces, seconds(0.5), more=more), **changes
    )


def refusal(schedule: Schedule) -> str:
    with pytest.raises(ScheduleError) as refused:
        check(schedule)
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
    check(schedule)
    check(with_encoder())
    assert schedule.kinds == (F, B, W)
    assert with_encoder().kinds == (F, B, W, EF, EB, EW)


def test_schedules_without_the_kind_still_pass() -> None:
    check(interleaved(2, 2, 4))


def test_what_the_kind_waits_for_is_checked() -> None:
    assert refusal(split(interleaved(1, 1, 1), later=0)) == (
        "tick 1, stage 0: W(0, 0) of stage 0 needs B(0, 0) of stage 0 (tick 1, stage 0); "
        "valid: tick 2 or later"
    )


def test_all_tasks_of_the_kind_are_there_or_none() -> None:
    lost = without(weights_apart(2, 1, 3), Task(W, 1), stage=1)
    assert refusal(lost) == "W(1, 0) of stage 1 is missing; valid: once"
    lost = without(with_encoder(), Task(EW, 1, 0, "vision"), stage=0)
    assert refusal(lost) == "vision EW(1, 0) is missing; valid: once"


def test_a_kind_has_tasks_of_its_module_alone() -> None:
    schedule = interleaved(1, 1, 1)
    stray = replace(schedule, ticks=(*schedule.ticks, ((Task(EW, 0),),)))
    expected = "valid: decoder F and B and W, EF and EB and EW of no encoder, for there is none"
    assert expected in refusal(stray)


def test_a_kind_that_is_not_registered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = with_encoder()
    monkeypatch.delitem(KINDS, "EW")
    text = "tick 8, stage 0: vision EW(0, 0) has an unknown kind; valid: F, B, W, EF, EB"
    assert text in refusal(schedule)
    with pytest.raises(ScheduleError, match="'EW' is unknown; valid: F, B, W, EF, EB"):
        Schedule.from_json(schedule.to_json())


def test_activations_live_until_the_last_task_that_reads_them() -> None:
    plain = interleaved(3, 1, 9)
    # In a full pipeline every stage starts one forward in the tick in which weights are left.
    assert peak_live(split(plain)) == tuple(n + 1 for n in peak_live(plain))


def test_stages_meet_only_where_a_kind_passes_something_on() -> None:
    schedule = weights_apart(2, 1, 2)
    assert schedule.stage_syncs.tolist() == [True] * (len(schedule.ticks) - 1) + [False]
    passing = replace(W, passes=True)
    ticks = [
        tuple(tuple(replace(t, kind=passing) if t.kind is W else t for t in own) for own in row)
        for row in schedule.ticks
    ]
    assert replace(schedule, ticks=tuple(ticks)).stage_syncs.all()


def test_tasks_are_printed_and_read_again() -> None:
    assert str(weights_apart(1, 1, 2)) == ("tick     0  1     2     3\nstage 0  F0 F1+B0 B1+W0 W1")
    schedule = with_encoder()
    assert "visw1" in str(schedule)
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_a_kind_is_one_value_wherever_it_is_copied() -> None:
    for kind in KINDS.values():
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind
        assert parse_kind(kind.name) is kind


def test_kinds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="'W' has no colour; valid: one or more"):
        replace(W, colours=((),))
    with pytest.raises(
        ValueError, match="'W': same_chunk EB is a kind of another module; valid: None"
    ):
        replace(W, same_chunk=EB)


# ---- costs and times -----------------------------------------------------------------------------


def test_costs_are_found_by_name() -> None:
    encoders = {"vision": EncoderCosts((1.0,), (2.0,), {"weights": (4.0,)})}
    costs = TaskCosts(1.0, 2.0, 0.5, encoders, more={"weights": 3.0})
    assert times().costs == costs
    assert costs.cost_of(Task(W, 0)) == times().cost_of(Task(W, 0)) == 3.0
    assert (
        costs.cost_of(Task(EW, 0, 0, "vision")) == times().cost_of(Task(EW, 0, 0, "vision")) == 4.0
    )
    assert costs.divided_by(2.0).cost_of(Task(W, 0)) == 1.5
    assert costs.divided_by(2.0).cost_of(Task(EW, 0, 0, "vision")) == 2.0


def test_a_cost_that_is_not_given_is_named() -> None:
    expected = "kind W have no cost 'weights'; costs: forward, backward"
    with pytest.raises(ScheduleError, match=expected):
        TaskCosts(1.0, 2.0).cost_of(Task(W, 0))
    with pytest.raises(ScheduleError, match=expected):
        simulate(weights_apart(2, 1, 2), times(more={}))
    with pytest.raises(ScheduleError, match="kind EW have no cost 'weights'; costs: forward"):
        TaskCosts(1.0, 2.0, encoders={"vision": EncoderCosts((1.0,), (2.0,))}).cost_of(
            Task(EW, 0, 0, "vision")
        )


def test_encoders_are_placed_around_the_kind() -> None:
    def costs(workload: Workload, strategy: Strategy) -> TaskCosts:
        own = seconds_on(small.hardware())(workload, strategy)
        return replace(own, more={"weights": own.backward / 2})

    plans = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}
    strategy = Strategy(plans, 4, pieces={"vision": 2}, kind="weights apart")
    schedule = make_schedule(small.workload(), strategy, costs)
    check(schedule)
    assert {(t, s) for _, s, t in schedule if t.kind is W} == {
        (Task(W, m), s) for m in range(4) for s in range(2)
    }
    with pytest.raises(ScheduleError, match="kind W have no cost"):
        make_schedule(small.workload(), strategy, seconds_on(small.hardware()))


# ---- simulations and pictures --------------------------------------------------------------------


def test_steps_are_simulated_with_the_kind() -> None:
    # F0 | F0, head | B0 | B0 beside W0 | W0: the stages do not wait for weight gradients.
    schedule = weights_apart(2, 1, 1)
    assert simulate(schedule, times()).makespan == 1 + 1 + 0.5 + 2 + 3 + 3
    assert timeline(schedule, times().costs).makespan == 1 + 1 + 0.5 + 2 + 3 + 3


def test_steps_without_ticks_wait_for_what_the_kind_waits_for() -> None:
    orders = (((Task(F, 0),), (Task(B, 0),), (Task(W, 0),)), ((Task(W, 0),),))
    step = Ordered(orders)
    assert [*step.needs(0, Task(W, 0))] == [(0, Task(B, 0))]
    assert [*step.needs(0, Task(B, 0))] == [(1, Task(B, 0))]
    one = Ordered(orders[:1])
    assert simulate_order(one, OrderTimes(lambda task, _: times().time(task))).makespan == 6.0


def test_pictures_and_traces_show_the_kind() -> None:
    lines = {"predicted": simulate(with_encoder(), times(), Options(co_issue=False)).timeline}
    figure = draw(lines)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"decoder weight gradients", "vision weight gradients"} <= {*names}
    boxes = {str(collection.get_label()) for collection in figure.axes[0].collections}
    assert {"decoder W", "vision EW"} <= boxes
    kinds = [event["args"].get("kind") for event in chrome_trace(lines)["traceEvents"]]
    assert kinds.count("W") == 4
    assert kinds.count("EW") == 2


# ---- the executor --------------------------------------------------------------------------------


def test_the_executor_names_kinds_that_it_has_no_function_for() -> None:
    with pytest.raises(
        ScheduleError, match=r"no function for .* kind EW, .* valid: F, B, W, EF, EB$"
    ):
        lower_schedule(with_encoder(), "full")
