"""Bounds: rows say what the schedule says, and whatever fits bounds runs on it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.planning.independent_microbatches import plan_independent_microbatches
from scheduling.lowering.bounds import PHASES, ScheduleBounds
from scheduling.lowering.fused_kinds import RARE_SHARE
from scheduling.lowering.instructions import TickRow
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import FusedKind, LoweredSchedule
from scheduling.lowering.trees import flat_leaves
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages
from tests.scheduling import placing

TaskOfModule = tuple[TaskKind, str]


def tasks_at(schedule: Schedule, tick: int, stage: int) -> list[TaskOfModule]:
    return [(task.kind, task.module) for task in schedule.ticks[tick][stage]]


def entries(bounds: ScheduleBounds, program: LoweredSchedule) -> TickRow[Any]:
    """Every entry of the rows: `[stages, 1 + ticks]`, or `[1 + ticks]`."""
    rows = bounds.make_instructions(program)
    return bounds.unpack_row([*np.moveaxis(rows.by_stage, 2, 0)], [*rows.joint.T])


def runs(
    bounds: ScheduleBounds, program: LoweredSchedule
) -> dict[tuple[int, int], list[FusedKind]]:
    """Kinds that run, by tick and stage, in the order of the loops."""
    made, found = bounds.make_instructions(program), defaultdict(list)
    row = entries(bounds, program)
    for phase, ticks in enumerate(program.schedule.phases):
        assert made.phases[phase : phase + 2].tolist() == [ticks.start, ticks.stop] or not ticks
        for kind in bounds.kinds[phase]:
            for tick in ticks:
                for stage in range(bounds.stages):
                    if row.runs[str(kind)][stage, 1 + tick] == 1:
                        found[tick, stage].append(kind)
    return found


@given(schedule=placing.schedules())
def test_fused_tasks_run_all_their_tasks(schedule: Schedule) -> None:
    program = lower_schedule(schedule, "full")
    found = runs(ScheduleBounds.of_schedule(program), program)
    for tick in range(len(schedule.ticks)):
        for stage in range(schedule.stages):
            kinds = [list(kind.tasks) for kind in found[tick, stage]]
            tasks = tasks_at(schedule, tick, stage)
            if len(tasks) < 2 or share_of(program, tick, stage) >= RARE_SHARE:
                assert kinds == [tasks]
            run = [task for kind in kinds for task in kind]
            assert sorted(map(str, run)) == sorted(map(str, tasks))


def share_of(program: LoweredSchedule, tick: int, stage: int) -> float:
    """Share of a program's fused tasks that are of the kind of this one."""
    return float((program.codes == program.codes[tick, stage]).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rare_kinds_run_in_parts(seed: int) -> None:
    whole = placing.naive(interleaved_schedule(4, 1, 48), [ModuleStages("vision")])
    program = lower_schedule(placing.at_random(whole, seed), "full")
    bounds, found = (
        ScheduleBounds.of_schedule(program),
        runs(ScheduleBounds.of_schedule(program), program),
    )
    compiled = {kind for kinds in bounds.kinds for kind in kinds}
    rare, several = 0, 0
    for (tick, stage), kinds in found.items():
        fused = program.kind_of_code(int(program.codes[tick, stage]))
        several += len(fused.tasks) > 1
        if share_of(program, tick, stage) < RARE_SHARE and len(fused.tasks) > 1:
            rare += 1
            assert fused not in compiled
            assert len(kinds) > 1
            parts = [single for kind in kinds for single in kind.single_tasks]
            assert sorted(map(str, parts)) == sorted(map(str, fused.single_tasks))
    assert 0 < rare < several


@given(schedule=placing.schedules())
def test_tasks_apart_read_slots_before_others_write_them(schedule: Schedule) -> None:
    program = lower_schedule(schedule, "full")
    found = runs(ScheduleBounds.of_schedule(program, single_tasks=True), program)
    order = {(W, True): 0, (B, True): 1, (F, True): 2, (B, False): 3, (F, False): 4}

    def place(task: tuple[TaskKind, str]) -> int:
        return order[task[0], task[1] == BACKBONE]

    for tick in range(len(schedule.ticks)):
        for stage in range(schedule.stages):
            tasks = sorted(tasks_at(schedule, tick, stage), key=place)
            assert [kind.tasks for kind in found[tick, stage]] == [(task,) for task in tasks]


@given(
    schedule=placing.schedules(), seeds=st.tuples(*[st.integers(0, 2**16)] * 2), apart=st.booleans()
)
def test_other_schedules_run_on_an_open_frame(
    schedule: Schedule, seeds: tuple[int, int], apart: bool
) -> None:
    first, second = (lower_schedule(placing.at_random(schedule, seed), "full") for seed in seeds)
    bounds = ScheduleBounds.of_schedule(first, single_tasks=apart).union_with(
        ScheduleBounds.of_schedule(second)
    )
    bounds = replace(
        bounds, kinds=ScheduleBounds.of_schedule(first, single_tasks=apart).kinds
    ).without_order(bounds.ticks)
    for program in (first, second):
        found = runs(bounds, program)
        for tick in range(len(program.schedule.ticks)):
            for stage in range(schedule.stages):
                kinds = found[tick, stage]
                tasks = [task for kind in kinds for task in kind.tasks]
                assert sorted(map(str, tasks)) == sorted(
                    map(str, tasks_at(program.schedule, tick, stage))
                )
                backward = [kind for kind, module in tasks if module != BACKBONE]
                assert backward == sorted(backward, key=lambda kind: kind is F) or len(kinds) == 1


def test_no_forward_runs_after_the_decoder_unless_an_encoder_works_ahead() -> None:
    """Nothing would read its outputs, and every loop of a task takes its time to compile."""
    epilogue = ScheduleBounds.of_schedule(program_of()).without_order(99).kinds[2]
    assert FusedKind.of_task(B, "vision") in epilogue
    assert FusedKind.of_task(F, "vision") not in epilogue


@given(schedule=placing.schedules(), more=st.integers(0, 3))
def test_rows_are_the_tables(schedule: Schedule, more: int) -> None:
    program = lower_schedule(schedule, "layer")
    bounds = ScheduleBounds.of_schedule(program).without_order(len(schedule.ticks) + more)
    row, count = flat_leaves(entries(bounds, program)), len(schedule.ticks)
    assert {table.dtype for table in row.values()} == {np.dtype(np.int32)}
    assert {table.shape[-1] for table in row.values()} == {1 + bounds.ticks}
    tables = {
        "modules": {name: module.tables for name, module in program.modules.items()},
        "feeds": tuple(feed.tables for feed in program.feeds),
    }
    for path, table in flat_leaves(tables).items():
        own = row[path][..., 1:]
        assert (own[..., count:] == -1).all()
        if path[-1] not in ("merge_first", "merge_count", "embed_microbatch", "embed_input"):
            assert (own[..., :count] == table.T).all()
    assert (row["tick",][1 : 1 + count] == np.arange(count)).all()
    assert (row["syncs",][1 : 1 + count] == schedule.stage_syncs).all()


@given(schedule=placing.schedules())
def test_a_microbatch_enters_in_the_last_meeting_before_its_first_tick(schedule: Schedule) -> None:
    program = lower_schedule(schedule, "layer")
    bounds = ScheduleBounds.of_schedule(program)
    ends = entries(bounds, program).modules[BACKBONE].ends
    assert ends is not None
    column = ends.embed_microbatch
    ticks, microbatches = schedule.tasks_of(F, 0)
    first = schedule.ticks[schedule.span.start][0][0].microbatch
    assert column[0] == first
    assert sorted(microbatches) == [*range(schedule.microbatches)]
    for tick, microbatch in zip(ticks, microbatches, strict=True):
        sync = int(schedule.last_sync[tick])
        if sync >= 0:
            assert column[1 + sync] == microbatch


# ---- what does not fit ---------------------------------------------------------------------------


def program_of(stages: int = 2, microbatches: int = 4, **cut: Any) -> LoweredSchedule:
    encoder = ModuleStages("vision", **cut)
    schedule = placing.naive(interleaved_schedule(stages, 1, microbatches), [encoder])
    return lower_schedule(schedule, "full")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (program_of(stages=4), "stages: 4 does not fit the compiled step; valid: 2"),
        (program_of(microbatches=6), "microbatches: 6 does not fit"),
        (program_of(chunks=2), r"modules: .*chunks=2.* does not fit"),
    ],
)
def test_what_all_programs_share_is_checked(other: LoweredSchedule, message: str) -> None:
    bounds = ScheduleBounds.of_schedule(program_of())
    with pytest.raises(ScheduleError, match=message):
        bounds.make_instructions(other)
    with pytest.raises(ScheduleError, match=message):
        bounds.union_with(ScheduleBounds.of_schedule(other))


def test_more_slots_than_compiled_are_named() -> None:
    program = program_of()
    bounds = ScheduleBounds.of_schedule(program)
    for name, module in bounds.modules.items():
        for buffer, size in asdict(module.sizes).items():
            if size:
                sizes = replace(module.sizes, **{buffer: size - 1})
                message = f"{name}: slots of {buffer}: {size} do not fit .* at most {size - 1}"
                with pytest.raises(ScheduleError, match=message):
                    changed(bounds, name, sizes=sizes).make_instructions(program)
    less = changed(bounds, "vision", slots=bounds.modules["vision"].slots - 1)
    with pytest.raises(ScheduleError, match="vision: microbatches of a pipeline"):
        less.make_instructions(program)
    with pytest.raises(ScheduleError, match=r"ticks: \d+ do not fit"):
        replace(bounds, ticks=bounds.ticks - 1).make_instructions(program)


def changed(bounds: ScheduleBounds, name: str, **values: Any) -> ScheduleBounds:
    """Bounds with other values for one module."""
    module = replace(bounds.modules[name], **values)
    return replace(bounds, modules={**bounds.modules, name: module})


def test_kinds_that_are_not_compiled_are_named() -> None:
    program = program_of()
    bounds = ScheduleBounds.of_schedule(program, single_tasks=True)
    kinds = tuple(
        tuple(k for k in own if k != FusedKind.of_task(B, BACKBONE)) for own in bounds.kinds
    )
    with pytest.raises(
        ScheduleError,
        match="fused tasks decoder_B are not compiled for the middle; valid: decoder_F",
    ):
        replace(bounds, kinds=kinds).make_instructions(program)


@settings(max_examples=40)
@given(schedule=placing.schedules(), seeds=st.tuples(*[st.integers(0, 2**16)] * 2))
def test_a_joined_frame_is_as_small_as_both_allow(
    schedule: Schedule, seeds: tuple[int, int]
) -> None:
    every = [
        ScheduleBounds.of_schedule(lower_schedule(placing.at_random(schedule, seed), "none"))
        for seed in seeds
    ]
    joined = every[0].union_with(every[1])
    for name, own in joined.modules.items():
        for buffer, size in asdict(own.sizes).items():
            assert size == max(getattr(bounds.sizes[name], buffer) for bounds in every)
        assert own.slots == max(bounds.modules[name].slots for bounds in every)
    assert joined.union_with(joined) == joined
    for phase in range(len(PHASES)):
        assert set(joined.kinds[phase]) == {k for bounds in every for k in bounds.kinds[phase]}


@settings(max_examples=40)
@given(data=st.data(), stages=st.sampled_from([1, 2, 4]), microbatches=st.integers(1, 8))
def test_schedules_of_smaller_loads_fit_the_frame_of_the_full_one(
    data: st.DataObject, stages: int, microbatches: int
) -> None:
    """All but for slots: kinds of fused tasks, ticks and pairs are enough for every load."""
    decoder = interleaved_schedule(stages, 1, microbatches)
    cut = ModuleStages("vision", chunks=2)
    bounds = ScheduleBounds.for_independent_microbatches(
        lower_schedule(placing.naive(decoder, [cut]), "layer")
    )
    fills = st.lists(st.integers(0, 8), min_size=microbatches, max_size=microbatches)
    loads = data.draw(st.lists(fills, min_size=1, max_size=3))
    units = plan_independent_microbatches(media_of(loads), len(loads), 8, together=True)
    own = placing.naive(decoder, [cut], [Feed("vision", consumers=units.feeds)])
    program = lower_schedule(own, "layer")
    modules = {
        name: replace(
            own,
            sizes=program.sizes[name],
            slots=max(own.slots, program.modules[name].slots),
        )
        for name, own in bounds.modules.items()
    }
    roomy = replace(bounds, modules=modules)
    assert roomy.find_excess(program) is None
    assert roomy.make_instructions(program).phases[-1] == len(program.schedule.ticks)


def media_of(loads: Sequence[Sequence[int]]) -> list[NDArray[np.int64]]:
    """A medium of each row and microbatch with so many positions, `[media, 5]` by microbatch."""
    rows = [
        [[row, 0, n, 1, 1] for row, n in enumerate(own) if n] for own in zip(*loads, strict=True)
    ]
    return [np.array(own, np.int64).reshape(-1, 5) for own in rows]


def test_pairs_of_rows_that_fill_by_themselves_may_be_too_many() -> None:
    """A row that is full early and one that is full late, each in eight of sixteen microbatches."""
    media = media_of([[8] * 8 + [0] * 8, [0] * 8 + [8] * 8])
    decoder, cut = interleaved_schedule(1, 1, 16), ModuleStages("vision")
    bounds = ScheduleBounds.for_independent_microbatches(
        lower_schedule(placing.naive(decoder, [cut]), "layer")
    )

    def excess(together: bool) -> str | None:
        consumers = plan_independent_microbatches(media, 2, 8, together=together).feeds
        feeds = [Feed("vision", consumers=consumers)]
        schedule = placing.naive(decoder, [cut], feeds)
        return bounds.find_excess(lower_schedule(schedule, "layer"))

    assert "pairs of microbatches on a stage: 72 do not fit" in str(excess(together=False))
    assert excess(together=True) is None
