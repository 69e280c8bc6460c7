"""Optimus by hand: what fits before, after and inside the decoder's run, and published figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.systems import optimus as module
from benchmarks.systems.chain import LayerChain, decoder_alone
from benchmarks.systems.loads import UnevenLoads
from benchmarks.systems.optimus import run_optimus
from benchmarks.systems.packing import EncoderPacking, PipelineDirection, StageWork, _join_times
from scheduling.schedules.schedule import ScheduleError
from sharding.plan import ParallelPlan
from tests.benchmarks.systems.test_chain import chain
from tests.scheduling import workloads as small

#: Start, end and idle share of the tasks of one stage.
Row = list[tuple[float, float, float]]
LATE = 1e9


@pytest.fixture(autouse=True)
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders fill bubbles to the brim, unless a test says something else."""
    monkeypatch.setattr(module, "FILLED", 1.0)


def side(rows: list[Row], deadlines: list[float], begin: float = 0.0) -> PipelineDirection:
    return module._make_direction(rows, np.array(deadlines), begin)


def packing(
    own: PipelineDirection, seconds: float, counts: list[int], stages: int = 1
) -> EncoderPacking:
    """All microbatches outside."""
    return EncoderPacking(
        own, StageWork(seconds, seconds), stages, tuple(counts), (0,) * len(counts)
    )


# ---- before and after the decoder's run ----------------------------------------------------------


def test_what_fits_before_the_decoder_is_hidden() -> None:
    own = side([[(5.0, 9.0, 0.0)]], [LATE] * 2)
    assert packing(own, 2.5, [2]).longest_exposed == 0


def test_what_does_not_fit_is_exposed_by_the_difference() -> None:
    own = side([[(5.0, 9.0, 0.0)]], [LATE] * 2)
    assert packing(own, 3.0, [2]).longest_exposed == 1
    # Its own parameters come first.
    gathered = side([[(5.0, 9.0, 0.0)]], [LATE] * 2, begin=1.5)
    assert packing(gathered, 3.0, [2]).longest_exposed == 2.5


def test_stages_of_an_encoder_pipeline_begin_one_after_the_other() -> None:
    # Two microbatches of 2 s: the second stage is done after 6 s, the first after 4 s.
    own = side([[(4.0, 9.0, 0.0)], [(5.0, 9.0, 0.0)]], [LATE] * 2)
    made = packing(own, 2.0, [2], stages=2)
    assert made.exposed_seconds(0) == made.longest_exposed == 1


def test_pipelines_have_the_room_of_their_own_stages() -> None:
    own = side([[(1.0, 9.0, 0.0)], [(5.0, 9.0, 0.0)]], [LATE] * 4)
    # Four pipelines of one stage: two on each of the decoder's two stages.
    made = packing(own, 2.0, [1, 1, 1, 1])
    assert [made.exposed_seconds(q) for q in range(4)] == [1, 0, 1, 0]
    assert made.longest_exposed == 1


def test_inputs_that_come_too_late_delay_the_decoder() -> None:
    own = side([[(1.0, 2.0, 0.0)], [(9.0, 10.0, 0.0)]], [1.0, 4.0])
    # On the second stage there is room, but the decoder needs both inputs before that.
    made = packing(own, 3.0, [0, 2])
    assert made.exposed_seconds(1) == 0
    assert made.longest_exposed == 2  # at 3 s and 6 s instead of 1 s and 4 s
    assert made.meets_deadlines


# ---- inside it -----------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Tasks, some with idle shares, some with gaps between them."""
    clock, made = draw(st.integers(0, 4)) * 1.0, []
    for _ in range(draw(st.integers(1, 6))):
        end = clock + draw(st.integers(1, 4))
        made.append((clock, end, draw(st.sampled_from([0.0, 0.1, 0.5]))))
        clock = end + draw(st.sampled_from([0, 0, 1, 3]))
    return made


def bubbles(row: Row, until: float) -> float:
    """Seconds of bubbles of a row up to a time, gap by gap and task by task."""
    total, clock = 0.0, row[0][0]
    for start, end, share in row:
        total += max(0.0, min(start, until) - clock)
        total += share * max(0.0, min(end, until) - start)
        clock = end
    return total


@given(rows(), st.floats(0, 30), st.floats(0.01, 10))
def test_packing_is_the_inverse_of_the_bubbles(row: Row, start: float, seconds: float) -> None:
    own = side([row], [])
    end = own.time_after(0, start, seconds)
    before = bubbles(row, start)
    left = bubbles(row, LATE) - before
    if end == float("inf"):
        assert seconds > left - 1e-9
        return
    assert end >= start
    assert bubbles(row, end) - before == pytest.approx(seconds)
    # No earlier: just before it, there was less.
    assert bubbles(row, end - 1e-3) - before < seconds
    # In two parts it takes as long.
    assert own.time_after(0, own.time_after(0, start, seconds / 2), seconds / 2) == pytest.approx(
        end
    )


def test_one_microbatch_goes_into_a_gap() -> None:
    row = [(2.0, 4.0, 0.0), (7.0, 8.0, 0.0), (8.0, 12.0, 0.25)]
    made = packing(side([row], [2.0, 8.0]), 2.0, [2])
    assert made.longest_exposed == 2
    fine = made.find_finest()
    # Until 6 s, in the gap from 4 s to 7 s.
    assert (fine.outside, fine.inside, fine.longest_exposed) == ((1,), (1,), 0)
    assert fine._inside_ends() == [[6.0]]
    # In the gap and two thirds of the last task.
    longer = replace(fine, work=StageWork(2.0, 3.5))
    assert longer._inside_ends() == [[10.0]]
    assert not longer.meets_deadlines


def test_deadlines_bind_inside_however_late_the_decoder_is() -> None:
    """Exposed encoder work delays the run and the bubbles inside it alike."""
    row = [(1.0, 4.0, 0.0), (6.0, 8.0, 0.0)]
    # One more inside ends at 5 s of the run; the decoder needs it at 4 s of it.
    made = packing(side([row], [1.0, 3.0, 4.0]), 1.0, [3])
    assert made.longest_exposed == 2
    assert made.meets_deadlines
    assert not made.move_inside(0).meets_deadlines
    assert made.find_finest() == made
    later = packing(side([row], [1.0, 3.0, 5.0]), 1.0, [3])
    assert later.find_finest().inside == (1,)


@st.composite
def packings(draw: st.DrawFn) -> EncoderPacking:
    """Pipelines of one or two stages over two stages of a decoder."""
    made = [draw(rows()), draw(rows())]
    stages = draw(st.sampled_from([1, 2]))
    counts = draw(st.lists(st.integers(0, 3), min_size=2 // stages, max_size=4 // stages))
    counts = counts[: len(counts) // (2 // stages) * (2 // stages)]
    times = draw(st.lists(st.integers(0, 40), min_size=sum(counts), max_size=sum(counts)))
    own = side(made, [float(time) for time in sorted(times)])
    return packing(own, draw(st.sampled_from([0.5, 1.0, 2.0])), counts, stages)


@given(packings())
def test_packing_inside_exposes_no_more_and_keeps_deadlines(made: EncoderPacking) -> None:
    fine = made.find_finest()
    assert fine.longest_exposed <= made.longest_exposed
    assert made.meets_deadlines
    assert fine.meets_deadlines
    pairs = zip(made.outside, fine.outside, fine.inside, strict=True)
    assert all(before == outside + inside for before, outside, inside in pairs)
    late = fine.longest_exposed
    outside, inside = (
        _join_times(fine._outside_ends()),
        _join_times(map(np.array, fine._inside_ends())),
    )
    finished = np.sort([*outside, *(inside + late)])
    for end, deadline in zip(finished, made.side.deadlines, strict=True):
        assert end <= deadline + late + 1e-6


@given(packings(), st.floats(0, 5))
def test_more_room_never_exposes_more(made: EncoderPacking, more: float) -> None:
    own = made.side
    later = replace(
        own,
        room=tuple(room + more for room in own.room),
        points=tuple(points + more for points in own.points),
        deadlines=own.deadlines + more,
    )
    wider = replace(made, side=later)
    assert wider.longest_exposed <= made.longest_exposed + 1e-9
    assert wider.find_finest().longest_exposed <= made.find_finest().longest_exposed + 1e-9


# ---- whole steps ---------------------------------------------------------------------------------


def made_of(own: LayerChain, memory: float = 1e12) -> module.OptimusStep:
    return run_optimus(own, decoder_alone(own).simulation, memory)


def test_encoders_that_cost_little_make_the_step_no_longer() -> None:
    own = chain(small.workload(encoders=[("vision", 16, 2)]), ParallelPlan(stage=2))
    made = made_of(own)
    alone = decoder_alone(own).simulation.makespan
    assert made.seconds >= alone
    assert made.coarse <= made.hidden <= 1
    heavy = made_of(chain(small.workload(encoders=[("vision", 256, 2)]), ParallelPlan(stage=2)))
    assert heavy.hidden < made.hidden


def test_without_encoders_nothing_is_exposed() -> None:
    own = chain(small.workload(encoders=()), ParallelPlan(stage=2))
    assert made_of(own).seconds == decoder_alone(own).simulation.makespan


def test_more_bubbles_in_tasks_never_make_the_step_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = small.workload(64, encoders=[("vision", 32, 4)])
    own = chain(workload, ParallelPlan(stage=2, tensor=4), microbatches=32, chunks=2)
    seconds = []
    for filled in (0.0, 0.2, 0.5, 1.0):
        monkeypatch.setattr(module, "FILLED", filled)
        seconds.append(made_of(own).seconds)
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] < seconds[0]


def test_plans_of_encoders_keep_to_the_memory_given() -> None:
    own = chain(small.workload(), ParallelPlan(stage=2, tensor=2))
    tight, wide = made_of(own, 0.0), made_of(own)
    assert (tight.stages, tight.tensor) == (2, 2)
    assert wide.seconds < tight.seconds
    parameters = sum(tower.parameters for tower in own.workload.sources.values())
    ways = wide.stages * wide.tensor
    needed = 6 * (parameters / ways - parameters / 4)
    assert made_of(own, needed) == wide
    assert made_of(own, needed * 0.999) != wide


def test_encoders_whose_layers_go_over_no_stages_need_memory() -> None:
    own = chain(small.workload(encoders=[("vision", 32, 3)]), ParallelPlan(stage=2))
    assert made_of(own).stages == 1
    with pytest.raises(ScheduleError, match="no plan has equal stages"):
        made_of(own, 0.0)


def test_frozen_encoders_have_nothing_after_the_decoder() -> None:
    workload = small.workload(encoders=[("vision", 128, 4)])
    own = chain(workload, ParallelPlan(stage=2))
    frozen = replace(own, workload=replace(workload, frozen=frozenset(["vision"])))
    forward, backward = (module._stage_work(frozen, kind, 1, 1) for kind in ("forward", "backward"))
    assert forward == module._stage_work(own, "forward", 1, 1)
    assert backward == StageWork(0, 0)
    assert made_of(frozen).seconds < made_of(own).seconds


def test_an_encoder_does_the_same_work_under_every_plan() -> None:
    """A device computes as much for its pipeline's microbatches, however these are cut."""
    own = chain(small.workload(), ParallelPlan(stage=2, tensor=2))
    # Pipelines on the decoder's devices: each has so much fewer microbatches.
    works = {
        (stages, tensor): module._stage_work(own, "forward", stages, tensor).compute
        / (2 // stages * (2 // tensor))
        for stages in (1, 2)
        for tensor in (1, 2)
    }
    assert works == pytest.approx(dict.fromkeys(works, works[2, 2]))


def test_wider_plans_of_encoders_pay_for_their_own_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that holds more of an encoder gathers and scatters more, over the same links."""
    own = chain(small.workload(encoders=[("vision", 16, 2)]), ParallelPlan(data=2, stage=2))
    alone = decoder_alone(own).simulation
    # Encoders that compute nothing: what is left are their gathers, scatters and optimizer.
    monkeypatch.setattr(module, "_stage_work", lambda *_: StageWork(0.0, 0.0))
    vision = own.workload.modules["vision"]
    for stages in (1, 2):
        made = module._with_plan(own, alone, stages, 1)
        ranks, held = 4 // stages, vision.parameters / stages
        moved = sum(own.hardware.group_seconds(size * held, ranks, 4) for size in (2, 4))
        update = 7 * 4 * held / ranks / (1e9 * 0.8)
        assert made.seconds - alone.makespan == pytest.approx(moved + update)


# ---- microbatches of unequal work ----------------------------------------------------------------


@given(packings(), st.data())
def test_unequal_microbatches_go_through_their_pipelines_in_turn(
    made: EncoderPacking, data: st.DataObject
) -> None:
    """On every stage a microbatch waits for itself on the one before and for the one before it."""
    weight = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    counts = [outside + inside for outside, inside in zip(made.outside, made.inside, strict=True)]
    weights = [data.draw(st.lists(weight, min_size=n, max_size=n)) for n in counts]
    own = replace(made, weights=tuple(np.array(each) for each in weights))
    for pipeline, each in enumerate(weights):
        before = [0.0] * len(each)
        for stage in range(made.stages):
            clock, ends = 0.0, []
            for ready, one in zip(before, each, strict=True):
                clock = max(clock, ready) + one * made.work.seconds
                ends.append(clock)
            assert own._stage_ends(pipeline, stage).tolist() == pytest.approx(ends)
            before = ends


@given(packings(), st.sampled_from([0.5, 1.0, 2.5]))
def test_equal_weights_are_as_much_more_work(made: EncoderPacking, weight: float) -> None:
    fine = made.find_finest()
    counts = [outside + inside for outside, inside in zip(fine.outside, fine.inside, strict=True)]
    weighed = replace(fine, weights=tuple(np.full(n, weight) for n in counts))
    work = StageWork(weight * made.work.seconds, weight * made.work.compute)
    if any(counts):
        assert weighed.delay == pytest.approx(replace(fine, work=work).delay)


@given(packings())
def test_every_place_has_a_microbatch_of_its_own_in_the_order_of_their_ends(
    made: EncoderPacking,
) -> None:
    fine = made.find_finest()
    pairs = [
        (number, end)
        for numbers, ends in zip(fine.microbatch_numbers, fine._all_ends, strict=True)
        for number, end in zip(numbers.tolist(), ends.tolist(), strict=True)
    ]
    assert sorted(number for number, _ in pairs) == list(range(len(pairs)))
    assert [end for _, end in sorted(pairs)] == sorted(end for _, end in pairs)


def test_the_first_microbatch_of_the_forwards_is_the_last_of_the_backwards() -> None:
    own = chain(plan=ParallelPlan(stage=2))
    shares = np.arange(8.0)[None]
    forward, backward = module._direction_weights(own, UnevenLoads({"vision": shares}), (1, 1))
    assert forward[:, 0].tolist() == pytest.approx([0.5, 2.5, 4.5, 6.5])
    assert backward.tolist() == forward[::-1].tolist()
