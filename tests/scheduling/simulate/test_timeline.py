"""Timelines against hand-computed ones, and what holds for every schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
)
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages, Task
from scheduling.simulate.timeline import Span, Timeline, measured_timeline, predict_timeline
from tests.timing import within


@dataclass(frozen=True)
class Seconds:
    """Seconds by kind of task. Whole numbers and halves, so that sums are exact."""

    forward: float = 1.0
    backward: float = 2.0
    encoder_forward: float = 3.0
    encoder_backward: float = 5.0
    shared: float = 0.5

    def cost_of(self, task: Task) -> float:
        values = (self.forward, self.backward, self.encoder_forward, self.encoder_backward)
        return values[(task.kind is B) + 2 * (task.module != BACKBONE)]


def vision(kind: TaskKind, microbatch: int) -> Task:
    return Task(kind, "vision", microbatch)


#: Two stages, one microbatch: a prologue, encoder work in idle slots and beside a decoder task.
BY_HAND = Schedule(
    (ModuleStages(BACKBONE, 2, 2, looped=True), ModuleStages("vision")),
    microbatches=1,
    feeds=(Feed("vision"),),
    ticks=(
        ((vision(F, 0),), ()),
        ((Task(F, BACKBONE, 0),), (vision(F, 1),)),
        ((vision(F, 2),), (Task(F, BACKBONE, 0, 1), vision(B, 1))),
        ((), (Task(B, BACKBONE, 0, 1),)),
        ((Task(B, BACKBONE, 0),), ()),
        ((), (vision(B, 0),)),
    ),
)

costs = st.builds(Seconds, *[st.integers(1, 9).map(float)] * 4, shared=st.integers(0, 3).map(float))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any generator's table with encoder tasks and empty ticks strewn over it, in no good order."""
    stages, chunks, microbatches = (draw(st.integers(1, most)) for most in (4, 3, 9))
    decoder = draw(st.sampled_from([interleaved_schedule, gpipe_schedule]))
    table = decoder(stages, chunks, microbatches)
    empty = ((),) * stages
    rows = [*[empty] * draw(st.integers(0, 2)), *table.ticks, *[empty] * draw(st.integers(0, 2))]
    kinds = st.sets(st.sampled_from([F, B]))
    extra = draw(st.lists(kinds, min_size=len(rows) * stages, max_size=len(rows) * stages))
    ticks = tuple(
        tuple(
            (
                *fused_task,
                *(vision(kind, tick) for kind in (F, B) if kind in extra[tick * stages + s]),
            )
            for s, fused_task in enumerate(row)
        )
        for tick, row in enumerate(rows)
    )
    return replace(table, ticks=ticks)


def work_table(
    schedule: Schedule, seconds: Seconds, modules: tuple[str, ...] = (BACKBONE, "vision")
) -> np.ndarray:
    """`[ticks, stages]`: seconds of the tasks of `modules`."""
    table = np.zeros((len(schedule.ticks), schedule.stages))
    for tick, stage, task in schedule:
        table[tick, stage] += seconds.cost_of(task) * (task.module in modules)
    return table


def by_beat(schedule: Schedule, table: np.ndarray) -> np.ndarray:
    """Sums of `table` `[ticks, ...]` from one tick after which the stages meet to the next."""
    ends = np.flatnonzero(schedule.stage_syncs[:-1]) + 1
    return np.add.reduceat(table, [0, *ends])


def head_ticks(schedule: Schedule) -> list[int]:
    """Ticks in which a microbatch leaves the last stage."""
    last = F, BACKBONE, schedule.backbone.chunks - 1
    return [tick for tick, _, task in schedule if (task.kind, task.module, task.chunk) == last]


def ticks_of(lines: Timeline) -> list[tuple[float, float]]:
    return list(zip(lines.start.tolist(), lines.end.tolist(), strict=True))


def test_the_example_of_the_documentation() -> None:
    lines = predict_timeline(one_forward_one_backward(2, 1), Seconds())
    assert ticks_of(lines) == [(0, 1), (1, 2.5), (2.5, 4.5), (4.5, 6.5)]
    assert lines.spans == (
        Span(0, 0, 0, 0.0, 1.0, (Task(F, BACKBONE, 0),)),
        Span(1, 1, 1, 1.0, 2.0, (Task(F, BACKBONE, 0, 1),)),
        Span(0, 0, 1, 2.0, 2.5, head=0),
        Span(1, 1, 1, 2.0, 2.5, head=0),
        Span(1, 1, 2, 2.5, 4.5, (Task(B, BACKBONE, 0, 1),)),
        Span(0, 0, 3, 4.5, 6.5, (Task(B, BACKBONE, 0),)),
    )
    assert lines.rows == ("stage 0", "stage 1")
    assert lines.makespan == 6.5
    assert lines.work == 7
    assert lines.bubble_share == 1 - 7 / 13
    assert lines.tick_imbalance == 1  # the idle stage of each tick has no part in it
    assert lines.encoder_hidden is None


def test_encoder_work_by_hand() -> None:
    lines = predict_timeline(BY_HAND, Seconds())
    assert ticks_of(lines) == [(0, 3), (3, 6), (6, 12.5), (12.5, 14.5), (14.5, 16.5), (16.5, 21.5)]
    beside = [span for span in lines.spans if (span.tick, span.row) == (2, 1)]
    assert [(str(s), s.start, s.end) for s in beside] == [
        ("decoder F(0, 1)", 6, 7),
        ("vision B(1, 0)", 7, 12),
        ("head(0)", 12, 12.5),
    ]
    # One second beside F(0) of stage 0, one beside F(0) of stage 1; none beside the decoder's own
    # tasks, nor in ticks without any.
    assert lines.encoder_hidden == 2 / (3 + 3 + 3 + 5 + 5)
    assert lines.bubble_share == 1 - (19 + 6 + 1) / 43


@pytest.mark.parametrize(
    ("stages", "chunks", "microbatches"), [(1, 1, 3), (2, 1, 2), (4, 1, 8), (4, 2, 8), (3, 3, 9)]
)
def test_lockstep_takes_as_long_as_interleaved_1f1b(
    stages: int, chunks: int, microbatches: int
) -> None:
    lines = predict_timeline(
        interleaved_schedule(stages, chunks, microbatches), Seconds(shared=0.0)
    )
    # A task of one chunk lasts 1/chunks of what a stage's whole forward or backward does.
    assert lines.makespan == (microbatches + (stages - 1) / chunks) * chunks * (1 + 2)
    assert lines.bubble_share == pytest.approx(
        (stages - 1) / (microbatches * chunks + stages - 1), abs=1e-12
    )


@given(schedules(), costs)
def test_beats_follow_each_other_and_last_as_long_as_their_busiest_stage(
    schedule: Schedule, seconds: Seconds
) -> None:
    lines = predict_timeline(schedule, seconds)
    heads = np.zeros(len(schedule.ticks))
    heads[head_ticks(schedule)] = seconds.shared
    work = by_beat(schedule, work_table(schedule, seconds)).max(axis=1) + by_beat(schedule, heads)
    first = np.flatnonzero(np.diff(lines.beats, prepend=-1))
    assert np.array_equal(lines.start[first], np.cumsum([0, *work[:-1]]))
    assert np.array_equal(
        lines.end[schedule.stage_syncs], work.cumsum()[: schedule.stage_syncs.sum()]
    )
    assert lines.makespan == work.sum()


def test_stages_wait_for_each_other_only_where_something_moves() -> None:
    first, forward = (Task(F, BACKBONE, 0, chunk) for chunk in (0, 1))
    last, backward = (Task(B, BACKBONE, 0, chunk) for chunk in (0, 1))
    schedule = Schedule(
        BY_HAND.modules,
        microbatches=1,
        feeds=BY_HAND.feeds,
        ticks=(
            ((vision(F, 0),), (vision(F, 1),)),
            ((), (vision(F, 2),)),
            ((first,), ()),
            ((vision(F, 3),), (forward,)),
            ((), (backward,)),
            ((last,), (vision(F, 4),)),
            ((vision(F, 5),), ()),
        ),
    )
    assert schedule.stage_syncs.tolist() == [True, False, True, True, True, True, False]
    lines = predict_timeline(schedule, Seconds(shared=0.0))
    assert ticks_of(lines) == [(0, 3), (3, 6), (3, 6), (6, 9), (9, 11), (11, 14), (14, 17)]


@given(schedules(), costs)
def test_every_task_has_one_span_and_rows_do_not_overlap(
    schedule: Schedule, seconds: Seconds
) -> None:
    lines = predict_timeline(schedule, seconds)
    tasks = [(s.tick, s.stage, task) for s in lines.spans for task in s.tasks]
    assert sorted(tasks, key=str) == sorted(schedule, key=str)
    heads = [(s.tick, s.stage) for s in lines.spans if s.head is not None]
    every = range(schedule.stages)
    assert heads == [(tick, stage) for tick in head_ticks(schedule) for stage in every]
    for row in every:
        spans = [s for s in lines.spans if s.row == row]
        assert all(s.stage == row and len(s.tasks) + (s.head is not None) == 1 for s in spans)
        assert all(a.end <= b.start for a, b in pairwise(spans))
        assert all(lines.start[s.tick] <= s.start <= s.end <= lines.end[s.tick] for s in spans)


@given(schedules(), costs)
def test_shares(schedule: Schedule, seconds: Seconds) -> None:
    lines = predict_timeline(schedule, seconds)
    table = work_table(schedule, seconds)
    table[head_ticks(schedule)] += seconds.shared
    assert lines.work == table.sum()
    assert lines.makespan >= table.sum() / schedule.stages
    assert 0 <= lines.bubble_share < 1
    assert lines.bubble_share == 1 - table.sum() / (schedule.stages * lines.makespan)
    table = by_beat(schedule, table)
    busy = by_beat(
        schedule, np.array([[len(fused_task) for fused_task in row] for row in schedule.ticks])
    )
    busy = busy > 0
    some = busy.any(axis=1)
    level = np.mean(table[some], axis=1, where=busy[some]).sum()
    assert lines.tick_imbalance == pytest.approx(lines.makespan / level)


@given(schedules(), costs)
def test_hidden_work_is_what_does_not_make_the_step_longer(
    schedule: Schedule, seconds: Seconds
) -> None:
    hidden = predict_timeline(schedule, seconds).encoder_hidden
    encoder = work_table(schedule, seconds, ("vision",))
    decoder = work_table(schedule, seconds, (BACKBONE,))
    if not encoder.any():
        assert hidden is None
        return
    assert hidden is not None
    encoder, decoder = by_beat(schedule, encoder), by_beat(schedule, decoder)
    idle = decoder.max(axis=1)[:, None] - decoder
    assert hidden == pytest.approx(np.minimum(encoder, idle).sum() / encoder.sum())
    alone = predict_timeline(schedule, replace(seconds, encoder_forward=0.0, encoder_backward=0.0))
    longer = predict_timeline(schedule, seconds).makespan > alone.makespan
    assert longer == (hidden < 1)


def test_one_stage_never_waits() -> None:
    lines = predict_timeline(interleaved_schedule(1, 2, 3), Seconds())
    assert lines.bubble_share == 0
    assert lines.tick_imbalance == 1


def test_a_schedule_that_costs_nothing_has_no_bubbles() -> None:
    lines = predict_timeline(BY_HAND, Seconds(0.0, 0.0, 0.0, 0.0, 0.0))
    assert (lines.makespan, lines.bubble_share, lines.tick_imbalance) == (0, 0, 1)
    assert lines.encoder_hidden is None


def test_a_long_schedule_takes_about_a_second() -> None:
    table = interleaved_schedule(16, 4, 1010)
    table = replace(table, ticks=table.ticks[:4096])
    assert len(table.ticks) == 4096
    assert within(5, lambda: predict_timeline(table, Seconds())).bubble_share < 1


def as_records(lines: Timeline, schedule: Schedule, devices: int = 1) -> np.ndarray:
    """The records of `devices` devices of every stage that keep to the prediction."""
    ends = {(span.tick, span.row): span.end for span in lines.spans}
    clocks, records = [0.0] * schedule.stages, []
    for tick, meet in enumerate(schedule.stage_syncs):
        for stage in range(schedule.stages):
            start, clocks[stage] = clocks[stage], ends.get((tick, stage), clocks[stage])
            records += [(stage, device, tick, start, clocks[stage]) for device in range(devices)]
        clocks = [lines.end[tick]] * schedule.stages if meet else clocks
    return np.array(records)


@settings(max_examples=40)
@given(schedules(), costs, st.integers(1, 3))
def test_records_that_keep_to_the_prediction_give_it_back(
    schedule: Schedule, seconds: Seconds, devices: int
) -> None:
    predicted = predict_timeline(schedule, seconds)
    records = as_records(predicted, schedule, devices)
    records[:, 3:] += 1000
    lines = measured_timeline(np.random.default_rng(0).permutation(records), schedule)
    assert np.array_equal(lines.start, predicted.start)
    assert np.array_equal(lines.end, predicted.end)
    assert lines.encoder_hidden is None
    assert [(s.tick, s.row, s.tasks, s.head) for s in lines.spans] == [
        (tick, stage * devices + device, fused_task, None)
        for tick, row in enumerate(schedule.ticks)
        for stage, fused_task in enumerate(row)
        for device in range(devices)
        if fused_task
    ]


def test_a_measurement_by_hand() -> None:
    schedule = one_forward_one_backward(2, 1)
    times = [[(0, 2), (0, 0)], [(2, 2), (2, 5)], [(5, 5), (5, 8)], [(8, 12), (8, 8)]]
    records = [
        (stage, 0, tick, *pair) for tick, row in enumerate(times) for stage, pair in enumerate(row)
    ]
    lines = measured_timeline(records, schedule)
    assert lines.rows == ("stage 0, device 0", "stage 1, device 0")
    assert lines.spans == (
        Span(0, 0, 0, 0.0, 2.0, (Task(F, BACKBONE, 0),)),
        Span(1, 1, 1, 2.0, 5.0, (Task(F, BACKBONE, 0, 1),)),
        Span(1, 1, 2, 5.0, 8.0, (Task(B, BACKBONE, 0, 1),)),
        Span(0, 0, 3, 8.0, 12.0, (Task(B, BACKBONE, 0),)),
    )
    assert lines.makespan == 12
    assert lines.bubble_share == 1 - 12 / 24


def test_devices_of_some_stages_are_enough() -> None:
    """A process of several records its own devices only."""
    schedule = one_forward_one_backward(2, 1)
    records = as_records(predict_timeline(schedule, Seconds()), schedule, devices=2)
    lines = measured_timeline(records[records[:, 0] == 1], schedule)
    assert lines.rows == ("stage 1, device 0", "stage 1, device 1")
    assert {(span.row, span.stage) for span in lines.spans} == {(0, 1), (1, 1)}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 2, r"record \[2.0, 0.0, 0.0, .*stages 0 to 1"),
        (0, -1, "stages 0 to 1"),
        (1, -1, "devices count from 0"),
        (2, 4, "ticks 0 to 3"),
        (2, 1, "stage 0, device 0: tick 0 is recorded 0 times; valid: once"),
        (3, 99, "start <= end"),
        (3, -np.inf, "finite"),
        (4, np.nan, "finite"),
    ],
)
def test_records_that_do_not_fit_are_refused(column: int, value: float, message: str) -> None:
    schedule = one_forward_one_backward(2, 1)
    records = as_records(predict_timeline(schedule, Seconds()), schedule)
    records[0, column] = value
    with pytest.raises(ScheduleError, match=message):
        measured_timeline(records, schedule)


@pytest.mark.parametrize("records", [[], [[0, 0, 0, 1]], [0, 0, 0, 0, 1]])
def test_records_of_another_shape_are_refused(records: list[object]) -> None:
    with pytest.raises(ScheduleError, match=r"shape .* valid: \[records, 5\]"):
        measured_timeline(np.array(records, float), one_forward_one_backward(1, 1))


def test_a_tick_recorded_twice_is_refused() -> None:
    schedule = one_forward_one_backward(1, 1)
    records = as_records(predict_timeline(schedule, Seconds()), schedule)
    with pytest.raises(ScheduleError, match="tick 1 is recorded 2 times"):
        measured_timeline([*records, records[1]], schedule)
