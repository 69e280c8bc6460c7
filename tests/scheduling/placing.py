"""Schedules with encoder work for tests: placed simply, or at random; and the rules once more."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    zero_bubble_schedule,
)
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import KINDS, B, F, TaskKind, W
from scheduling.schedules.tasks import Feed, ModuleStages, Task

Placed = tuple[int, int, Task]
#: Tick, stage, kind, and whether it is of the backbone.
Slot = tuple[int, int, TaskKind, bool]


def group(schedule: Schedule, task: Task) -> tuple[bool, int]:
    """Place of a task among those of its stage and tick; one of each group may be there."""
    return task.module != schedule.backbone.name, [*KINDS.values()].index(task.kind)


def table(schedule: Schedule, placed: Sequence[Placed]) -> Schedule:
    """`schedule` with the tasks `placed` in place of its own."""
    ticks = max((tick for tick, _, _ in placed), default=-1) + 1
    rows: list[list[list[Task]]] = [[[] for _ in range(schedule.stages)] for _ in range(ticks)]
    for tick, stage, task in placed:
        rows[tick][stage].append(task)
    for row in rows:
        for fused in row:
            fused.sort(key=lambda task: group(schedule, task))
    every = tuple(tuple(tuple(own) for own in row) for row in rows)
    return replace(schedule, ticks=every, prologue=0)


def numbers(schedule: Schedule, module: ModuleStages) -> range:
    """Microbatches of a module of which the schedule has the forwards."""
    return range(module.prefetch, schedule.microbatches_of(module.name) + module.prefetch)


def fed_by(schedule: Schedule, module: ModuleStages, number: int) -> range:
    """Microbatches of the backbone that one of a module's feeds."""
    (feed,) = schedule.feeds_of(module.name)
    if feed.consumers is None:
        return range(number // feed.per_target, number // feed.per_target + 1)
    first, last = feed.consumers[number]
    return range(first, last + 1)


def keys(schedule: Schedule) -> Iterator[Task]:
    """Every task that a complete schedule holds."""
    for m in range(schedule.microbatches):
        for chunk in range(schedule.backbone.chunks):
            for kind in (F, B, W) if schedule.split_backward else (F, B):
                yield Task(kind, schedule.backbone.name, m, chunk)
    for module in schedule.sources:
        for m in numbers(schedule, module):
            for j in range(module.chunks):
                yield Task(F, module.name, m, j)
        for m in range(schedule.microbatches_of(module.name)):
            for j in range(module.first_backward, module.chunks):
                yield Task(B, module.name, m, j)


def needs(schedule: Schedule, task: Task) -> Iterator[tuple[Task, int]]:
    """The tasks that must run before `task`, each with the least number of ticks between."""
    backbone, last = schedule.backbone.name, schedule.backbone.chunks - 1
    if task.kind is W:
        yield task._replace(kind=B), 1
    elif task.kind is F and task.chunk:
        yield task._replace(chunk=task.chunk - 1), 1
    elif task.kind is B and task.chunk < schedule.module_named(task.module).chunks - 1:
        yield task._replace(chunk=task.chunk + 1), 1
    elif task.kind is B and task.module == backbone:
        yield Task(F, backbone, task.microbatch, last), 1
    elif task.kind is B:
        for fed in fed_by(schedule, schedule.module_named(task.module), task.microbatch):
            yield Task(B, backbone, fed, 0), 1
    elif task.module == backbone:
        for module in schedule.sources:
            for number in range(module.prefetch, schedule.microbatches_of(module.name)):
                if task.microbatch in fed_by(schedule, module, number):
                    yield Task(F, module.name, number, module.chunks - 1), 1
    if task.kind is F and task.module != backbone:
        module = schedule.module_named(task.module)
        early = task.microbatch - schedule.microbatches
        if module.prefetch and early >= 0 and task.chunk == module.chunks - 1:
            yield Task(F, backbone, early, 0), 0


def naive(
    backbone: Schedule, modules: Sequence[ModuleStages], feeds: Sequence[Feed] = ()
) -> Schedule:
    """Forwards of modules before the backbone's ticks, backwards and prefetches after them."""
    every = {module.name: Feed(module.name) for module in modules}
    every |= {feed.source: feed for feed in feeds}
    whole = replace(backbone, modules=(*backbone.modules, *modules), feeds=tuple(every.values()))
    before: dict[Slot, Task] = {}
    after: dict[Slot, Task] = {}
    for module in modules:
        for m in numbers(whole, module):
            side = after if module.prefetch and m >= backbone.microbatches else before
            tasks = [Task(F, module.name, m, j) for j in range(module.chunks)]
            _append(side, whole, module, tasks)
        for m in range(whole.microbatches_of(module.name)):
            chunks = reversed(range(module.first_backward, module.chunks))
            _append(after, whole, module, [Task(B, module.name, m, j) for j in chunks])
    start = max((tick + 1 for tick, *_ in before), default=0)
    end = start + len(backbone.ticks)
    return table(
        whole,
        [
            *((tick, stage, task) for (tick, stage, *_), task in before.items()),
            *((start + tick, stage, task) for tick, stage, task in backbone),
            *((end + tick, stage, task) for (tick, stage, *_), task in after.items()),
        ],
    )


def _append(
    side: dict[Slot, Task], schedule: Schedule, module: ModuleStages, tasks: Sequence[Task]
) -> None:
    """Put the chunks of a microbatch one after the other into the first free ticks."""
    tick = 0
    for task in tasks:
        number = task.microbatch % schedule.microbatches_of(module.name)
        pipeline = number % (schedule.stages // module.stages)
        stage = pipeline * module.stages + module.stage_of(task.chunk)
        while (tick, stage, task.kind, False) in side:
            tick += 1
        side[tick, stage, task.kind, False] = task
        tick += 1


def at_random(schedule: Schedule, seed: int, idle: float = 0.3) -> Schedule:
    """All tasks of `schedule` in a random legal order, on random pipelines of the modules."""
    draw = random.Random(seed)
    pipelines = {
        (module.name, m): draw.randrange(schedule.stages // module.stages)
        for module in schedule.modules
        for m in range(schedule.microbatches_of(module.name))
    }
    waiting = list(keys(schedule))
    done: dict[Task, int] = {}
    placed: list[Placed] = []
    tick = 0
    while waiting:
        draw.shuffle(waiting)
        taken: set[tuple[int, tuple[bool, int]]] = set()
        for task in list(waiting):
            stage, place = _stage(schedule, task, pipelines), group(schedule, task)
            ready = all(
                other in done and done[other] + gap <= tick for other, gap in needs(schedule, task)
            )
            if ready and (stage, place) not in taken and draw.random() >= idle:
                taken.add((stage, place))
                placed.append((tick, stage, task))
                done[task] = tick
                waiting.remove(task)
        tick += 1
    return table(schedule, placed)


def _stage(schedule: Schedule, task: Task, pipelines: dict[tuple[str, int], int]) -> int:
    module = schedule.module_named(task.module)
    number = task.microbatch % schedule.microbatches_of(task.module)
    return pipelines[task.module, number] * module.stages + module.stage_of(task.chunk)


@st.composite
def sources(
    draw: st.DrawFn, stages: int, microbatches: int
) -> tuple[list[ModuleStages], list[Feed]]:
    """No, one or two modules, divided in any legal way, with what they feed."""
    names = ("vision", "audio")[: draw(st.sampled_from([2, 1, 1, 0]))]
    modules, fed = [], []
    for name in names:
        own = draw(st.sampled_from([n for n in range(1, stages + 1) if stages % n == 0]))
        chunks = own * draw(st.integers(1, 3 if own == 1 else 2))
        trained = draw(st.sampled_from(sorted({0, 1, chunks})))
        prefetch = draw(st.integers(0, microbatches)) if trained == 0 else 0
        consumers = None if prefetch else draw(st.none() | feeds(microbatches))
        each = 1 if prefetch else draw(st.sampled_from([1, 1, 2, 3]))
        modules.append(
            ModuleStages(name, own, chunks, first_backward=chunks - trained, prefetch=prefetch)
        )
        fed.append(Feed(name, consumers=consumers, per_target=each))
    return modules, fed


def feeds(microbatches: int) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """What the microbatches of a module feed: any runs of the backbone's, and maybe none."""
    ends = st.tuples(*[st.integers(0, microbatches - 1)] * 2)
    runs = ends.map(lambda pair: (min(pair), max(pair)))
    return st.lists(runs, max_size=microbatches + 1).map(tuple)


@st.composite
def schedules(draw: st.DrawFn, most: int = 4) -> Schedule:
    """Legal schedules: generated ones with encoders placed simply, and random ones."""
    stages, chunks = draw(st.sampled_from([2, 4, 3, 1])), draw(st.integers(1, 3))
    microbatches = draw(st.integers(1, most))
    decoder = draw(st.sampled_from([interleaved_schedule, gpipe_schedule, zero_bubble_schedule]))(
        stages, chunks, microbatches
    )
    schedule = naive(decoder, *draw(sources(stages, microbatches)))
    if draw(st.booleans()):
        seed, idle = draw(st.integers(0, 2**16)), draw(st.sampled_from([0.0, 0.4]))
        schedule = at_random(schedule, seed, idle)
    return draw(with_prologue(schedule))


@st.composite
def with_prologue(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    """`schedule`, of which some ticks before the decoder's first run before its parameters come."""
    return replace(schedule, prologue=draw(st.integers(0, schedule.span.start)))
