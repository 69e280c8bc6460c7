"""Schedules as data: generators, their makespans and bubbles, drawing and JSON."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
    zero_bubble_schedule,
)
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.check import check_schedule, peak_live
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import Feed, ModuleStages, Task
from tests.scheduling import placing

SIZES = {"stages": st.integers(1, 6), "chunks": st.integers(1, 4)}
MICROBATCHES = st.integers(1, 20)


def makespan(schedule: Schedule, forward: float, backward: float, weights: float = 0.0) -> float:
    """Lockstep makespan: a tick lasts as long as its longest fused."""
    cost = {F: forward, B: backward, W: weights}
    return sum(
        max(sum(cost[task.kind] for task in fused) for fused in row) for row in schedule.ticks
    )


@given(**SIZES, microbatches=MICROBATCHES)
def test_generated_schedules_are_legal(stages: int, chunks: int, microbatches: int) -> None:
    check_schedule(interleaved_schedule(stages, chunks, microbatches))
    check_schedule(gpipe_schedule(stages, chunks, microbatches))
    check_schedule(zero_bubble_schedule(stages, chunks, microbatches))


@settings(max_examples=30)
@given(placing.schedules())
def test_columns_hold_every_task_in_order(schedule: Schedule) -> None:
    own = schedule.task_arrays
    names = [own.keys[key] for key in own.key]
    numbers = zip(own.tick, own.stage, own.microbatch, own.chunk, names, strict=True)
    tasks = [(t, s, Task(kind, name, m, v)) for t, s, m, v, (name, kind) in numbers]
    assert tasks == list(schedule)


@given(st.data(), st.integers(1, 9))
def test_of_those_that_a_unit_feeds_one_is_chosen(data: st.DataObject, microbatches: int) -> None:
    values = data.draw(st.lists(st.integers(0, 99), min_size=microbatches, max_size=microbatches))
    ends = data.draw(placing.feeds(microbatches))
    feed = Feed("vision", consumers=ends)
    for choose, one in ((np.minimum, min), (np.maximum, max)):
        expected = [one(values[first : last + 1]) for first, last in ends]
        assert feed.reduce_consumers(np.array(values), choose).tolist() == expected


@given(**SIZES, microbatches=MICROBATCHES)
def test_makespan_is_that_of_interleaved_1f1b(stages: int, chunks: int, microbatches: int) -> None:
    microbatches = max(stages, microbatches)
    schedule = interleaved_schedule(stages, chunks, microbatches)
    forward, backward = 3.0, 7.0
    expected = (microbatches + (stages - 1) / chunks) * (forward + backward)
    actual = makespan(schedule, forward / chunks, backward / chunks)
    assert actual == pytest.approx(expected)


@given(**SIZES, microbatches=MICROBATCHES)
def test_gpipe_takes_as_long(stages: int, chunks: int, microbatches: int) -> None:
    microbatches = max(stages, microbatches)
    ticks = gpipe_schedule(stages, chunks, microbatches).ticks
    assert len(ticks) == 2 * (microbatches * chunks + stages - 1)


@given(**SIZES, microbatches=MICROBATCHES)
def test_every_stage_idles_a_pipeline_length(stages: int, chunks: int, microbatches: int) -> None:
    schedule = interleaved_schedule(stages, chunks, max(stages, microbatches))
    for kind in (F, B):
        busy = Counter(stage for _, stage, task in schedule if task.kind == kind)
        ticks = {tick for tick, _, task in schedule if task.kind == kind}
        assert len(ticks) == max(ticks) - min(ticks) + 1
        assert {len(ticks) - busy[stage] for stage in range(stages)} == {stages - 1}


@given(stages=st.integers(1, 6), microbatches=MICROBATCHES)
def test_1f1b_bounds_live_activations(stages: int, microbatches: int) -> None:
    schedule = one_forward_one_backward(stages, microbatches)
    expected = tuple(min(microbatches, 2 * (stages - s)) for s in range(stages))
    assert schedule == interleaved_schedule(stages, 1, microbatches)
    assert peak_live(schedule) == expected
    assert peak_live(gpipe_schedule(stages, 1, microbatches)) == (microbatches,) * stages


@given(**SIZES, rounds=st.integers(2, 4), backward=st.sampled_from([1.0, 2.0]))
def test_weight_gradients_fill_the_bubbles(
    stages: int, chunks: int, rounds: int, backward: float
) -> None:
    """A step is as long as that of ZB-H1 (arXiv 2401.10241, table 2), and keeps as much."""
    microbatches = rounds * stages
    schedule = zero_bubble_schedule(stages, chunks, microbatches)
    whole = microbatches * chunks * (1.0 + backward + 1.0)
    assert makespan(schedule, 1.0, backward, 1.0) == whole + (stages - 1) * backward
    first = peak_live(interleaved_schedule(stages, chunks, microbatches))[0]
    assert max(peak_live(schedule)) <= first + 1


@given(**SIZES, microbatches=MICROBATCHES, backward=st.sampled_from([1.0, 2.0]))
def test_weight_gradients_apart_make_no_step_longer(
    stages: int, chunks: int, microbatches: int, backward: float
) -> None:
    plain = makespan(interleaved_schedule(stages, chunks, microbatches), 1.0, backward + 1.0)
    assert makespan(zero_bubble_schedule(stages, chunks, microbatches), 1.0, backward, 1.0) <= plain


@given(placing.schedules())
def test_json_round_trip(schedule: Schedule) -> None:
    text = json.dumps(schedule.to_json())
    assert Schedule.from_json(text) == schedule
    assert Schedule.from_json(json.loads(text)) == schedule


def test_drawing() -> None:
    schedule = placing.naive(
        one_forward_one_backward(2, 2), [ModuleStages("vision", 2, 2, first_backward=1)]
    )
    assert str(schedule).splitlines() == [
        "tick     0     1       2       3  4  5     6  7  8       9",
        "stage 0  visf0 visf1   .       F0 F1 .     B0 B1 .       .",
        "stage 1  .     visf0.1 visf1.1 .  F0 F1+B0 B1 .  visb0.1 visb1.1",
    ]


def test_span_is_that_of_the_decoder() -> None:
    decoder = interleaved_schedule(2, 2, 3)
    schedule = placing.naive(decoder, [ModuleStages("vision")])
    assert decoder.span == range(len(decoder.ticks))
    assert schedule.span == range(2, 2 + len(decoder.ticks))
    assert schedule.task_places[Task(F, "vision", 1)] == (0, 1)


@pytest.mark.parametrize("name", ["stages", "stage_chunks", "microbatches"])
def test_sizes_below_one_are_refused(name: str) -> None:
    sizes = {"stages": 2, "stage_chunks": 2, "microbatches": 2} | {name: 0}
    for make in (interleaved_schedule, gpipe_schedule, zero_bubble_schedule):
        with pytest.raises(ScheduleError, match=f"{name}: 0 is refused; valid: 1 or more"):
            make(**sizes)


def test_docstring_drawing_is_what_is_made() -> None:
    lines = str(one_forward_one_backward(3, 4)).splitlines()[1:]
    assert [line.split()[2:] for line in lines[:2]] == [
        ["F0", "F1", "F2", "F3", ".", "B0", "B1", "B2", "B3"],
        [".", "F0", "F1", "F2", "F3+B0", "B1", "B2", "B3", "."],
    ]
    for line in str(zero_bubble_schedule(2, 1, 4)).splitlines()[1:]:
        assert " ".join(line.split()) in " ".join((zero_bubble_schedule.__doc__ or "").split())


@pytest.mark.parametrize(
    "change", [{"ticks": 3}, {"modules": [{"nom": "x"}]}, {"microbatches": None}]
)
def test_what_is_no_schedule_is_refused(change):
    values = interleaved_schedule(2, 1, 2).to_json() | change
    values = {key: value for key, value in values.items() if value is not None}
    with pytest.raises(ScheduleError, match=r"no schedule: .* valid: what Schedule.to_json writes"):
        Schedule.from_json(values)
    with pytest.raises(ScheduleError, match="no schedule: JSONDecodeError"):
        Schedule.from_json('{"stages": 2')
    for wrong in (
        {"microbatches": "2"},
        {"modules": [{"name": "decoder", "chunks": 1.0}]},
        {"ticks": [[[["F", "decoder", "0", 0]]]]},
    ):
        with pytest.raises(ScheduleError, match=r"no schedule: TypeError: .* is no integer"):
            Schedule.from_json(interleaved_schedule(1, 1, 1).to_json() | wrong)


def test_an_encoder_that_is_not_there_is_named():
    with pytest.raises(ScheduleError, match="'vision' is not in the schedule; valid: decoder"):
        interleaved_schedule(2, 1, 2).module_named("vision")


def test_a_schedule_of_before_the_common_kinds_is_read() -> None:
    """`older_schedule.json` was written when encoders had kinds of tasks of their own."""
    text = Path(__file__).with_name("older_schedule.json").read_text()
    modules = [ModuleStages("vision", chunks=2, first_backward=1)]
    modules.append(ModuleStages("audio", first_backward=1, prefetch=1))
    chunks = {"vision": ChunkCosts((0.5, 0.5), (0.0, 1.0)), "audio": ChunkCosts((0.5,), (0.0,))}
    feeds = [Feed("vision", consumers=((0, 1),)), Feed("audio")]
    costs = TaskCosts(1.0, 2.0, sources=chunks)
    made = place_modules(interleaved_schedule(2, 2, 2), modules, costs, feeds=feeds)
    assert Schedule.from_json(text) == made
