"""Lowered schedules: the right values in the right slots, and no more slots than needed."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduling.lowering.check import check_lowered
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import LoweredSchedule, Remat
from scheduling.lowering.trees import Path, flat_leaves
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
)
from scheduling.schedules.check import peak_live
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, ModuleStages, Task
from tests.scheduling import placing
from tests.timing import within

REMATS = st.sampled_from(get_args(Remat))
#: Of encoders; those that are not named keep what the decoder keeps.
OWN = st.dictionaries(st.sampled_from(["vision", "audio"]), REMATS)


@given(placing.schedules(), REMATS, OWN)
def test_programs_move_the_right_values(
    schedule: Schedule, remat: Remat, own: dict[str, Remat]
) -> None:
    program = lower_schedule(schedule, remat, own)
    check_lowered(program)
    assert program.backbone.remat == remat
    assert all(made.remat == own.get(name, remat) for name, made in program.sources.items())


# ---- mutants -------------------------------------------------------------------------------------


def paths(program: LoweredSchedule) -> Iterator[Path]:
    """Paths of all tables that have a row per tick."""
    for name, module in program.modules.items():
        yield from (("modules", name, "tables", *path) for path in flat_leaves(module.tables))
    for number, feed in enumerate(program.feeds):
        yield from (("feeds", str(number), "tables", *path) for path in flat_leaves(feed.tables))


def get(part: Any, path: Path) -> Any:
    for name in path:
        part = inside(part, name)
    return part


def inside(part: Any, name: str) -> Any:
    if isinstance(part, tuple):
        return part[int(name)]
    return part[name] if isinstance(part, Mapping) else getattr(part, name)


def put(part: Any, path: Path, value: Any) -> Any:
    """`part` with `value` at `path`."""
    if not path:
        return value
    inner = put(get(part, path[:1]), path[1:], value)
    if isinstance(part, tuple):
        return tuple(inner if number == int(path[0]) else own for number, own in enumerate(part))
    if isinstance(part, Mapping):
        return {**part, path[0]: inner}
    return replace(part, **{path[0]: inner})


def changed(table: NDArray[np.int32], draw: random.Random) -> NDArray[np.int32]:
    """`table` with one other entry, of those in use every other time."""
    mutant = table.copy()
    entries = np.argwhere(table >= 0)
    if not len(entries) or draw.random() < 0.5:
        entries = np.argwhere(table >= -1)
    index = tuple(entries[draw.randrange(len(entries))])
    values = [v for v in range(-1, int(np.max(table)) + 2) if v != table[index]]
    mutant[index] = draw.choice(values)
    return mutant


@settings(max_examples=150)
@given(schedule=placing.schedules(most=3), remat=REMATS, own=OWN, seed=st.integers(0, 2**16))
def test_every_changed_entry_is_caught(
    schedule: Schedule, remat: Remat, own: dict[str, Remat], seed: int
) -> None:
    draw = random.Random(seed)
    program = lower_schedule(schedule, remat, own)
    path = draw.choice(list(paths(program)))
    mutant = put(program, path, changed(get(program, path), draw))
    with pytest.raises(ScheduleError, match=r"tick \d+, stage \d+: "):
        check_lowered(mutant)


@given(schedule=placing.schedules(most=3), remat=REMATS)
def test_slots_beyond_a_buffer_are_caught(schedule: Schedule, remat: Remat) -> None:
    program = lower_schedule(schedule, remat)
    for path in (("modules", name, "sizes") for name in program.modules):
        sizes = get(program, path)
        for buffer, size in asdict(sizes).items():
            if size:
                mutant = put(program, path, replace(sizes, **{buffer: size - 1}))
                with pytest.raises(ScheduleError, match="is not there; valid: below"):
                    check_lowered(mutant)


@given(schedule=placing.schedules(), seed=st.integers(0, 2**16))
def test_wrong_facts_on_microbatches_are_caught(schedule: Schedule, seed: int) -> None:
    draw = random.Random(seed)
    program = lower_schedule(schedule, "full")
    for name, module in program.modules.items():
        for field in ("owners", "local", "prefetch_slot"):
            if len(getattr(module, field)):
                wrong = changed(getattr(module, field), draw)
                mutant = put(program, ("modules", name, field), wrong)
                with pytest.raises(ScheduleError):
                    check_lowered(mutant)
        mutant = put(program, ("modules", name, "slots"), module.slots + 1)
        with pytest.raises(ScheduleError, match=f"module '{name}': slots"):
            check_lowered(mutant)


def test_swapped_slots_are_named() -> None:
    program = lower_schedule(interleaved_schedule(2, 1, 4), "full")
    table = program.backbone.tables.backward.input.copy()
    assert table[2, 1] == 0
    table[2, 1] = 1
    with pytest.raises(ScheduleError) as caught:
        check_lowered(put(program, ("modules", BACKBONE, "tables", "backward", "input"), table))
    assert str(caught.value) == (
        "tick 2, stage 1: decoder input(0, 1) is needed, "
        "but slot 1 of decoder inputs holds decoder input(1, 1)"
    )


# ---- sizes ---------------------------------------------------------------------------------------

Span = tuple[int, int, int]


def most_alive(spans: list[Span]) -> int:
    """Most spans `(stage, written at the end of, last read in)` that are open on one stage."""
    counts = (
        sum(place == stage and written <= start < read for place, written, read in spans)
        for stage, start, _ in spans
    )
    return max(counts, default=0)


@given(schedule=placing.schedules(), remat=REMATS)
def test_decoder_buffers_hold_what_is_alive_and_no_more(schedule: Schedule, remat: Remat) -> None:
    ticks = {task: tick for tick, _, task in schedule}

    def made(task: Task) -> int:
        """The tick in which the input of `task` is made; stage 0 makes its own just in time."""
        needs = (other for other, _ in placing.needs(schedule, task))
        before = [other for other in needs if other.module == BACKBONE]
        return ticks[before[0]] if before else ticks[task] - 1

    inputs, saved, gradients = list[Span](), list[Span](), list[Span]()
    for _, stage, task in schedule:
        if (task.kind, task.module) == (F, BACKBONE):
            back = task._replace(kind=B)
            start, end = ticks[task], ticks[back]
            inputs.append((stage, made(task), end if remat == "full" else start))
            saved.append((stage, start, end))
            gradients.append((stage, made(back), end))
    sizes = lower_schedule(schedule, remat).backbone.sizes
    assert sizes.inputs == most_alive(inputs)
    assert sizes.saved == (0 if remat == "full" else most_alive(saved))
    assert sizes.gradients == most_alive(gradients)


def encoder_spans(
    schedule: Schedule, cut: ModuleStages, remat: Remat
) -> Iterator[tuple[str, Span]]:
    """Buffers of one encoder and how long each of their values waits."""
    when = {task: tick for tick, _, task in schedule}
    for tick, stage, task in schedule:
        if task.module != cut.name:
            continue
        last = task.chunk == cut.chunks - 1
        if task.kind == B:
            after = schedule.task_places.get(task._replace(chunk=task.chunk + 1), (0, 0))[0]
            fed = placing.fed_by(schedule, cut, task.microbatch)
            made = min(when[Task(B, BACKBONE, m)] for m in fed) if last else after
            yield "output_grad_buffer" if last else "gradients", (stage, made, tick)
            continue
        back = schedule.task_places.get(task._replace(kind=B), (0, 0))[0]
        if task.chunk:
            made = schedule.task_places[task._replace(chunk=task.chunk - 1)][0]
            yield "inputs", (stage, made, back if back and remat == "full" else tick)
        if back and remat != "full":
            yield "saved", (stage, tick, back)
        if last and task.microbatch < schedule.microbatches_of(cut.name):
            # The stage sync reads it, and what is made from then on may take its place.
            fed = placing.fed_by(schedule, cut, task.microbatch)
            enters = max(int(schedule.last_sync[when[Task(F, BACKBONE, m)]]) for m in fed)
            yield "output_buffer", (stage, tick, enters + 1)
        elif last:
            # Carried over from the step before and then to the next.
            yield "output_buffer", (stage, -1, len(schedule.ticks))


@given(schedule=placing.schedules(), remat=REMATS)
def test_encoder_buffers_hold_what_is_alive_and_no_more(schedule: Schedule, remat: Remat) -> None:
    program = lower_schedule(schedule, remat)
    for cut in schedule.sources:
        sizes = asdict(program.sizes[cut.name])
        spans: dict[str, list[Span]] = {name: [] for name in sizes}
        for buffer, span in encoder_spans(schedule, cut, remat):
            spans[buffer].append(span)
        assert sizes == {name: most_alive(values) for name, values in spans.items()}


@given(
    stages=st.integers(1, 4),
    chunks=st.integers(1, 3),
    microbatches=st.integers(1, 24),
    remat=REMATS,
)
def test_buffers_do_not_grow_with_the_microbatches(
    stages: int, chunks: int, microbatches: int, remat: Remat
) -> None:
    program = lower_schedule(interleaved_schedule(stages, chunks, microbatches), remat)
    # The widest group of microbatches is shorter than two pipelines.
    widest = 2 * stages - 1
    sizes = program.backbone.sizes
    assert max(asdict(sizes).values()) <= (chunks + 1) * widest
    assert sizes.gradients <= 1 + (chunks > 1) * widest
    if remat != "full":
        assert sizes.inputs <= 1 + (chunks > 1) * widest


@pytest.mark.parametrize("remat", get_args(Remat))
def test_32_and_128_microbatches_take_the_same_slots(remat: Remat) -> None:
    few = lower_schedule(interleaved_schedule(4, 2, 32), remat)
    many = lower_schedule(interleaved_schedule(4, 2, 128), remat)
    assert few.sizes == many.sizes


@given(stages=st.integers(1, 5), rounds=st.integers(1, 4), chunks=st.integers(1, 3))
def test_inputs_kept_are_the_live_activations(stages: int, rounds: int, chunks: int) -> None:
    schedule = interleaved_schedule(stages, chunks, stages * rounds)
    assert lower_schedule(schedule, "full").backbone.sizes.inputs == max(peak_live(schedule))


# ---- kinds and tables ----------------------------------------------------------------------------


@settings(max_examples=30)
@given(schedule=placing.schedules(), remat=REMATS)
def test_tables_have_a_row_per_tick(schedule: Schedule, remat: Remat) -> None:
    program = lower_schedule(schedule, remat)
    assert list(program.modules) == [module.name for module in schedule.modules]
    for path in paths(program):
        table = get(program, path)
        columns = () if "ends" in path else (schedule.stages,)
        assert table.shape == (len(schedule.ticks), *columns)
        assert table.dtype == np.int32
        assert not table.flags.writeable
    for module in schedule.modules:
        tables = program.modules[module.name].tables
        assert (tables.ends is not None) == (module is schedule.backbone)
        assert (tables.receive_input is not None) == (module.stages > 1)
        assert (tables.keep_input is not None) == any(
            module.stage_of(chunk) == module.stage_of(chunk + 1)
            for chunk in range(module.chunks - 1)
        )


def test_small_program() -> None:
    """Two stages, two microbatches: F0 | F0 F1 | F1 B0 | B0 B1 | B1, and one encoder."""
    schedule = placing.naive(one_forward_one_backward(2, 2), [ModuleStages("vision")])
    program = lower_schedule(schedule, "full")
    none = [-1, -1]
    tables, ends = program.backbone.tables, program.backbone.tables.ends
    assert ends is not None
    assert tables.receive_input is not None
    assert tables.receive_gradient is not None
    assert tables.forward.microbatch.tolist() == [none, [0, -1], [1, 0], [-1, 1], none, none, none]
    assert tables.backward.microbatch.tolist()[3:] == [[-1, 0], [0, 1], [1, -1], none]
    assert tables.receive_input.tolist() == [none, [-1, 0], [-1, 1], none, none, none, none]
    assert tables.receive_gradient.tolist()[3:] == [[0, -1], [0, -1], none, none]
    assert ends.embed_microbatch.tolist() == [-1, 0, 1, -1, -1, -1, -1]
    assert ends.embed_input.tolist() == [-1, 0, 1, -1, -1, -1, -1]
    assert ends.head_microbatch.tolist() == [-1, -1, 0, 1, -1, -1, -1]
    assert ends.head_gradient.tolist() == [-1, -1, 0, 0, -1, -1, -1]
    assert ends.return_microbatch.tolist() == [-1, -1, -1, -1, 0, 1, -1]
    vision, feed = program.modules["vision"], program.feed_of("vision")
    output = vision.tables.forward.output
    assert output is not None
    assert output.tolist()[0] == [0, 0]
    assert feed.tables.merge_first.tolist()[:3] == [none, [0, -1], [-1, 0]]
    assert feed.tables.merge_count.tolist()[:3] == [none, [1, -1], [-1, 1]]
    assert feed.tables.return_first.tolist()[4:] == [[0, -1], [-1, 0], none]
    assert feed.merges.source.tolist() == feed.merges.target.tolist() == [[0], [1]]
    assert (vision.owners.tolist(), vision.local.tolist(), vision.slots) == ([0, 1], [0, 0], 1)
    assert str(program).splitlines() == [
        "7 ticks x 2 stages, remat full; slots per stage:",
        "  decoder: inputs 2, gradients 1",
        "  vision: output_buffer 1, output_grad_buffer 1",
    ]


def test_stage_may_keep_and_receive_a_chunk_in_one_tick() -> None:
    cut = ModuleStages("vision", 2, 4)
    schedule = placing.naive(interleaved_schedule(2, 1, 4), [cut])
    both = np.zeros(2, int)
    for seed in range(5):
        program = lower_schedule(placing.at_random(schedule, seed), "full")
        check_lowered(program)
        vision: Any = program.modules["vision"].tables
        both += [
            np.sum((vision.keep_input >= 0) & (vision.receive_input >= 0)),
            np.sum((vision.keep_gradient >= 0) & (vision.receive_gradient >= 0)),
        ]
    assert np.all(both > 0)


def test_work_ahead_keeps_its_slots() -> None:
    cut = ModuleStages("vision", chunks=2, first_backward=2, prefetch=3)
    schedule = placing.naive(interleaved_schedule(2, 1, 4), [cut])
    vision = lower_schedule(schedule, "none").modules["vision"]
    assert vision.owners.tolist() == [0, 1, 0, 1]
    assert vision.local.tolist() == [0, 0, 1, 1]
    assert vision.prefetch_slot.tolist() == [0, 0, 1]
    assert vision.sizes.output_buffer == 2
    ahead = vision.tables.forward.microbatch >= 4
    assert vision.tables.forward.position[ahead].tolist() == [0, 0, 0, 0, 1, 1]


def test_output_ahead_must_be_there_at_the_end() -> None:
    cut = ModuleStages("vision", first_backward=1, prefetch=2)
    program = lower_schedule(placing.naive(interleaved_schedule(1, 1, 3), [cut]), "full")
    path = ("modules", "vision", "tables", "forward", "output")
    table = get(program, path).copy()
    table[-1, 0] = 2
    with pytest.raises(ScheduleError, match=r"vision output\(4, 0\) is needed, but slot 1"):
        check_lowered(put(program, path, table))


# ---- refusals and speed --------------------------------------------------------------------------


def test_unknown_remat_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'some' is unknown; valid: full, layer, none"):
        lower_schedule(gpipe_schedule(2, 1, 2), "some")  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "valid"), [(0, True), (1, False)])
def test_stages_share_the_ends_of_the_backbone_alone(number: int, valid: bool) -> None:
    schedule = placing.naive(one_forward_one_backward(2, 2), [ModuleStages("vision")])
    modules = list(schedule.modules)
    modules[number] = replace(modules[number], shared_ends=not valid)
    with pytest.raises(
        ScheduleError, match=f"shared_ends {not valid} is not executed; valid: {valid}"
    ):
        lower_schedule(replace(schedule, modules=tuple(modules)), "full")


def test_illegal_schedules_are_refused() -> None:
    schedule = gpipe_schedule(2, 1, 2)
    with pytest.raises(ScheduleError, match="is missing"):
        lower_schedule(replace(schedule, ticks=schedule.ticks[1:]), "full")


def test_large_programs_are_compiled_in_seconds() -> None:
    encoder = ModuleStages("vision", 2, 4)
    schedule = placing.naive(interleaved_schedule(16, 8, 512), [encoder])
    program = within(5, lambda: lower_schedule(schedule, "full"))
    assert program.backbone.sizes.inputs == max(peak_live(schedule)) == 144
