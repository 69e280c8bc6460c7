"""Simulated steps: against timelines and by hand, and what holds for every step."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
)
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import ModuleStages
from scheduling.simulate.events import Node, run_nodes
from scheduling.simulate.fused_time import fused_task_time, scale_time
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.simulation import IDLE_KINDS, DeviceUse, Replica, SimulationOptions
from scheduling.simulate.timeline import predict_timeline
from tests.configs import ROOT
from tests.scheduling.placing import schedules
from tests.timing import within

#: Times of encoders' tasks.
Pieces = dict[tuple[TaskKind, str, int], TaskTime]
#: Whole numbers and halves, so that sums are exact.
whole = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
segments = st.builds(TaskSegment, whole, whole)
task_times = st.lists(segments, max_size=4).map(lambda own: TaskTime(tuple(own)))


def alone(compute: float, collective: float = 0.0, segments: int = 1) -> TaskTime:
    """A task of so many equal segments."""
    return TaskTime((TaskSegment(compute / segments, collective / segments),) * segments)


@st.composite
def times_of(draw: st.DrawFn, schedule: Schedule, *, collectives: bool = True) -> StepTimes:
    """Times for all tasks of `schedule`; without `collectives` only compute takes time."""
    own = task_times if collectives else whole.map(alone)
    link = whole if collectives else st.just(0.0)
    pieces: Pieces = {}
    for _, _, task in schedule:
        if task.module != "decoder":
            pieces.setdefault((task.kind, task.module, task.chunk), draw(own))
    update = whole if collectives else st.just(0.0)
    ends: dict[str, Any] = {name: draw(link) for name in ("send", "embed", "gather", "scatter")}
    more = {"weights": draw(own)} if W in schedule.kinds else {}
    return StepTimes(
        draw(own), draw(own), pieces, draw(own), **ends, update=draw(update), more=more
    )


@st.composite
def replicas_of(draw: st.DrawFn, schedule: Schedule, times: StepTimes) -> Replica:
    """Replicas with some slow stages, and some modules with lengths."""
    modules = sorted({"decoder", *times.modules})
    counts = dict.fromkeys(modules, schedule.microbatches)
    counts |= {own.name: schedule.microbatches_of(own.name) for own in schedule.sources}
    slow = st.dictionaries(st.integers(0, schedule.stages - 1), st.just(1.5), max_size=2)
    factor, lengths = st.sampled_from([0.5, 1.0, 2.0]), {}
    for name in sorted(draw(st.sets(st.sampled_from(modules)))):
        count = counts[name]
        lengths[name] = draw(st.lists(factor, min_size=count, max_size=count))
    return Replica(draw(slow), {name: own for name, own in lengths.items() if own})


@st.composite
def options_of(draw: st.DrawFn, schedule: Schedule, times: StepTimes) -> SimulationOptions:
    """Up to three replicas that differ."""
    replicas = replicas_of(schedule, times)
    distinct = tuple(draw(st.lists(replicas, max_size=2)))
    return SimulationOptions(draw(st.booleans()), draw(st.booleans()), 3, draw(replicas), distinct)


@st.composite
def cases(draw: st.DrawFn, *, collectives: bool = True) -> tuple[Schedule, StepTimes]:
    schedule = draw(schedules())
    return schedule, draw(times_of(schedule, collectives=collectives))


# ---- fused tasks ---------------------------------------------------------------------------------


@given(st.lists(task_times, max_size=4))
def test_co_issue_is_between_apart_and_the_busier_stream(tasks: list[TaskTime]) -> None:
    beside, apart = fused_task_time(tasks, co_issue=True), fused_task_time(tasks, co_issue=False)
    assert apart.seconds == sum(task.seconds for task in tasks)
    compute, collective = (sum(getattr(t, own) for t in tasks) for own in ("compute", "collective"))
    least = max(compute, collective, *(task.seconds for task in tasks), 0.0)
    assert least <= beside.seconds <= apart.seconds
    assert sum(beside.compute) == compute
    assert beside.compute == apart.compute


def test_the_example_of_bundles() -> None:
    task = alone(4.0, 4.0, segments=2)
    assert fused_task_time([task, task], co_issue=False).ends == (8.0, 16.0)
    assert fused_task_time([task, task], co_issue=True).ends == (8.0, 10.0)


def test_slow_devices_have_usual_links_and_long_microbatches_more_of_both() -> None:
    task = TaskTime((TaskSegment(1.0, 2.0), TaskSegment(3.0)))
    assert scale_time(task, 1.0, 1.5) == TaskTime((TaskSegment(1.5, 2.0), TaskSegment(4.5)))
    assert scale_time(task, 2.0) == TaskTime((TaskSegment(2.0, 4.0), TaskSegment(6.0)))


# ---- steps ---------------------------------------------------------------------------------------


@given(cases(collectives=False), st.booleans(), st.booleans())
def test_without_communication_it_is_the_timeline(
    case: tuple[Schedule, StepTimes], co_issue: bool, overlap: bool
) -> None:
    schedule, times = case
    made, expected = (
        simulate_step(schedule, times, SimulationOptions(co_issue, overlap)),
        predict_timeline(*case),
    )
    assert made.makespan == pytest.approx(expected.makespan)
    assert made.timeline.bubble_share == pytest.approx(expected.bubble_share)
    assert made.idle["tensor"] == 0


def graph(schedule: Schedule, times: StepTimes, replica: Replica) -> list[Node]:
    """The step in lockstep without any overlap as a graph of nodes, one after the other."""
    stages, meets = range(schedule.stages), schedule.stage_syncs.tolist()
    moving = {"decoder", *(own.name for own in schedule.sources if own.stages > 1)}
    first = F, "decoder", 0
    enters = [any((t.kind, t.module, t.chunk) == first for t in row[0]) for row in schedule.ticks]
    nodes: list[Node] = []

    def add(seconds: float, *after: int) -> int:
        nodes.append(Node(None, seconds, after))
        return len(nodes) - 1

    def compute(time: TaskTime, stage: int, length: float) -> float:
        slow = replica.slow.get(stage, 1.0)
        return length * (time.compute * slow + time.collective)

    clocks = [add(times.gather)] * len(stages)
    for tick, row in enumerate(schedule.ticks):
        if schedule.span and tick == schedule.phases[1].start:
            clocks = [add(times.embed, *clocks)] * len(stages)
        for stage, task in ((own, task) for own in stages for task in row[own]):
            length = replica.length_factor(task.module, task.microbatch)
            clocks[stage] = add(compute(times.time_of(task), stage, length), clocks[stage])
        if not meets[tick]:
            continue
        moves = any(t.kind.passes and t.module in moving for fused_task in row for t in fused_task)
        clocks = [add(times.send * moves, *clocks)] * len(stages)
        for task in row[-1]:
            last = F, "decoder", schedule.backbone.chunks - 1
            if (task.kind, task.module, task.chunk) == last:
                length = replica.length_factor("decoder", task.microbatch)
                clocks = [add(compute(times.head, s, length), clocks[s]) for s in stages]
        following = next((t for t in range(tick + 1, len(meets)) if meets[t]), len(meets))
        entering = any(enters[tick + 1 : following + 1]) and tick in schedule.phases[1]
        clocks = [add(times.embed * entering, *clocks)] * len(stages)
    scattered = [add(times.scatter, clock) for clock in clocks]
    for stage in stages:
        add(times.update * replica.slow.get(stage, 1.0), *scattered)
    return nodes


@given(st.data())
def test_without_overlap_it_is_the_critical_path(data: st.DataObject) -> None:
    schedule, times = data.draw(cases())
    replica = data.draw(replicas_of(schedule, times))
    made = simulate_step(schedule, times, SimulationOptions(False, False, usual=replica))
    assert made.makespan == pytest.approx(run_nodes(graph(schedule, times, replica)).makespan)


@given(st.data())
def test_compute_and_idle_time_add_up_to_the_makespan(data: st.DataObject) -> None:
    schedule, times = data.draw(cases())
    made = simulate_step(schedule, times, data.draw(options_of(schedule, times)))
    for use in (*made.stages, DeviceUse(made.compute, made.idle)):
        assert tuple(use.idle) == IDLE_KINDS
        assert all(seconds >= 0 for seconds in use.idle.values())
        assert use.compute + sum(use.idle.values()) == pytest.approx(made.makespan)
    assert made.timeline.makespan == made.makespan
    rows = [[s for s in made.timeline.spans if s.row == row] for row in range(schedule.stages)]
    for row in rows:
        row.sort(key=lambda span: (span.start, span.end))
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(row))


@given(cases())
def test_overlap_and_co_issue_only_help(case: tuple[Schedule, StepTimes]) -> None:
    seconds = {
        (co_issue, overlap): simulate_step(*case, SimulationOptions(co_issue, overlap)).makespan
        for co_issue in (False, True)
        for overlap in (False, True)
    }
    for fixed in (False, True):
        assert seconds[True, fixed] <= seconds[False, fixed] + 1e-9
        assert seconds[fixed, True] <= seconds[fixed, False] + 1e-9


@given(cases(), st.sampled_from([0.0, 0.5]))
def test_faster_links_never_slow_a_step_whose_tasks_run_one_by_one(
    case: tuple[Schedule, StepTimes], factor: float
) -> None:
    schedule, times = case

    def faster(own: TaskTime) -> TaskTime:
        return TaskTime(tuple(TaskSegment(s.compute, s.collective * factor) for s in own.segments))

    quick = replace(
        times,
        forward=faster(times.forward),
        backward=faster(times.backward),
        head=faster(times.head),
        sources={key: faster(own) for key, own in times.sources.items()},
        more={name: faster(own) for name, own in times.more.items()},
        send=times.send * factor,
        gather=times.gather * factor,
        scatter=times.scatter * factor,
    )
    for overlap in (False, True):
        options = SimulationOptions(False, overlap)
        assert simulate_step(schedule, quick, options).makespan <= (
            simulate_step(schedule, times, options).makespan + 1e-9
        )


PLAIN = StepTimes(alone(2.0), alone(4.0), {}, alone(0.5))


def test_all_kinds_of_idle_time_by_hand() -> None:
    times = StepTimes(alone(2.0, 1.0), alone(4.0, 1.0), {}, alone(0.5), 0.25, 0.125, 3.0, 2.0, 1.5)
    made = simulate_step(one_forward_one_backward(2, 1), times)
    # gather, embed, F, send, F, send, head, B, send, B, send, scatter, update
    assert made.makespan == 3 + 0.125 + 3 + 0.25 + 3 + 0.25 + 0.5 + 5 + 0.25 + 5 + 0.25 + 2 + 1.5
    first, last = made.stages
    assert first.compute == last.compute == 2 + 0.5 + 4 + 1.5
    assert first.idle == {
        "gather": 3.0,
        "scatter": 2.0,
        "warm-up": 0.125,
        "cool-down": 0.25,
        "other": 0.25 + 3 + 0.25 + 5 + 0.25,
        "tensor": 2.0,
    }
    assert last.idle == {
        "gather": 3.0,
        "scatter": 2.0,
        "warm-up": 0.125 + 3 + 0.25,
        "cool-down": 0.25 + 5 + 0.25,
        "other": 0.25,
        "tensor": 2.0,
    }


def test_every_microbatch_is_embedded_once() -> None:
    many = simulate_step(interleaved_schedule(2, 2, 6), replace(PLAIN, embed=0.5)).makespan
    assert many == simulate_step(interleaved_schedule(2, 2, 6), PLAIN).makespan + 6 * 0.5


@pytest.mark.parametrize(("co_issue", "seconds"), [(True, 2.0 + 1.0), (False, 2 * 2.0)])
def test_co_issue_hides_collectives(co_issue: bool, seconds: float) -> None:
    times = StepTimes(alone(1.0, 1.0), alone(1.0, 1.0), {}, TaskTime())
    many = [
        simulate_step(interleaved_schedule(1, 1, m), times, SimulationOptions(co_issue)).makespan
        for m in (8, 9)
    ]
    # One stage: every tick but the first and last holds a forward and a backward.
    assert many[1] - many[0] == seconds


def test_encoder_work_fills_gather_and_scatter() -> None:
    cut = ModuleStages("vision")
    pieces: Pieces = {(F, "vision", 0): alone(2.0, 1.0), (B, "vision", 0): alone(2.0, 1.0)}
    times = replace(PLAIN, sources=pieces, gather=3.0, scatter=1.0)
    decoder = one_forward_one_backward(2, 2)
    schedule = place_modules(decoder, [cut], times.costs, "prologue")
    beside, before = (
        simulate_step(schedule, times, SimulationOptions(overlap_gather=on)) for on in (True, False)
    )
    bare = simulate_step(decoder, replace(times, sources={})).makespan - 4
    assert before.makespan == bare + 3 + 3 + 3 + 1
    # The forward is as long as the gather; the backward is 2 s longer than the scatter.
    assert beside.makespan == bare + 3 + 3
    assert before.encoder_hidden == 0
    # Compute is 2 s of each piece.
    assert beside.encoder_hidden == 1 - 2 / 4


def test_collectives_of_encoders_do_not_slow_gather_and_scatter() -> None:
    pieces: Pieces = {(kind, "vision", 0): alone(2.0, 1.0) for kind in (F, B)}
    times = replace(PLAIN, sources=pieces, gather=50.0, scatter=100.0)
    decoder = one_forward_one_backward(2, 2)
    schedule = place_modules(decoder, [ModuleStages("vision")], times.costs, "prologue")
    bare = simulate_step(decoder, replace(times, sources={}))
    assert simulate_step(schedule, times).makespan == bare.makespan


def test_hidden_encoder_work_costs_nothing() -> None:
    pieces: Pieces = {(F, "vision", 0): alone(1.0), (B, "vision", 0): alone(2.0)}
    times = replace(PLAIN, sources=pieces, gather=100.0, scatter=100.0)
    schedule = place_modules(interleaved_schedule(2, 1, 4), [ModuleStages("vision")], times.costs)
    assert simulate_step(schedule, times).encoder_hidden == 1
    assert simulate_step(interleaved_schedule(2, 1, 4), times).encoder_hidden is None


# ---- stragglers and lengths ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [interleaved_schedule, gpipe_schedule])
@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_a_straggler_slows_every_beat_that_it_works_in(make, factor: float) -> None:
    schedule, times = make(4, 2, 8), replace(PLAIN, head=TaskTime())
    usual = simulate_step(schedule, times).makespan
    slowed = simulate_step(schedule, times, SimulationOptions(usual=Replica({2: factor}))).makespan
    beside = [sum(times.cost_of(task) for task in row[2]) * factor for row in schedule.ticks]
    others = [
        max(sum(times.cost_of(task) for task in fused_task) for fused_task in row)
        for row in schedule.ticks
    ]
    assert slowed == sum(map(max, beside, others))
    assert usual < slowed <= factor * usual
    everywhere = dict.fromkeys(range(4), factor)
    all_slow = simulate_step(schedule, times, SimulationOptions(usual=Replica(everywhere))).makespan
    assert all_slow == factor * usual


def test_lengths_are_those_of_their_microbatches() -> None:
    lengths = {"decoder": [1.0, 2.0, 0.5]}
    made = simulate_step(
        interleaved_schedule(1, 1, 3),
        PLAIN,
        SimulationOptions(False, usual=Replica(lengths=lengths)),
    )
    assert made.makespan == sum(6.5 * own for own in lengths["decoder"])
    spans = [s for s in made.timeline.spans if s.head == 1 or 1 in {t.microbatch for t in s.tasks}]
    assert sorted(span.seconds for span in spans) == [1.0, 4.0, 8.0]


def test_work_ahead_has_the_lengths_of_its_namesakes() -> None:
    assert Replica(lengths={"vision": [1.0, 3.0]}).length_factor("vision", 2) == 1.0


# ---- replicas ------------------------------------------------------------------------------------


def test_the_slowest_replica_decides_and_the_others_wait_for_it() -> None:
    schedule = interleaved_schedule(2, 1, 4)
    times = replace(PLAIN, scatter=1.0, update=1.0)
    slow = Replica({1: 2.0})
    equal = simulate_step(schedule, times, SimulationOptions(replicas=8))
    mixed = simulate_step(schedule, times, SimulationOptions(replicas=8, distinct=(slow,)))
    all_slow = simulate_step(schedule, times, SimulationOptions(replicas=8, usual=slow))
    assert mixed.makespan == all_slow.makespan > equal.makespan
    assert mixed.timeline.spans == all_slow.timeline.spans
    waited = mixed.idle["scatter"] - equal.idle["scatter"]
    later = (all_slow.makespan - 2) - (equal.makespan - 1)
    assert waited == pytest.approx(7 / 8 * later)


def test_waiting_for_the_last_encoder_task_of_another_replica_is_of_kind_scatter() -> None:
    pieces: Pieces = {(F, "vision", 0): alone(1.0), (B, "vision", 0): alone(2.0)}
    times = replace(PLAIN, sources=pieces)
    decoder = one_forward_one_backward(2, 2)
    schedule = place_modules(decoder, [ModuleStages("vision")], times.costs, "prologue")
    twice = Replica(lengths={"vision": [1.0, 2.0]})
    made = simulate_step(
        schedule, times, SimulationOptions(replicas=4, usual=Replica(), distinct=(twice, twice))
    )
    assert made.makespan == simulate_step(schedule, times).makespan + 1 + 2
    # Two of four replicas wait three seconds for the others. In those, the stage with the short
    # microbatch waits for its neighbour for one before the decoder starts.
    assert [use.idle["scatter"] for use in made.stages] == [3.0 / 2] * 2
    assert made.stages[0].idle["warm-up"] == 1.0 / 2


@given(st.data())
def test_identical_replicas_are_one(data: st.DataObject) -> None:
    schedule, times = data.draw(cases())
    one = data.draw(replicas_of(schedule, times))
    single = simulate_step(schedule, times, SimulationOptions(usual=one))
    many = simulate_step(schedule, times, SimulationOptions(replicas=5, distinct=(one,) * 5))
    assert (many.makespan, many.encoder_hidden) == (single.makespan, single.encoder_hidden)
    assert many.stages == single.stages


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (SimulationOptions(usual=Replica({2: 1.5})), "stage 2 does not exist; valid: 0 to 1"),
        (
            SimulationOptions(usual=Replica({1: 0.0})),
            "factor 0.0 of stage 1 is refused; valid: above 0",
        ),
        (
            SimulationOptions(usual=Replica(lengths={"audio": [1.0]})),
            "'audio' is not in the step; valid: d",
        ),
        (
            SimulationOptions(usual=Replica(lengths={"decoder": [1.0]})),
            "1 factors for decoder; valid: one",
        ),
        (
            SimulationOptions(usual=Replica(lengths={"decoder": [-1.0] * 4})),
            "factor -1.0 of decoder",
        ),
        (SimulationOptions(replicas=0), "replicas: 0 is refused"),
        (SimulationOptions(distinct=(Replica(), Replica())), "at least as many as the 2 distinct"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: SimulationOptions, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        simulate_step(interleaved_schedule(2, 1, 4), PLAIN, options)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "concepts" / "simulation.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(code, {})
    printed = ast.literal_eval(capsys.readouterr().out)
    # Half of the devices' time is spent on waiting for the one that is slow.
    assert printed["scatter"] > 4


# ---- speed ---------------------------------------------------------------------------------------


def test_thousands_of_devices_take_seconds() -> None:
    """8 stages x 12 chunks x tensor 8 x data 48, 96 decoder and 48 encoder layers."""
    pieces: Pieces = {}
    for piece in range(12):
        pieces[F, "vision", piece] = alone(5e-3, 2e-3, segments=8)
        pieces[B, "vision", piece] = alone(10e-3, 2e-3, segments=8)
    times = StepTimes(
        alone(5e-3, 1e-3, 4), alone(15e-3, 2e-3, 8), pieces, alone(1e-3), 1e-4, 1e-4, 0.17, 0.46
    )
    cut = ModuleStages("vision", chunks=12)
    schedule = place_modules(interleaved_schedule(8, 12, 16), [cut], times.costs)
    made = within(2, lambda: simulate_step(schedule, times, SimulationOptions(replicas=48)))
    assert len(made.stages) == 8
