"""Checks of schedules; nothing is compiled that has not passed them.

The rules follow from the attributes of the kinds of tasks (`scheduling.schedules.task_kinds`)::

    F(m, v) of stage s      after F(m, v) of stage s - 1; on stage 0 after F(m, v - 1) of the last
    F(m, 0) of stage 0      after the last piece's EF(m) of every encoder
    B(m, v) of stage s      after B(m, v) of stage s + 1; on the last after B(m, v + 1) of stage 0
    B(m, V - 1) of the last stage      after F(m, V - 1) there
    EF(m, j), EB(m, j)      after EF(m, j - 1), EB(m, j + 1)
    EB(m) of the last piece after B(m, 0) of stage 0

"After" is a later tick: what is sent in a tick arrives at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import EF, KINDS, F, TaskKind, kinds_of
from scheduling.schedules.tasks import EncoderPieces, FusedTask, Task

Ints = NDArray[np.intp]


_LISTED = 8


def check(schedule: Schedule) -> None:
    """Check a schedule against every rule, in less than a tenth of a second for 130,000 tasks.

    Raises:
        ScheduleError: a size or a cut is impossible, a task is missing, appears twice or is in a
            wrong place, or runs before its inputs have arrived. The message lists the first
            problems of the first kind found, with task, tick and stage.
    """
    _raise_first(_bad_table(schedule))
    _raise_first(_bad_sizes(schedule))
    _raise_first(_bad_bundles(schedule))
    sites = _TaskIndex(schedule)
    _raise_first(sites.fill())
    for cut in schedule.encoders:
        _raise_first(_split_pipelines(sites, cut))
    _raise_first(_too_early(sites))


def peak_live(schedule: Schedule) -> tuple[int, ...]:
    """Largest number of live decoder activations on each stage.

    An activation `(m, v)` lives from the start of its forward to the end of the last task that
    reads it (`TaskKind.reads`): its backward.

    Raises:
        ScheduleError: `schedule` breaks a rule, see `check`.
    """
    check(schedule)
    changes = np.zeros((len(schedule.ticks) + 1, schedule.stages), np.intp)
    last: dict[tuple[int, int, int], int] = {}
    for tick, stage, task in schedule:
        if task.kind is F:
            changes[tick, stage] += 1
        elif task.kind.reads is F:
            last[task.microbatch, task.part, stage] = tick
    for (_, _, stage), tick in last.items():
        changes[tick + 1, stage] -= 1
    return tuple(int(n) for n in changes.cumsum(axis=0).max(axis=0))


def _raise_first(problems: Iterator[str]) -> None:
    """Raise ScheduleError with the first few problems, if there are any."""
    found = list(islice(problems, _LISTED + 1))
    if found:
        more = ["..."] if len(found) > _LISTED else []
        raise ScheduleError("\n".join(found[:_LISTED] + more))


# ---- sizes and bundles ---------------------------------------------------------------------------


def _bad_table(schedule: Schedule) -> Iterator[str]:
    """Problems of the table's shape, which the other checks take as right."""
    for name in ("stages", "chunks", "microbatches"):
        if getattr(schedule, name) < 1:
            yield f"{name}: {getattr(schedule, name)} is refused; valid: 1 or more"
    for tick, row in enumerate(schedule.ticks):
        if len(row) != schedule.stages:
            yield f"tick {tick} has {len(row)} bundles; valid: {schedule.stages}, one per stage"


def _bad_sizes(schedule: Schedule) -> Iterator[str]:
    names = Counter(cut.name for cut in schedule.encoders)
    for name, count in names.items():
        if count > 1 or name == "decoder":
            yield f"encoder {name!r}: the name is taken; valid: a name that no other module has"
    if not 0 <= schedule.prologue <= schedule.span.start:
        yield (
            f"prologue: {schedule.prologue} ticks are refused; valid: 0 to {schedule.span.start}, "
            "those before the decoder's first"
        )
    for cut in schedule.encoders:
        yield from _bad_cut(schedule, cut)


def _bad_cut(schedule: Schedule, cut: EncoderPieces) -> Iterator[str]:
    """Problems of an encoder's cut."""
    own = cut.feeds is not None or cut.each > 1
    limit = schedule.microbatches if cut.backward == 0 and not own else 0
    divisors = [n for n in range(1, schedule.stages + 1) if schedule.stages % n == 0]
    rules = (
        ("stages", cut.stages in divisors, f"a divisor of the decoder's {schedule.stages}"),
        (
            "pieces",
            cut.pieces >= 1 and cut.stages >= 1 and cut.pieces % cut.stages == 0,
            f"a multiple of the encoder's {cut.stages} stages",
        ),
        ("backward", 0 <= cut.backward <= cut.pieces, f"0 to {cut.pieces}, the pieces"),
        (
            "ahead",
            0 <= cut.ahead <= limit,
            f"0 to {limit} (only without a backward{' and own microbatches' if own else ''})",
        ),
        ("each", cut.each >= 1, "1 or more"),
    )
    for name, holds, valid in rules:
        if not holds:
            yield f"encoder {cut.name!r}: {name} {getattr(cut, name)} is refused; valid: {valid}"
    for unit, (first, last) in enumerate(cut.feeds or ()):
        if not 0 <= first <= last < schedule.microbatches:
            yield (
                f"encoder {cut.name!r}: its microbatch {unit} feeds {first} to {last}, which is "
                f"refused; valid: a first and a last one of 0 to {schedule.microbatches - 1}"
            )


def _bad_bundles(schedule: Schedule) -> Iterator[str]:
    """Bundles with two tasks of a kind; tasks that do not exist or are in a wrong place."""
    cuts = {cut.name: cut for cut in schedule.encoders}
    for tick, stage in _bad_positions(schedule, cuts):
        bundle = schedule.ticks[tick][stage]
        for task in bundle:
            if reason := _task_problem(schedule, cuts, stage, task):
                yield f"tick {tick}, stage {stage}: {task} {reason}"
        if reason := _repeated_kind(bundle):
            yield f"tick {tick}, stage {stage}: {reason}"


def _bad_positions(schedule: Schedule, cuts: Mapping[str, EncoderPieces]) -> list[tuple[int, int]]:
    """Tick and stage of the bundles that have a problem, found for all tasks at once."""
    tasks = schedule.task_arrays
    site = tasks.tick * schedule.stages + tasks.stage
    kinds = list(dict.fromkeys(kind for _, kind in tasks.keys))
    number = np.array([kinds.index(kind) for _, kind in tasks.keys], np.intp)[tasks.key]
    counts = np.bincount(site * len(kinds) + number)
    crowded = np.flatnonzero(counts > 1) // max(1, len(kinds))
    found = {*crowded.tolist(), *site[_misplaced_tasks(schedule, cuts)].tolist()}
    return [divmod(own, schedule.stages) for own in sorted(found)]


def _misplaced_tasks(schedule: Schedule, cuts: Mapping[str, EncoderPieces]) -> NDArray[np.bool_]:
    """`[tasks]`: whether `_task_problem` has a reason."""
    tasks = schedule.task_arrays
    found = np.ones(len(tasks.key), bool)
    for module, kind in tasks.keys:
        if _is_known(module, kind, cuts):
            own = tasks.of_key(module, kind)
            part, (microbatches, parts) = tasks.part[own], _ranges(schedule, cuts, module, kind)
            found[own] = _is_outside(tasks.microbatch[own], microbatches) | _is_outside(part, parts)
            if kind.encoder:
                cut = cuts[module]
                found[own] |= tasks.stage[own] % cut.stages != cut.stage(part)
    return found


def _is_outside(values: Ints, valid: range) -> NDArray[np.bool_]:
    return (values < valid.start) | (values >= valid.stop)


def _is_known(module: str, kind: TaskKind, cuts: Mapping[str, EncoderPieces]) -> bool:
    """Whether a module may have tasks of a kind."""
    if kind not in KINDS.values() or kind.encoder == (module == "decoder"):
        return False
    return not kind.encoder or module in cuts


def _ranges(
    schedule: Schedule, cuts: Mapping[str, EncoderPieces], module: str, kind: TaskKind
) -> tuple[range, range]:
    """The microbatches and the parts of a module that have a task of a kind."""
    if not kind.encoder:
        return range(schedule.microbatches), range(schedule.chunks)
    cut = cuts[module]
    ahead = cut.ahead * kind.forward
    return range(ahead, cut.units(schedule.microbatches) + ahead), cut.parts(kind)


def _repeated_kind(bundle: FusedTask) -> str | None:
    """Why `bundle` is too full."""
    if len(bundle) < 2 or len({task.kind for task in bundle}) == len(bundle):
        return None
    listed = ", ".join(str(task) for task in bundle)
    return f"{listed} in one bundle; valid: at most one task of each kind"


def _task_problem(
    schedule: Schedule, cuts: Mapping[str, EncoderPieces], stage: int, task: Task
) -> str | None:
    """Why `task` may not be on `stage`."""
    if task.kind not in KINDS.values():
        return f"has an unknown kind; valid: {', '.join(KINDS)}"
    if not _is_known(task.module, task.kind, cuts):
        valid = ", ".join(cuts) or "no encoder, for there is none"
        decoder, encoder = (" and ".join(map(str, kinds_of(name))) for name in ("decoder", ""))
        return f"is no task of {task.module!r}; valid: decoder {decoder}, {encoder} of {valid}"
    microbatches, parts = _ranges(schedule, cuts, task.module, task.kind)
    if task.kind.encoder:
        cut = cuts[task.module]
        if task.part in parts and stage % cut.stages != cut.stage(task.part):
            return f"is on a wrong stage; valid: {cut.stage(task.part)} + n x {cut.stages}"
    if task.microbatch not in microbatches:
        return f"has an unknown microbatch; valid: {_format_range(microbatches)}"
    if task.part not in parts:
        return f"has an unknown part; valid: {_format_range(parts)}"
    return None


def _format_range(values: range) -> str:
    return f"{values.start} to {values.stop - 1}" if values else "none"


# ---- dependencies --------------------------------------------------------------------------------


class _TaskIndex:
    """Place of every required task by its number; a decoder task has a number for each stage.

    Attributes:
        schedule: the schedule.
        ids: numbers by module and kind: `[microbatches, chunks, stages]` of the decoder,
            `[own microbatches, pieces]` of an encoder; microbatch `M + i` has the row of i. Kinds
            that a schedule may do without have numbers if it holds such a task.
        tick, stage: place by number, -1 for tasks that are missing.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.ids: dict[tuple[str, TaskKind], Ints] = {}
        count, held = schedule.microbatches, schedule.task_arrays.keys
        parts: dict[str, tuple[int, ...]] = {"decoder": (count, schedule.chunks, schedule.stages)}
        parts |= {cut.name: (cut.units(count), cut.pieces) for cut in schedule.encoders}
        shapes = {
            (module, kind): own
            for module, own in parts.items()
            for kind in kinds_of(module)
            if not kind.optional or (module, kind) in held
        }
        total = 0
        for key, shape in shapes.items():
            count = int(np.prod(shape))
            self.ids[key] = np.arange(total, total + count).reshape(shape)
            total += count
        self.tick, self.stage = np.full(total, -1), np.full(total, -1)

    def fill(self) -> Iterator[str]:
        """Find every task; yields problems of tasks that appear twice, then of missing ones."""
        tasks, number = self.schedule.task_arrays, self._numbers()
        order = np.argsort(number, kind="stable")
        again = number[order[1:]] == number[order[:-1]]
        twice = sorted(zip(*_masked_pairs(order[1:], order[:-1], again), strict=True))
        for task, before in twice:
            module, kind = tasks.keys[tasks.key[task]]
            name = Task(kind, int(tasks.microbatch[task]), int(tasks.part[task]), module)
            first = f"tick {tasks.tick[before]}, stage {tasks.stage[before]}"
            yield (
                f"tick {tasks.tick[task]}, stage {tasks.stage[task]}: {name} is already in "
                f"{first}; valid: once"
            )
        self.tick[number], self.stage[number] = tasks.tick, tasks.stage
        for ids in self.required():
            for missing in ids[self.tick[ids] < 0].tolist():
                yield f"{self.name(missing)} is missing; valid: once"

    def _numbers(self) -> Ints:
        """`[tasks]`: the number of every task of the schedule."""
        tasks = self.schedule.task_arrays
        number = np.zeros(len(tasks.key), np.intp)
        for key in tasks.keys:
            own, ids = tasks.of_key(*key), self.ids[key]
            place = tasks.microbatch[own] % len(ids), tasks.part[own], tasks.stage[own]
            number[own] = ids[place[: ids.ndim]]
        return number

    def required(self) -> Iterator[Ints]:
        """Numbers of the tasks that a complete schedule holds."""
        for (module, kind), ids in self.ids.items():
            yield ids[:, self.schedule.encoder(module).parts(kind)] if kind.encoder else ids

    def name(self, number: int) -> str:
        """`F(0, 1) of stage 2`, `vision EF(0, 1)`."""
        held = ((key, ids) for key, ids in self.ids.items() if ids.size)
        module, kind = next(key for key, ids in held if number <= ids.flat[-1])
        ids = self.ids[module, kind]
        microbatch, part, *stage = np.argwhere(ids == number)[0].tolist()
        if kind.encoder and kind.forward and microbatch < self.schedule.encoder(module).ahead:
            microbatch += self.schedule.microbatches
        task = str(Task(kind, microbatch, part, module))
        return f"{task} of stage {stage[0]}" if stage else task

    def where(self, number: int) -> str:
        """`tick 3, stage 1`."""
        return f"tick {self.tick[number]}, stage {self.stage[number]}"


def _split_pipelines(sites: _TaskIndex, cut: EncoderPieces) -> Iterator[str]:
    """Pieces of a microbatch in another encoder pipeline than its first piece."""
    own = {kind: ids for (module, kind), ids in sites.ids.items() if module == cut.name}
    numbers = np.concatenate([ids[:, cut.parts(kind)] for kind, ids in own.items()], axis=1)
    forward = own[EF]
    pipelines = sites.stage[numbers] // cut.stages
    elsewhere = pipelines != pipelines[:, :1]
    for number, first in zip(*_masked_pairs(numbers, forward[:, :1], elsewhere), strict=True):
        yield (
            f"{sites.where(number)}: {sites.name(number)} is in another encoder pipeline than "
            f"{sites.name(first)} ({sites.where(first)}); valid: one for all of a microbatch"
        )


def _masked_pairs(left: Ints, right: Ints, mask: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """The entries of both arrays, broadcast to one shape, where `mask` holds."""
    left, right = np.broadcast_arrays(left, right)
    return left[mask].tolist(), right[mask].tolist()


def _too_early(sites: _TaskIndex) -> Iterator[str]:
    """Tasks that run before their inputs have arrived."""
    for before, after in _dependencies(sites):
        early = sites.tick[after] <= sites.tick[before]
        for first, second in zip(*_masked_pairs(before, after, early), strict=True):
            yield (
                f"{sites.where(second)}: {sites.name(second)} needs {sites.name(first)} "
                f"({sites.where(first)}); valid: tick {sites.tick[first] + 1} or later"
            )
    for cut in (own for own in sites.schedule.encoders if own.ahead):
        entry = sites.ids["decoder", F][: cut.ahead, 0, 0]
        encoded = sites.ids[cut.name, EF][: cut.ahead, -1]
        early = sites.tick[encoded] < sites.tick[entry]
        for first, second in zip(*_masked_pairs(entry, encoded, early), strict=True):
            yield (
                f"{sites.where(second)}: {sites.name(second)} overwrites what {sites.name(first)} "
                f"({sites.where(first)}) reads; valid: tick {sites.tick[first]} or later"
            )


def _dependencies(sites: _TaskIndex) -> Iterator[tuple[Ints, Ints]]:
    """Numbers of tasks and of tasks that need them in an earlier tick."""
    for (module, kind), ids in sites.ids.items():
        row = _task_rows(sites, module, kind)
        for before, name, ahead in _entries(sites, module, kind) if row.size else ():
            first, then = _microbatch_pairs(sites.schedule, name, module)
            yield before[first[ahead:], -1], row[then[ahead:], 0]
        if kind.passes:
            yield row[:, :-1], row[:, 1:]
        if kind.same_chunk is not None and (module, kind.same_chunk) in sites.ids:
            yield sites.ids[module, kind.same_chunk], ids


def _task_rows(sites: _TaskIndex, module: str, kind: TaskKind) -> Ints:
    """`[microbatches, tasks]`: the tasks of a kind that follow one another through a module."""
    ids = sites.ids[module, kind]
    if kind.encoder:
        ids = ids[:, sites.schedule.encoder(module).parts(kind)]
    row = ids.reshape(len(ids), int(np.prod(ids.shape[1:])))
    return row if kind.forward else row[:, ::-1]


def _microbatch_pairs(schedule: Schedule, before: str, after: str) -> tuple[Ints, Ints]:
    """Microbatches of a module, and those of the next one in which they go on."""
    for name in (before, after):
        if name != "decoder" and before != after:
            units, fed = schedule.encoder(name).feed_pairs(schedule.microbatches)
            return (units, fed) if name == before else (fed, units)
    every = np.arange(schedule.microbatches)
    return every, every


def _entries(sites: _TaskIndex, module: str, kind: TaskKind) -> Iterator[tuple[Ints, str, int]]:
    """Rows at whose ends the row of `kind` begins, their module, and the first pair that counts.

    The step before has encoded the microbatches before that one.
    """
    for name, own in sites.ids:
        if own is kind.entry and (name == "decoder" or module in ("decoder", name)):
            row = _task_rows(sites, name, own)
            if row.size:
                yield row, name, sites.schedule.encoder(name).ahead if own.encoder else 0
