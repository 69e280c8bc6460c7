"""Frames: rows say what the schedule says, and whatever fits a frame runs on it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.planning.independent_microbatches import plan_units
from scheduling.lowering.bounds import PHASES, RARE, Frame, leaves
from scheduling.lowering.lower import compile_program
from scheduling.lowering.lowered import BundleKind, Program
from scheduling.schedules.schedule import Schedule, ScheduleError, interleaved
from scheduling.schedules.task_kinds import EB, EF, B, F, TaskKind, W
from scheduling.schedules.tasks import EncoderPieces
from tests.scheduling import placing

TaskOfModule = tuple[TaskKind, str]


def bundles(schedule: Schedule, tick: int, stage: int) -> list[TaskOfModule]:
    return [(task.kind, task.module) for task in schedule.ticks[tick][stage]]


def entries(frame: Frame, program: Program) -> dict[str, Any]:
    """Every entry of the rows: `[stages, 1 + ticks]`, or `[1 + ticks]`."""
    rows = frame.rows(program)
    return frame.row([*np.moveaxis(rows.own, 2, 0)], [*rows.joint.T])


def runs(frame: Frame, program: Program) -> dict[tuple[int, int], list[BundleKind]]:
    """Kinds that run, by tick and stage, in the order of the loops."""
    made, found = frame.rows(program), defaultdict(list)
    row = entries(frame, program)
    for phase, ticks in enumerate(program.schedule.phases):
        assert made.bounds[phase : phase + 2].tolist() == [ticks.start, ticks.stop] or not ticks
        for kind in frame.kinds[phase]:
            for tick in ticks:
                for stage in range(frame.stages):
                    if row["runs"][str(kind)][stage, 1 + tick] == 1:
                        found[tick, stage].append(kind)
    return found


@settings(max_examples=60)
@given(schedule=placing.schedules())
def test_bundles_run_whole(schedule: Schedule) -> None:
    program = compile_program(schedule, "full")
    found = runs(Frame.of(program), program)
    for tick in range(len(schedule.ticks)):
        for stage in range(schedule.stages):
            kinds = [list(kind.tasks) for kind in found[tick, stage]]
            tasks = bundles(schedule, tick, stage)
            if len(tasks) < 2 or share_of(program, tick, stage) >= RARE:
                assert kinds == [tasks]
            run = [task for kind in kinds for task in kind]
            assert sorted(map(str, run)) == sorted(map(str, tasks))


def share_of(program: Program, tick: int, stage: int) -> float:
    """Share of a program's bundles that are of the kind of this one."""
    return float((program.codes == program.codes[tick, stage]).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rare_kinds_run_in_parts(seed: int) -> None:
    whole = placing.naive(interleaved(4, 1, 48), [EncoderPieces("vision")])
    program = compile_program(placing.at_random(whole, seed), "full")
    frame, found = Frame.of(program), runs(Frame.of(program), program)
    compiled = {kind for kinds in frame.kinds for kind in kinds}
    rare, several = 0, 0
    for (tick, stage), kinds in found.items():
        bundle = program.decoded(int(program.codes[tick, stage]))
        several += len(bundle.tasks) > 1
        if share_of(program, tick, stage) < RARE and len(bundle.tasks) > 1:
            rare += 1
            assert bundle not in compiled
            assert len(kinds) > 1
            parts = [single for kind in kinds for single in kind.singles]
            assert sorted(map(str, parts)) == sorted(map(str, bundle.singles))
    assert 0 < rare < several


@settings(max_examples=60)
@given(schedule=placing.schedules())
def test_tasks_apart_read_slots_before_others_write_them(schedule: Schedule) -> None:
    program = compile_program(schedule, "full")
    found = runs(Frame.of(program, apart=True), program)
    order = {W: 0, B: 1, F: 2, EB: 3, EF: 4}
    for tick in range(len(schedule.ticks)):
        for stage in range(schedule.stages):
            tasks = sorted(bundles(schedule, tick, stage), key=lambda task: order[task[0]])
            assert [kind.tasks for kind in found[tick, stage]] == [(task,) for task in tasks]


@settings(max_examples=60)
@given(
    schedule=placing.schedules(), seeds=st.tuples(*[st.integers(0, 2**16)] * 2), apart=st.booleans()
)
def test_other_schedules_run_on_an_open_frame(
    schedule: Schedule, seeds: tuple[int, int], apart: bool
) -> None:
    first, second = (compile_program(placing.at_random(schedule, seed), "full") for seed in seeds)
    frame = Frame.of(first, apart=apart).joined(Frame.of(second))
    frame = replace(frame, kinds=Frame.of(first, apart=apart).kinds).opened(frame.ticks)
    for program in (first, second):
        found = runs(frame, program)
        for tick in range(len(program.schedule.ticks)):
            for stage in range(schedule.stages):
                kinds = found[tick, stage]
                tasks = [task for kind in kinds for task in kind.tasks]
                assert sorted(map(str, tasks)) == sorted(
                    map(str, bundles(program.schedule, tick, stage))
                )
                backward = [kind for kind, _ in tasks if kind in (EB, EF)]
                assert backward == sorted(backward, key=lambda kind: kind is EF) or len(kinds) == 1


def test_no_forward_runs_after_the_decoder_unless_an_encoder_works_ahead() -> None:
    """Nothing would read its outputs, and every loop of a task takes its time to compile."""
    epilogue = Frame.of(program_of()).opened(99).kinds[2]
    assert BundleKind.single(EB, "vision") in epilogue
    assert BundleKind.single(EF, "vision") not in epilogue


@settings(max_examples=60)
@given(schedule=placing.schedules(), more=st.integers(0, 3))
def test_rows_are_the_tables(schedule: Schedule, more: int) -> None:
    program = compile_program(schedule, "layer")
    frame = Frame.of(program).opened(len(schedule.ticks) + more)
    row, count = leaves(entries(frame, program)), len(schedule.ticks)
    assert {table.dtype for table in row.values()} == {np.dtype(np.int32)}
    assert {table.shape[-1] for table in row.values()} == {1 + frame.ticks}
    for path, table in leaves(program.tables()).items():
        own = row[path][..., 1:]
        assert (own[..., count:] == -1).all()
        if path[-1] not in ("deliver", "deliver_count", "embed_microbatch", "embed_input"):
            assert (own[..., :count] == table.T).all()
    assert (row["tick",][1 : 1 + count] == np.arange(count)).all()
    assert (row["meets",][1 : 1 + count] == schedule.meetings).all()


@settings(max_examples=60)
@given(schedule=placing.schedules())
def test_a_microbatch_enters_in_the_last_meeting_before_its_first_tick(schedule: Schedule) -> None:
    program = compile_program(schedule, "layer")
    frame = Frame.of(program)
    column = entries(frame, program)["embed_microbatch"]
    ticks, microbatches = schedule.found(F, 0, 0)
    first = schedule.ticks[schedule.span.start][0][0].microbatch
    assert column[0] == first
    assert sorted(microbatches) == [*range(schedule.microbatches)]
    for tick, microbatch in zip(ticks, microbatches, strict=True):
        meeting = int(schedule.last_meeting[tick])
        if meeting >= 0:
            assert column[1 + meeting] == microbatch


# ---- what does not fit ---------------------------------------------------------------------------


def program_of(stages: int = 2, microbatches: int = 4, **cut: Any) -> Program:
    encoder = EncoderPieces("vision", **cut)
    schedule = placing.naive(interleaved(stages, 1, microbatches), [encoder])
    return compile_program(schedule, "full")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (program_of(stages=4), "stages: 4 does not fit the compiled step; valid: 2"),
        (program_of(microbatches=6), "microbatches: 6 does not fit"),
        (program_of(pieces=2), r"encoders: .*pieces=2.* does not fit"),
    ],
)
def test_what_all_programs_share_is_checked(other: Program, message: str) -> None:
    frame = Frame.of(program_of())
    with pytest.raises(ScheduleError, match=message):
        frame.rows(other)
    with pytest.raises(ScheduleError, match=message):
        frame.joined(Frame.of(other))


def test_more_slots_than_compiled_are_named() -> None:
    program = program_of()
    frame = Frame.of(program)
    for buffer, size in asdict(frame.sizes).items():
        if size:
            less = replace(frame, sizes=replace(frame.sizes, **{buffer: size - 1}))
            message = f"decoder: slots of {buffer}: {size} do not fit .* at most {size - 1}"
            with pytest.raises(ScheduleError, match=message):
                less.rows(program)
    own = frame.encoders["vision"]
    less = replace(frame, encoders={"vision": replace(own, slots=own.slots - 1)})
    with pytest.raises(ScheduleError, match="vision: microbatches of a pipeline"):
        less.rows(program)
    with pytest.raises(ScheduleError, match=r"ticks: \d+ do not fit"):
        replace(frame, ticks=frame.ticks - 1).rows(program)


def test_kinds_that_are_not_compiled_are_named() -> None:
    program = program_of()
    frame = Frame.of(program, apart=True)
    kinds = tuple(tuple(k for k in own if k != BundleKind.single(B)) for own in frame.kinds)
    with pytest.raises(ScheduleError, match=r"bundles B are not compiled for the middle; valid: F"):
        replace(frame, kinds=kinds).rows(program)


@settings(max_examples=40)
@given(schedule=placing.schedules(), seeds=st.tuples(*[st.integers(0, 2**16)] * 2))
def test_a_joined_frame_is_as_small_as_both_allow(
    schedule: Schedule, seeds: tuple[int, int]
) -> None:
    frames = [
        Frame.of(compile_program(placing.at_random(schedule, seed), "none")) for seed in seeds
    ]
    joined = frames[0].joined(frames[1])
    for name, size in asdict(joined.sizes).items():
        assert size == max(getattr(frame.sizes, name) for frame in frames)
    assume(joined.encoders)
    for name, own in joined.encoders.items():
        assert own.slots == max(frame.encoders[name].slots for frame in frames)
    assert joined.joined(joined) == joined
    for phase in range(len(PHASES)):
        assert set(joined.kinds[phase]) == {k for frame in frames for k in frame.kinds[phase]}


@settings(max_examples=40)
@given(data=st.data(), stages=st.sampled_from([1, 2, 4]), microbatches=st.integers(1, 8))
def test_schedules_of_smaller_loads_fit_the_frame_of_the_full_one(
    data: st.DataObject, stages: int, microbatches: int
) -> None:
    """All but for slots: kinds of bundles, ticks and pairs are enough for every load."""
    decoder = interleaved(stages, 1, microbatches)
    cut = EncoderPieces("vision", 2, 1, 2)
    frame = Frame.following(compile_program(placing.naive(decoder, [cut]), "layer"))
    fills = st.lists(st.integers(0, 8), min_size=microbatches, max_size=microbatches)
    loads = data.draw(st.lists(fills, min_size=1, max_size=3))
    units = plan_units(media_of(loads), len(loads), 8, together=True)
    own = placing.naive(decoder, [replace(cut, feeds=units.feeds)])
    program = compile_program(own, "layer")
    enough = program.encoders["vision"]
    slots = {
        name: replace(own, sizes=enough.sizes, slots=max(own.slots, enough.slots))
        for name, own in frame.encoders.items()
    }
    roomy = replace(frame, encoders=slots, sizes=program.sizes)
    assert roomy.excess(program) is None
    assert roomy.rows(program).bounds[-1] == len(program.schedule.ticks)


def media_of(loads: Sequence[Sequence[int]]) -> list[NDArray[np.int64]]:
    """A medium of each row and microbatch with so many positions, `[media, 5]` by microbatch."""
    rows = [
        [[row, 0, n, 1, 1] for row, n in enumerate(own) if n] for own in zip(*loads, strict=True)
    ]
    return [np.array(own, np.int64).reshape(-1, 5) for own in rows]


def test_pairs_of_rows_that_fill_by_themselves_may_be_too_many() -> None:
    """A row that is full early and one that is full late, each in eight of sixteen microbatches."""
    media = media_of([[8] * 8 + [0] * 8, [0] * 8 + [8] * 8])
    decoder, cut = interleaved(1, 1, 16), EncoderPieces("vision")
    frame = Frame.following(compile_program(placing.naive(decoder, [cut]), "layer"))

    def excess(together: bool) -> str | None:
        feeds = plan_units(media, 2, 8, together=together).feeds
        return frame.excess(
            compile_program(placing.naive(decoder, [replace(cut, feeds=feeds)]), "layer")
        )

    assert "pairs of microbatches on a stage: 72 do not fit" in str(excess(together=False))
    assert excess(together=True) is None
