"""Steps without ticks: against formulas, by hand, and beside the same step in lockstep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.systems.asynchronous import OrderTimes, run_order, seconds_of_cases, simulate_order
from benchmarks.systems.orders import Orders, StageOrders, exchanged_in_pairs, megatron_orders
from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import BACKBONE, Task
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.simulation import Replica, Simulation, SimulationOptions
from tests.scheduling.placing import schedules
from tests.scheduling.simulate.test_lockstep import alone, replicas_of, times_of


def seconds(task: Task, stage: int) -> TaskTime:
    """Forwards 1 s, backwards 2 s; encoders' 4 and 8 s."""
    return alone((2.0 if task.kind is B else 1.0) * (1 if task.module == BACKBONE else 4))


PLAIN = OrderTimes(seconds)
F0, B0, F1, B1 = (Task(kind, BACKBONE, m) for m in (0, 1) for kind in (F, B))
#: The same on the second stage.
G0, C0, G1, C1 = (task._replace(chunk=1) for task in (F0, B0, F1, B1))
EF0, EB0 = Task(F, "vision", 0), Task(B, "vision", 0)
#: Two stages, one microbatch.
SHORT: Orders = (((F0,), (B0,)), ((G0,), (C0,)))


def of_schedule(schedule: Schedule) -> Orders:
    """The fused tasks of each stage, without their ticks."""
    stages = zip(*schedule.ticks, strict=True) if schedule.ticks else [()] * schedule.stages
    return tuple(tuple(fused_task for fused_task in column if fused_task) for column in stages)


def span_of(made: Simulation, stage: int, task: Task) -> tuple[float, float]:
    (span,) = [s for s in made.timeline.spans if s.stage == stage and task in s.tasks]
    return span.start, span.end


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_equal_chunks_take_the_time_of_the_formula(stages: int, chunks: int, groups: int) -> None:
    microbatches = groups * stages
    step = StageOrders(megatron_orders(stages, chunks, microbatches))
    made = simulate_order(step, PLAIN)
    # A stage's forward and backward of one microbatch take 3 s for each chunk.
    assert made.makespan == (microbatches * chunks + stages - 1) * 3
    assert made.compute == microbatches * chunks * 3
    assert made.encoder_hidden is None
    for task in {task for _, task in step}:
        assert step.stages_of[task] == (task.chunk % stages,)


@pytest.mark.parametrize(
    ("sizes", "stage", "begin"),
    [
        ((4, 1, 8), 0, "F0 F1 F2 F3 B0 F4 B1"),
        ((4, 1, 8), 3, "F0 B0 F1 B1"),
        ((2, 2, 4), 1, "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1"),
        ((2, 2, 4), 0, "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1"),
        ((2, 2, 2), 1, "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"),
        ((3, 1, 1), 0, "F0 B0"),
    ],
)
def test_orders_of_megatron_by_hand(sizes: tuple[int, int, int], stage: int, begin: str) -> None:
    order = megatron_orders(*sizes)[stage]
    loops = [(t, t.chunk // sizes[0]) for (t,) in order]
    words = [f"{t.kind}{t.microbatch}" + (f".{loop}" if loop else "") for t, loop in loops]
    assert " ".join(words).startswith(begin)
    assert len(words) == len(set(words)) == 2 * sizes[1] * sizes[2]


def test_more_microbatches_than_fit_the_groups_are_refused() -> None:
    with pytest.raises(ScheduleError, match="valid: multiples of 4, or 1 chunk"):
        megatron_orders(4, 2, 6)
    with pytest.raises(ScheduleError, match="chunks: 0 is refused; valid: 1 or more"):
        megatron_orders(4, 0, 4)


def test_sends_take_time_but_not_that_of_the_stages() -> None:
    made = simulate_order(StageOrders(SHORT), replace(PLAIN, send=0.5))
    assert made.makespan == 1 + 0.5 + 1 + 2 + 0.5 + 2
    many = simulate_order(StageOrders(megatron_orders(2, 1, 8)), replace(PLAIN, send=0.5))
    # Both stages always have something to do meanwhile, but at the first and the last send.
    assert many.makespan <= 9 * 3 + 8 * 2 * 0.5
    assert span_of(many, 1, G0) == (1.5, 2.5)


def test_exchanges_hold_a_stage_up() -> None:
    made = simulate_order(StageOrders(SHORT), replace(PLAIN, exchange=0.5))
    assert made.makespan == 1 + 0.5 + 1 + 0.5 + 2 + 0.5 + 2
    assert span_of(made, 1, G0) == (1.5, 2.5)
    assert made.idle["tensor"] == 0


def test_pairs_wait_for_what_both_need_and_hand_on_at_their_end() -> None:
    orders = megatron_orders(2, 2, 4)
    step = exchanged_in_pairs(orders)
    # Stage 0 runs .. F3 B1.1 .., and stage 1 .. F3 B1 ..: both come out of one exchange.
    assert step.after[0, Task(B, BACKBONE, 0, 2)] == ((1, Task(B, BACKBONE, 0, 3)),)
    assert step.after[1, Task(F, BACKBONE, 3, 1)] == ((0, Task(B, BACKBONE, 1, 2)),)
    # Where all forwards come first, nothing alternates.
    assert simulate_order(exchanged_in_pairs(megatron_orders(2, 2, 2)), PLAIN).makespan > 0
    free, paired = (simulate_order(own, PLAIN) for own in (StageOrders(orders), step))
    assert paired.compute == free.compute
    assert paired.makespan >= free.makespan


def test_one_send_waits_for_another_from_the_same_stage_to_the_same() -> None:
    orders: Orders = (((F0,), (F1,)), ((G0,), (G1,)))
    made = simulate_order(StageOrders(orders), replace(PLAIN, send=5.0))
    assert span_of(made, 1, G1) == (11.0, 12.0)


def test_what_is_ready_first_is_sent_first() -> None:
    orders: Orders = (((F1,), (F0,)), ((G0,), (G1,)))
    made = simulate_order(StageOrders(orders), replace(PLAIN, send=5.0))
    # The send of F1 has begun when F0 is done.
    assert span_of(made, 1, G0) == (11.0, 12.0)


@pytest.mark.parametrize(
    ("placed", "needed"),
    [
        ((0, Task(F, BACKBONE, 1)), (1, Task(F, "vision", 1, 1))),
        ((1, Task(F, BACKBONE, 1, 1)), (0, Task(F, BACKBONE, 1))),
        ((0, Task(F, BACKBONE, 1, 2)), (1, Task(F, BACKBONE, 1, 1))),
        ((1, Task(B, BACKBONE, 1, 3)), (1, Task(F, BACKBONE, 1, 3))),
        ((0, Task(B, BACKBONE, 1, 2)), (1, Task(B, BACKBONE, 1, 3))),
        ((1, Task(B, BACKBONE, 1, 1)), (0, Task(B, BACKBONE, 1, 2))),
        ((1, Task(F, "vision", 1, 1)), (0, Task(F, "vision", 1))),
        ((1, Task(B, "vision", 1, 1)), (0, Task(B, BACKBONE, 1))),
        ((0, Task(B, "vision", 1)), (1, Task(B, "vision", 1, 1))),
    ],
)
def test_what_tasks_need(placed: tuple[int, Task], needed: tuple[int, Task]) -> None:
    pieces = [
        tuple((Task(kind, "vision", m, stage),) for kind in (F, B) for m in (0, 1))
        for stage in (0, 1)
    ]
    both = zip(megatron_orders(2, 2, 2), pieces, strict=True)
    step = StageOrders(tuple((*order, *own) for order, own in both))
    assert list(step.dependencies(*placed)) == [needed]


def test_uneven_chunks_by_hand() -> None:
    times = replace(PLAIN, time=lambda task, stage: alone(10.0 if task.chunk == 1 else 1.0))
    made = simulate_order(StageOrders(megatron_orders(2, 2, 2)), times)
    # Stage 1: F0 at 1 to 11, F1 to 21, then short ones until 24 or so, and two backwards of 10.
    assert span_of(made, 1, Task(F, BACKBONE, 1, 1)) == (11.0, 21.0)
    assert made.makespan == 1 + 4 * 10 + 4 + 1


@given(st.data())
def test_without_lockstep_a_step_is_never_slower(data: st.DataObject) -> None:
    schedule = data.draw(schedules())
    own = data.draw(times_of(schedule))
    ends: dict[str, Any] = {"gather": own.gather, "scatter": own.scatter, "update": own.update}
    times = StepTimes(own.forward, own.backward, own.sources, TaskTime(), **ends, more=own.more)
    orders = OrderTimes(lambda task, _: times.time_of(task), **ends)
    options = SimulationOptions(
        data.draw(st.booleans()),
        data.draw(st.booleans()),
        2,
        data.draw(replicas_of(schedule, times)),
    )
    feeds = {
        feed.source: tuple(map(tuple, feed.consumer_spans(schedule.microbatches).tolist()))
        for feed in schedule.feeds
    }
    ordered = simulate_order(StageOrders(of_schedule(schedule), feeds=feeds), orders, options)
    lockstep = simulate_step(schedule, times, options)
    assert ordered.makespan <= lockstep.makespan + 1e-9
    assert ordered.compute == pytest.approx(lockstep.compute)
    for use in ordered.stages:
        assert use.compute + sum(use.idle.values()) == pytest.approx(ordered.makespan)


def test_gather_and_scatter_run_beside_encoder_work() -> None:
    orders: Orders = (((EF0,), *SHORT[0], (EB0,)), SHORT[1])
    times = replace(PLAIN, gather=6.0, scatter=10.0)
    beside, before = (
        simulate_order(StageOrders(orders), times, SimulationOptions(overlap_gather=on))
        for on in (True, False)
    )
    assert before.makespan == 6 + 4 + 6 + 8 + 10
    assert beside.makespan == 6 + 6 + 10
    assert (beside.encoder_hidden, before.encoder_hidden) == (1, 0)
    first = beside.stages[0].idle
    assert (first["gather"], first["scatter"], first["other"]) == (2.0, 2.0, 3.0)


def test_collectives_of_encoders_do_not_slow_gather_and_scatter() -> None:
    orders: Orders = (((EF0,), *SHORT[0], (EB0,)), SHORT[1])
    times = replace(PLAIN, gather=60.0, scatter=100.0)
    usual = simulate_order(StageOrders(orders), times)

    def communicating(task: Task, stage: int) -> TaskTime:
        return alone(1.0, 3.0) if task.module == "vision" else seconds(task, stage)

    made = simulate_order(StageOrders(orders), replace(times, time=communicating))
    assert made.makespan == usual.makespan


def test_a_co_issued_task_hands_on_its_result_when_it_is_done() -> None:
    beside, reader = Task(F, "vision", 1), Task(F, "vision", 2)
    orders: Orders = (((F0,), (reader,), (B0,)), ((G0, beside), (C0,)))
    times = replace(PLAIN, time=lambda task, _: alone(3.0, 1.0))
    made = simulate_order(StageOrders(orders, {(0, reader): ((1, G0),)}), times)
    # On stage 1, F0 is done after 4 of the 7 s of its fused task.
    assert span_of(made, 1, G0) == (4.0, 11.0)
    assert span_of(made, 0, reader) == (8.0, 12.0)
    assert span_of(made, 1, C0) == (11.0, 15.0)


def test_more_may_be_waited_for() -> None:
    free = simulate_order(StageOrders(SHORT), PLAIN)
    orders: Orders = (SHORT[0], ((EF0,), *SHORT[1]))
    assert simulate_order(StageOrders(orders), PLAIN).makespan == free.makespan + 4
    last = Task(F, "vision", 1)
    orders = (SHORT[0], (*SHORT[1], (last,)))
    assert simulate_order(StageOrders(orders), PLAIN).makespan == 1 + 1 + 2 + 4
    bound = {(1, last): ((0, B0),)}
    assert simulate_order(StageOrders(orders, bound), PLAIN).makespan == free.makespan + 4


def test_a_straggler_and_long_microbatches() -> None:
    step = StageOrders(megatron_orders(2, 1, 4))
    slow = simulate_order(step, PLAIN, SimulationOptions(usual=Replica(dict.fromkeys((0, 1), 2.0))))
    long = simulate_order(
        step, PLAIN, SimulationOptions(usual=Replica(lengths={"decoder": [2.0] * 4}))
    )
    assert slow.makespan == long.makespan == 2 * simulate_order(step, PLAIN).makespan


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        (
            (SHORT[0], ((C0,),)),
            r"B\(0, 1\) on stage 1 waits for decoder F\(0, 1\) on stage 1, which no order holds",
        ),
        (((*SHORT[0], (F0,)), SHORT[1]), r"F\(0, 0\) stands twice on stage 0; valid: once"),
        (
            (SHORT[0], ((C0,), (G0,))),
            r"wait for each other: .*B\(0, 1\) on stage 1\) <- .*F\(0, 1\) on stage 1\)",
        ),
    ],
)
def test_orders_that_cannot_run_are_refused(orders: Orders, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        simulate_order(StageOrders(orders), PLAIN)


# ---- several cases -------------------------------------------------------------------------------


@given(
    st.sampled_from([(1, 1, 3), (2, 1, 4), (3, 1, 2), (2, 2, 4), (4, 3, 4)]),
    st.booleans(),
    st.lists(st.floats(0, 3), min_size=4, max_size=4),
    st.data(),
)
def test_every_case_takes_the_seconds_of_its_own_step(
    sizes: tuple[int, int, int], paired: bool, ends: list[float], data: st.DataObject
) -> None:
    stages, chunks, count = sizes
    orders = megatron_orders(stages, chunks, count)
    step = exchanged_in_pairs(orders) if paired and chunks > 1 else StageOrders(orders)
    one = st.lists(st.floats(0.1, 5), min_size=count, max_size=count)
    cases = np.array(data.draw(st.lists(one, min_size=1, max_size=3)))

    def taken(task: Task, stage: int) -> np.ndarray:
        found: np.ndarray = cases[:, task.microbatch] * (1 + stage + 2 * (not task.kind.forward))
        return found

    def alone_case(case: int) -> OrderTimes:
        def time(task: Task, stage: int) -> TaskTime:
            return TaskTime((TaskSegment(float(taken(task, stage)[case])),))

        exchange, gather, scatter, update = ends
        return OrderTimes(time, 0.0, exchange, gather, scatter, update)

    found = seconds_of_cases(step, alone_case(0), taken)
    expected = [run_order(step, alone_case(case)).makespan for case in range(len(cases))]
    assert found == pytest.approx(expected)


def test_cases_with_sends_or_co_issue_are_refused() -> None:
    times = OrderTimes(lambda task, stage: TaskTime(), send=1.0)
    with pytest.raises(ScheduleError, match="cases have no sends and no co-issue"):
        seconds_of_cases(StageOrders(megatron_orders(2, 1, 2)), times, lambda *_: np.ones(1))


def test_steps_without_ticks_wait_for_what_the_kind_waits_for() -> None:
    orders = (
        ((Task(F, BACKBONE, 0),), (Task(B, BACKBONE, 0),), (Task(W, BACKBONE, 0),)),
        ((Task(W, BACKBONE, 0, 1),),),
    )
    step = StageOrders(orders)
    assert [*step.dependencies(0, Task(W, BACKBONE, 0))] == [(0, Task(B, BACKBONE, 0))]
    assert [*step.dependencies(0, Task(B, BACKBONE, 0))] == [(1, Task(B, BACKBONE, 0, 1))]
    one = StageOrders(orders[:1])
    assert (
        simulate_order(
            one, OrderTimes(lambda task, _: alone({F: 1.0, B: 2.0, W: 3.0}[task.kind]))
        ).makespan
        == 6.0
    )
