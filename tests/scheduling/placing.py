"""Schedules with encoder work for tests: placed simply, or at random; and the rules once more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from scheduling.schedules.schedule import Schedule, gpipe, interleaved, zero_bubble
from scheduling.schedules.task_kinds import EB, EF, KINDS, B, F, TaskKind, W
from scheduling.schedules.tasks import EncoderPieces, Task

#: A task and its stage; None for encoder tasks, which are there once.
Key = tuple[Task, int | None]
Placed = tuple[int, int, Task]
#: Tick, stage and kind.
Slot = tuple[int, int, TaskKind]


def key(task: Task, stage: int) -> Key:
    """The fields that tell `task` from every other task."""
    return task, stage if task.module == "decoder" else None


def table(schedule: Schedule, placed: Sequence[Placed]) -> Schedule:
    """`schedule` with the tasks `placed` in place of its own."""
    ticks = max((tick for tick, _, _ in placed), default=-1) + 1
    rows: list[list[list[Task]]] = [[[] for _ in range(schedule.stages)] for _ in range(ticks)]
    for tick, stage, task in placed:
        rows[tick][stage].append(task)
    for row in rows:
        for bundle in row:
            bundle.sort(key=lambda task: [*KINDS.values()].index(task.kind))
    return Schedule(
        schedule.stages,
        schedule.chunks,
        schedule.microbatches,
        schedule.encoders,
        tuple(tuple(tuple(bundle) for bundle in row) for row in rows),
    )


def numbers(schedule: Schedule, cut: EncoderPieces) -> range:
    """Microbatches of an encoder that the schedule encodes."""
    return range(cut.ahead, cut.units(schedule.microbatches) + cut.ahead)


def fed_by(schedule: Schedule, cut: EncoderPieces, unit: int) -> range:
    """Microbatches of the decoder that one of an encoder's feeds."""
    if cut.feeds is None:
        return range(unit // cut.each, unit // cut.each + 1)
    first, last = cut.feeds[unit]
    return range(first, last + 1)


def keys(schedule: Schedule) -> Iterator[Key]:
    """Every task that a complete schedule holds."""
    for m in range(schedule.microbatches):
        for v in range(schedule.chunks):
            for stage in range(schedule.stages):
                for kind in (F, B, W) if W in schedule.kinds else (F, B):
                    yield Task(kind, m, v), stage
    for cut in schedule.encoders:
        for m in numbers(schedule, cut):
            for j in range(cut.pieces):
                yield Task(EF, m, j, cut.name), None
        for m in range(cut.units(schedule.microbatches)):
            for j in cut.backward_pieces:
                yield Task(EB, m, j, cut.name), None


def needs(schedule: Schedule, task: Task, stage: int | None) -> Iterator[tuple[Key, int]]:
    """The tasks that must run before `task`, each with the least number of ticks between."""
    m, part, last = task.microbatch, task.part, schedule.stages - 1
    match task.kind.name:
        case "F" if stage:
            yield (task, stage - 1), 1
        case "F" if part:
            yield (Task(F, m, part - 1), last), 1
        case "F":
            for cut in schedule.encoders:
                for unit in range(cut.ahead, cut.units(schedule.microbatches)):
                    if m in fed_by(schedule, cut, unit):
                        yield (Task(EF, unit, cut.pieces - 1, cut.name), None), 1
        case "B" if stage is not None and stage < last:
            yield (task, stage + 1), 1
        case "B" if part < schedule.chunks - 1:
            yield (Task(B, m, part + 1), 0), 1
        case "B":
            yield (Task(F, m, part), last), 1
        case "W":
            yield (Task(B, m, part), stage), 1
        case "EF":
            if part:
                yield (Task(EF, m, part - 1, task.module), None), 1
            cut = schedule.encoder(task.module)
            if cut.ahead and m >= schedule.microbatches and part == cut.pieces - 1:
                yield (Task(F, m - schedule.microbatches, 0), 0), 0
        case "EB" if part < schedule.encoder(task.module).pieces - 1:
            yield (Task(EB, m, part + 1, task.module), None), 1
        case "EB":
            for fed in fed_by(schedule, schedule.encoder(task.module), m):
                yield (Task(B, fed, 0), 0), 1


def naive(decoder: Schedule, encoders: Sequence[EncoderPieces]) -> Schedule:
    """Encoder forwards before the decoder's ticks, backwards and work ahead after them."""
    whole = Schedule(
        decoder.stages, decoder.chunks, decoder.microbatches, tuple(encoders), decoder.ticks
    )
    before: dict[Slot, Task] = {}
    after: dict[Slot, Task] = {}
    for cut in encoders:
        for m in numbers(whole, cut):
            side = after if cut.ahead and m >= decoder.microbatches else before
            _append(side, whole, cut, [Task(EF, m, j, cut.name) for j in range(cut.pieces)])
        for m in range(cut.units(decoder.microbatches)):
            tasks = [Task(EB, m, j, cut.name) for j in reversed(cut.backward_pieces)]
            _append(after, whole, cut, tasks)
    start = max((tick + 1 for tick, _, _ in before), default=0)
    end = start + len(decoder.ticks)
    return table(
        whole,
        [
            *((tick, stage, task) for (tick, stage, _), task in before.items()),
            *((start + tick, stage, task) for tick, stage, task in decoder),
            *((end + tick, stage, task) for (tick, stage, _), task in after.items()),
        ],
    )


def _append(
    side: dict[Slot, Task], schedule: Schedule, cut: EncoderPieces, tasks: Sequence[Task]
) -> None:
    """Put the pieces of a microbatch one after the other into the first free ticks."""
    tick = 0
    for task in tasks:
        unit = task.microbatch % cut.units(schedule.microbatches)
        pipeline = unit % (schedule.stages // cut.stages)
        stage = pipeline * cut.stages + cut.stage(task.part)
        while (tick, stage, task.kind) in side:
            tick += 1
        side[tick, stage, task.kind] = task
        tick += 1


def at_random(schedule: Schedule, seed: int, idle: float = 0.3) -> Schedule:
    """All tasks of `schedule` in a random legal order, on random encoder pipelines."""
    draw = random.Random(seed)
    pipelines = {
        (cut.name, m): draw.randrange(schedule.stages // cut.stages)
        for cut in schedule.encoders
        for m in range(cut.units(schedule.microbatches))
    }
    waiting = list(keys(schedule))
    done: dict[Key, int] = {}
    placed: list[Placed] = []
    tick = 0
    while waiting:
        draw.shuffle(waiting)
        taken: set[tuple[int, TaskKind]] = set()
        for task, place in list(waiting):
            stage = _stage(schedule, task, pipelines) if place is None else place
            ready = all(
                other in done and done[other] + gap <= tick
                for other, gap in needs(schedule, task, place)
            )
            if ready and (stage, task.kind) not in taken and draw.random() >= idle:
                taken.add((stage, task.kind))
                placed.append((tick, stage, task))
                done[task, place] = tick
                waiting.remove((task, place))
        tick += 1
    return table(schedule, placed)


def _stage(schedule: Schedule, task: Task, pipelines: dict[tuple[str, int], int]) -> int:
    cut = schedule.encoder(task.module)
    pipeline = pipelines[task.module, task.microbatch % cut.units(schedule.microbatches)]
    return pipeline * cut.stages + cut.stage(task.part)


@st.composite
def cuts(draw: st.DrawFn, stages: int, microbatches: int) -> tuple[EncoderPieces, ...]:
    """No, one or two encoders, cut in any legal way."""
    names = ("vision", "audio")[: draw(st.sampled_from([2, 1, 1, 0]))]
    made = []
    for name in names:
        own = draw(st.sampled_from([n for n in range(1, stages + 1) if stages % n == 0]))
        pieces = own * draw(st.integers(1, 3 if own == 1 else 2))
        backward = draw(st.sampled_from(sorted({0, 1, pieces})))
        ahead = draw(st.integers(0, microbatches)) if backward == 0 else 0
        fed = None if ahead else draw(st.none() | feeds(microbatches))
        each = 1 if ahead else draw(st.sampled_from([1, 1, 2, 3]))
        made.append(EncoderPieces(name, pieces, own, backward, ahead, fed, each))
    return tuple(made)


def feeds(microbatches: int) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """What the own microbatches of an encoder feed: any runs of the decoder's, and maybe none."""
    ends = st.tuples(*[st.integers(0, microbatches - 1)] * 2)
    runs = ends.map(lambda pair: (min(pair), max(pair)))
    return st.lists(runs, max_size=microbatches + 1).map(tuple)


@st.composite
def schedules(draw: st.DrawFn, most: int = 4) -> Schedule:
    """Legal schedules: generated ones with encoders placed simply, and random ones."""
    stages, chunks = draw(st.sampled_from([2, 4, 3, 1])), draw(st.integers(1, 3))
    microbatches = draw(st.integers(1, most))
    decoder = draw(st.sampled_from([interleaved, gpipe, zero_bubble]))(stages, chunks, microbatches)
    schedule = naive(decoder, draw(cuts(stages, microbatches)))
    if draw(st.booleans()):
        seed, idle = draw(st.integers(0, 2**16)), draw(st.sampled_from([0.0, 0.4]))
        schedule = at_random(schedule, seed, idle)
    return draw(with_prologue(schedule))


@st.composite
def with_prologue(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    """`schedule`, of which some ticks before the decoder's first run before its parameters come."""
    return replace(schedule, prologue=draw(st.integers(0, schedule.span.start)))
