"""Checks of schedules; nothing is compiled that has not passed them.

The rules follow from the attributes of the kinds of tasks (`scheduling.schedules.task_kinds`)::

    F(m, c)                     after F(m, c - 1)
    F(m, 0)                     after the last chunk's F(s) of every microbatch s that feeds m, of
                                all modules
    B(m, c)                     after B(m, c + 1)
    B(m, c) of the last chunk   after B(t, 0) of every microbatch t that m feeds, of all modules; of
                                the backbone, which feeds none, after F(m, c)
    W(m, c)                     after B(m, c)

"After" is a later tick: what is sent in a tick arrives at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import KINDS, F, TaskKind
from scheduling.schedules.tasks import Feed, FusedTask, ModuleStages, Task

Ints = NDArray[np.intp]


_LISTED = 8


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule against every rule, in less than a tenth of a second for 130,000 tasks.

    Raises:
        ScheduleError: a size or a division is impossible, a task is missing, appears twice or is in
        a
            wrong place, or runs before its inputs have arrived. The message lists the first
            problems of the first kind that occurs, with task, tick and stage.
    """
    raise_first(_bad_table(schedule))
    raise_first(_bad_feeds(schedule))
    raise_first(_bad_sizes(schedule))
    raise_first(_bad_fused(schedule))
    index = _TaskIndex(schedule)
    raise_first(index.find_tasks())
    for module in schedule.sources:
        raise_first(_split_pipelines(index, module))
    raise_first(_too_early(index))


def peak_live(schedule: Schedule) -> tuple[int, ...]:
    """Largest number of live activations of the backbone on each stage.

    An activation `(m, c)` lives from the start of its forward to the end of the last task that
    reads it (`TaskKind.reads`): its backward.

    Raises:
        ScheduleError: `schedule` breaks a rule, see `check_schedule`.
    """
    check_schedule(schedule)
    changes = np.zeros((len(schedule.ticks) + 1, schedule.stages), np.intp)
    last: dict[tuple[int, int, int], int] = {}
    for tick, stage, task in schedule:
        if task.module != schedule.backbone.name:
            continue
        if task.kind is F:
            changes[tick, stage] += 1
        elif task.kind.reads is F:
            last[task.microbatch, task.chunk, stage] = tick
    for (_, _, stage), tick in last.items():
        changes[tick + 1, stage] -= 1
    return tuple(int(n) for n in changes.cumsum(axis=0).max(axis=0))


def raise_first(problems: Iterator[str]) -> None:
    """Raise ScheduleError with the first few problems, if there are any."""
    listed = list(islice(problems, _LISTED + 1))
    if listed:
        more = ["..."] if len(listed) > _LISTED else []
        raise ScheduleError("\n".join(listed[:_LISTED] + more))


# ---- sizes and fused tasks -----------------------------------------------------------------------


def _bad_table(schedule: Schedule) -> Iterator[str]:
    """Problems of the table's shape and of names, which the other checks take as right."""
    backbone, least = schedule.backbone, max(1, schedule.backbone.stages)
    if backbone.stages < 1:
        yield f"stages: {backbone.stages} is refused; valid: 1 or more"
    if backbone.chunks < 1 or backbone.chunks % least:
        yield f"chunks: {backbone.chunks} is refused; valid: multiples of {least}, the stages"
    if schedule.microbatches < 1:
        yield f"microbatches: {schedule.microbatches} is refused; valid: 1 or more"
    names = Counter(module.name for module in schedule.modules)
    for name, count in names.items():
        if count > 1:
            yield f"module {name!r}: the name is taken; valid: a name that no other module has"
    for tick, row in enumerate(schedule.ticks):
        if len(row) != schedule.stages:
            yield f"tick {tick} has {len(row)} fused tasks; valid: {schedule.stages}, one per stage"


def _bad_sizes(schedule: Schedule) -> Iterator[str]:
    if not 0 <= schedule.prologue <= schedule.span.start:
        yield (
            f"prologue: {schedule.prologue} ticks are refused; valid: 0 to {schedule.span.start}, "
            "those before the backbone's first"
        )
    for module in schedule.sources:
        yield from _bad_module(schedule, module)


def _bad_feeds(schedule: Schedule) -> Iterator[str]:
    """Problems of which module feeds which: feeds lead from every module to the backbone."""
    modules, backbone = {module.name: module for module in schedule.modules}, schedule.backbone.name
    counts = Counter((feed.source, feed.target) for feed in schedule.feeds)
    for (source, target), count in counts.items():
        where, valid = f"feed {source} -> {target}", ", ".join(modules)
        for name in (source, target):
            if name not in modules:
                yield f"{where}: {name!r} is no module; valid: {valid}"
        if source == backbone:
            yield f"{where} is refused; valid: a feed into {backbone!r}, the backbone"
        elif count > 1:
            yield f"{where} is there {count} times; valid: once"
        elif not (modules.keys() >= {source, target}):
            continue
        elif modules[source].trains and modules[target].first_backward:
            yield f"{where}: no gradient comes back to the source; valid: a target that trains"
    for module in schedule.sources:
        if not schedule.feeds_of(module.name):
            yield f"module {module.name!r}: 0 feeds are refused; valid: 1 or more"
    try:
        TopologicalSorter({name: _fed_modules(schedule, name) for name in modules}).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        yield f"feeds {circle} close a circle; valid: feeds that lead to {backbone!r}"


def _fed_modules(schedule: Schedule, source: str) -> list[str]:
    return [feed.target for feed in schedule.feeds_of(source)]


def _bad_module(schedule: Schedule, module: ModuleStages) -> Iterator[str]:
    """Problems of how another module than the backbone is divided, and of what it feeds."""
    feeds = schedule.feeds_of(module.name)
    numbers = {feed.source_count(schedule.microbatches_of(feed.target)) for feed in feeds}
    if len(numbers) > 1:
        listed = " and ".join(map(str, sorted(numbers)))
        yield f"module {module.name!r}: its feeds need {listed} microbatches; valid: one number"
    separate = any(feed.consumers is not None or feed.per_target > 1 for feed in feeds)
    is_fed = any(feed.target == module.name for feed in schedule.feeds)
    limit = 0 if module.trains or separate or is_fed else schedule.microbatches
    without = f"a backward{' and independent microbatches' if separate else ''}"
    without += " and inputs of other modules" if is_fed else ""
    divisors = [n for n in range(1, schedule.stages + 1) if schedule.stages % n == 0]
    rules = (
        (
            "stages",
            module.stages,
            module.stages in divisors,
            f"a divisor of the backbone's {schedule.stages}",
        ),
        (
            "chunks",
            module.chunks,
            module.chunks >= 1 and module.stages >= 1 and module.chunks % module.stages == 0,
            f"a multiple of the module's {module.stages} stages",
        ),
        (
            "first_backward",
            module.first_backward,
            0 <= module.first_backward <= module.chunks,
            f"0 to {module.chunks}, the chunks",
        ),
        (
            "prefetch",
            module.prefetch,
            0 <= module.prefetch <= limit,
            f"0 to {limit} (only without {without})",
        ),
        *(("per_target", feed.per_target, feed.per_target >= 1, "1 or more") for feed in feeds),
    )
    for name, value, holds, valid in rules:
        if not holds:
            yield f"module {module.name!r}: {name} {value} is refused; valid: {valid}"
    for feed in feeds:
        count = schedule.microbatches_of(feed.target)
        for source, (first, last) in enumerate(feed.consumers or ()):
            if not 0 <= first <= last < count:
                yield (
                    f"module {module.name!r}: its microbatch {source} feeds {first} to {last}, "
                    f"which is refused; valid: a first and a last one of 0 to {count - 1}"
                )


def _bad_fused(schedule: Schedule) -> Iterator[str]:
    """Fused tasks with two tasks of a kind; tasks that do not exist or are in a wrong place."""
    for tick, stage in _bad_positions(schedule):
        fused = schedule.ticks[tick][stage]
        for task in fused:
            if reason := _task_problem(schedule, stage, task):
                yield f"tick {tick}, stage {stage}: {task} {reason}"
        if reason := _repeated_kind(schedule, fused):
            yield f"tick {tick}, stage {stage}: {reason}"


def _bad_positions(schedule: Schedule) -> list[tuple[int, int]]:
    """Tick and stage of the fused tasks that have a problem, for all tasks at once."""
    tasks = schedule.task_arrays
    site = tasks.tick * schedule.stages + tasks.stage
    groups = [_kind_group(schedule, module, kind) for module, kind in tasks.keys]
    kinds = list(dict.fromkeys(groups))
    number = np.array([kinds.index(group) for group in groups], np.intp)[tasks.key]
    counts = np.bincount(site * len(kinds) + number)
    crowded = np.flatnonzero(counts > 1) // max(1, len(kinds))
    positions = {*crowded.tolist(), *site[_misplaced_tasks(schedule)].tolist()}
    return [divmod(position, schedule.stages) for position in sorted(positions)]


def _kind_group(schedule: Schedule, module: str, kind: TaskKind) -> tuple[bool, TaskKind]:
    """What a fused task has at most one task of: a kind, of the backbone or of the others."""
    return module == schedule.backbone.name, kind


def _misplaced_tasks(schedule: Schedule) -> NDArray[np.bool_]:
    """`[tasks]`: whether `_task_problem` has a reason."""
    tasks, modules = schedule.task_arrays, {module.name: module for module in schedule.modules}
    misplaced = np.ones(len(tasks.key), bool)
    for name, kind in tasks.keys:
        if name in modules and kind in KINDS.values():
            module, chosen = modules[name], tasks.of_key(name, kind)
            chunk, (microbatches, chunks) = (
                tasks.chunk[chosen],
                _valid_ranges(schedule, module, kind),
            )
            misplaced[chosen] = (
                _is_outside(tasks.microbatch[chosen], microbatches)
                | _is_outside(chunk, chunks)
                | (tasks.stage[chosen] % module.stages != module.stage_of(chunk))
            )
    return misplaced


def _is_outside(values: Ints, valid: range) -> NDArray[np.bool_]:
    return (values < valid.start) | (values >= valid.stop)


def _valid_ranges(schedule: Schedule, module: ModuleStages, kind: TaskKind) -> tuple[range, range]:
    """The microbatches and the chunks of a module that have a task of a kind."""
    prefetched = module.prefetch * kind.forward
    count = schedule.microbatches_of(module.name)
    return range(prefetched, count + prefetched), module.chunks_with(kind)


def _repeated_kind(schedule: Schedule, fused: FusedTask) -> str | None:
    """Why a fused task holds too much."""
    groups = {_kind_group(schedule, task.module, task.kind) for task in fused}
    if len(groups) == len(fused):
        return None
    listed = ", ".join(str(task) for task in fused)
    return (
        f"{listed} on one stage; valid: at most one task of each kind of {schedule.backbone.name}, "
        "and one of each kind of all other modules"
    )


def _task_problem(schedule: Schedule, stage: int, task: Task) -> str | None:
    """Why `task` may not be on `stage`."""
    if task.kind not in KINDS.values():
        return f"has an unknown kind; valid: {', '.join(KINDS)}"
    names = [module.name for module in schedule.modules]
    if task.module not in names:
        return f"is of an unknown module; valid: {', '.join(names)}"
    module = schedule.module_named(task.module)
    microbatches, chunks = _valid_ranges(schedule, module, task.kind)
    if task.chunk in chunks and stage % module.stages != module.stage_of(task.chunk):
        several = f" + n x {module.stages}" if module.stages < schedule.stages else ""
        return f"is on a wrong stage; valid: {module.stage_of(task.chunk)}{several}"
    if task.microbatch not in microbatches:
        return f"has an unknown microbatch; valid: {_format_range(microbatches)}"
    if task.chunk not in chunks:
        return f"has an unknown chunk; valid: {_format_range(chunks)}"
    return None


def _format_range(values: range) -> str:
    return f"{values.start} to {values.stop - 1}" if values else "none"


# ---- dependencies --------------------------------------------------------------------------------


class _TaskIndex:
    """Place of every required task by its number.

    Attributes:
        schedule: the schedule.
        ids: numbers by module and kind, `[microbatches, chunks]`; microbatch `M + i` has the row of
            i. Kinds that a module may do without have numbers if it has such a task.
        tick, stage: place by number, -1 for tasks that are missing.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.ids: dict[tuple[str, TaskKind], Ints] = {}
        present, total = schedule.task_arrays.keys, 0
        for module in schedule.modules:
            shape = schedule.microbatches_of(module.name), module.chunks
            for kind in KINDS.values():
                if not kind.optional or (module.name, kind) in present:
                    count = int(np.prod(shape))
                    self.ids[module.name, kind] = np.arange(total, total + count).reshape(shape)
                    total += count
        self.tick, self.stage = np.full(total, -1), np.full(total, -1)

    def find_tasks(self) -> Iterator[str]:
        """Find every task; yields problems of tasks that appear twice, then of missing ones."""
        tasks, number = self.schedule.task_arrays, self._task_numbers()
        order = np.argsort(number, kind="stable")
        again = number[order[1:]] == number[order[:-1]]
        twice = sorted(zip(*_masked_pairs(order[1:], order[:-1], again), strict=True))
        for task, before in twice:
            module, kind = tasks.keys[tasks.key[task]]
            name = Task(kind, module, int(tasks.microbatch[task]), int(tasks.chunk[task]))
            first = f"tick {tasks.tick[before]}, stage {tasks.stage[before]}"
            yield (
                f"tick {tasks.tick[task]}, stage {tasks.stage[task]}: {name} is already in "
                f"{first}; valid: once"
            )
        self.tick[number], self.stage[number] = tasks.tick, tasks.stage
        for ids in self.required_numbers():
            for missing in ids[self.tick[ids] < 0].tolist():
                yield f"{self.name_of(missing)} is missing; valid: once"

    def _task_numbers(self) -> Ints:
        """`[tasks]`: the number of every task of the schedule."""
        tasks = self.schedule.task_arrays
        number = np.zeros(len(tasks.key), np.intp)
        for key in tasks.keys:
            chosen, ids = tasks.of_key(*key), self.ids[key]
            number[chosen] = ids[tasks.microbatch[chosen] % len(ids), tasks.chunk[chosen]]
        return number

    def required_numbers(self) -> Iterator[Ints]:
        """Numbers of the tasks that a complete schedule holds."""
        for (module, kind), ids in self.ids.items():
            yield ids[:, self.schedule.module_named(module).chunks_with(kind)]

    def name_of(self, number: int) -> str:
        """`vision F(0, 1)`."""
        present = ((key, ids) for key, ids in self.ids.items() if ids.size)
        module, kind = next(key for key, ids in present if number <= ids.flat[-1])
        ids = self.ids[module, kind]
        microbatch, chunk = np.argwhere(ids == number)[0].tolist()
        if kind.forward and microbatch < self.schedule.module_named(module).prefetch:
            microbatch += len(ids)
        return str(Task(kind, module, microbatch, chunk))

    def place_of(self, number: int) -> str:
        """`tick 3, stage 1`."""
        return f"tick {self.tick[number]}, stage {self.stage[number]}"


def _split_pipelines(index: _TaskIndex, module: ModuleStages) -> Iterator[str]:
    """Chunks of a microbatch in another pipeline of the module than its first chunk."""
    by_kind = {kind: ids for (name, kind), ids in index.ids.items() if name == module.name}
    chunks = [ids[:, module.chunks_with(kind)] for kind, ids in by_kind.items()]
    numbers, forward = np.concatenate(chunks, axis=1), by_kind[F]
    pipelines = index.stage[numbers] // module.stages
    elsewhere = pipelines != pipelines[:, :1]
    for number, first in zip(*_masked_pairs(numbers, forward[:, :1], elsewhere), strict=True):
        yield (
            f"{index.place_of(number)}: {index.name_of(number)} is in another pipeline of the "
            f"module than {index.name_of(first)} ({index.place_of(first)}); valid: one for all of "
            "a microbatch"
        )


def _masked_pairs(left: Ints, right: Ints, mask: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """The entries of both arrays, broadcast to one shape, where `mask` holds."""
    left, right = np.broadcast_arrays(left, right)
    return left[mask].tolist(), right[mask].tolist()


def _too_early(index: _TaskIndex) -> Iterator[str]:
    """Tasks that run before their inputs have arrived."""
    for before, after in _find_dependencies(index):
        early = index.tick[after] <= index.tick[before]
        for first, second in zip(*_masked_pairs(before, after, early), strict=True):
            yield (
                f"{index.place_of(second)}: {index.name_of(second)} needs {index.name_of(first)} "
                f"({index.place_of(first)}); valid: tick {index.tick[first] + 1} or later"
            )
    for feed in index.schedule.feeds:
        prefetch = index.schedule.module_named(feed.source).prefetch
        entry = index.ids[feed.target, F][:prefetch, 0]
        finished = index.ids[feed.source, F][:prefetch, -1]
        early = index.tick[finished] < index.tick[entry]
        for first, second in zip(*_masked_pairs(entry, finished, early), strict=True):
            yield (
                f"{index.place_of(second)}: {index.name_of(second)} overwrites what "
                f"{index.name_of(first)} ({index.place_of(first)}) reads; "
                f"valid: tick {index.tick[first]} or later"
            )


def _find_dependencies(index: _TaskIndex) -> Iterator[tuple[Ints, Ints]]:
    """Numbers of tasks and of tasks that need them in an earlier tick."""
    for (module, kind), ids in index.ids.items():
        rows = _task_rows(index, module, kind)
        if kind.passes and rows.size:
            yield from _entry_dependencies(index, module, kind, rows[:, 0])
            yield rows[:, :-1], rows[:, 1:]
        if kind.same_chunk is not None and (module, kind.same_chunk) in index.ids:
            yield index.ids[module, kind.same_chunk], ids


def _task_rows(index: _TaskIndex, module: str, kind: TaskKind) -> Ints:
    """`[microbatches, tasks]`: the tasks of a kind that follow one another through a module."""
    rows = index.ids[module, kind][:, index.schedule.module_named(module).chunks_with(kind)]
    return rows if kind.forward else rows[:, ::-1]


def _entry_dependencies(
    index: _TaskIndex, module: str, kind: TaskKind, first: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """What the `first` tasks of a kind, `[microbatches]`, of a module wait for."""
    schedule, feeds = index.schedule, index.schedule.feeds_of(module)
    if kind.forward:
        for feed in schedule.feeds:
            if feed.target == module:
                yield from _feed_dependencies(index, feed, kind, first)
    elif not feeds:
        yield _task_rows(index, module, F)[:, -1], first
    else:
        for feed in feeds:
            sources, targets = feed.microbatch_pairs(schedule.microbatches_of(feed.target))
            yield _task_rows(index, feed.target, kind)[targets, -1], first[sources]


def _feed_dependencies(
    index: _TaskIndex, feed: Feed, kind: TaskKind, first: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """The forwards that microbatches wait for which another module feeds.

    The step before has run those that are prefetched.
    """
    rows = _task_rows(index, feed.source, kind)
    if rows.size:
        count = index.schedule.microbatches_of(feed.target)
        sources, targets = feed.microbatch_pairs(count)
        prefetch = index.schedule.module_named(feed.source).prefetch
        yield rows[sources[prefetch:], -1], first[targets[prefetch:]]
