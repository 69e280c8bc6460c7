"""Checks of lowered schedules: their tables run on names in place of arrays.

The checks know only what the tables say of the slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.lowered import LoweredSchedule, MergeTable
from scheduling.lowering.trees import flat_leaves
from scheduling.schedules.check import check_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import Feed, FusedTask, ModuleStages, Task

Ints = NDArray[np.intp]

Row = tuple[FusedTask, ...]


def check_lowered(program: LoweredSchedule) -> None:
    """Execute a program on names: every task of the schedule must read the values it needs.

    A slot that is overwritten too early, a value in a wrong slot or on a wrong stage, a task in a
    wrong place and an entry that no task explains are all reported. This takes one or two
    seconds for 130,000 tasks.

    Raises:
        ScheduleError: the first problem, with table, tick and stage.
    """
    check_schedule(program.schedule)
    _check_owners(program)
    _Execution(program).run_ticks()


class _Value(NamedTuple):
    """The name of an array: its meaning and its task."""

    what: str
    module: str
    microbatch: int
    chunk: int

    def __str__(self) -> str:
        return f"{self.module} {self.what}({self.microbatch}, {self.chunk})"


class _Access(NamedTuple):
    """An access to `value` in the slot of `buffer` that an entry of `table` names."""

    table: str
    buffer: str
    stage: int
    value: _Value


class _Moves:
    """Reads and writes of tasks, derived from the schedule alone."""

    def __init__(self, program: LoweredSchedule) -> None:
        schedule = program.schedule
        self.full = {name: lowered.remat == "full" for name, lowered in program.modules.items()}
        self.backbone = schedule.backbone
        self.modules = {module.name: module for module in schedule.modules}
        self.owners = _find_owners(schedule)
        self.split = {name for name, kind in schedule.task_arrays.keys if kind is W}
        self.feeds: dict[str, dict[int, list[int]]] = {
            lowered.source: {} for lowered in schedule.feeds
        }
        for feed in schedule.feeds:
            for source, target in zip(*feed.microbatch_pairs(schedule.microbatches), strict=True):
                self.feeds[feed.source].setdefault(int(target), []).append(int(source))

    def entering_microbatch(self, row: Row) -> int | None:
        """The microbatch whose first task of the backbone stands in a tick."""
        return next((t.microbatch for t in row[0] if self._is_first(t, F)), None)

    def leaving_microbatch(self, row: Row) -> int | None:
        """The microbatch whose last backward of the backbone stands in a tick."""
        return next((t.microbatch for t in row[0] if self._is_first(t, B)), None)

    def _is_first(self, task: Task, kind: TaskKind) -> bool:
        """Whether a task is of the first chunk of the backbone."""
        return (task.kind, task.module, task.chunk) == (kind, self.backbone.name, 0)

    def feeding_microbatches(self, name: str, microbatch: int) -> dict[int, list[int]]:
        """Microbatches of a source that feed one of the backbone's, by stage of their outputs."""
        by_stage: dict[int, list[int]] = {}
        for source in self.feeds[name].get(microbatch, ()):
            stage = self.stage_of(name, source, self.modules[name].chunks - 1)
            by_stage.setdefault(stage, []).append(source)
        return by_stage

    def entry_writes(self, row: Row) -> Iterator[_Access]:
        """The write of the microbatch's input in the same stage sync."""
        for task in row[0]:
            if self._is_first(task, F):
                yield _make_access("ends.embed_input", "inputs", 0, _make_value("input", task))

    def tick_reads(self, row: Row) -> Iterator[_Access]:
        """Reads of the tasks of a tick."""
        reads = {F: self._forward_reads, B: self._backward_reads, W: self._weights_reads}
        for stage, fused in enumerate(row):
            for task in fused:
                yield from reads[task.kind](stage, task)

    def tick_writes(self, row: Row) -> Iterator[_Access]:
        """Writes at the end of a tick."""
        writes = {F: self._forward_writes, B: self._backward_writes}
        for stage, fused in enumerate(row):
            for task in fused:
                if task.kind in writes:
                    yield from writes[task.kind](stage, task)

    def output_of(self, name: str, microbatch: int) -> _Value:
        """The output of a module for `microbatch`."""
        return _Value("output", name, microbatch, self.modules[name].chunks - 1)

    def stage_of(self, name: str, microbatch: int, chunk: int) -> int:
        """Stage that runs `chunk` of `microbatch`."""
        module = self.modules[name]
        return self.owners[name][microbatch] * module.stages + module.stage_of(chunk)

    def _has_input(self, task: Task) -> bool:
        """Whether the input of a task waits in a buffer; else it is the batch."""
        return task.chunk > 0 or self.modules[task.module].shared_ends

    def _is_last(self, task: Task) -> bool:
        return task.chunk == self.modules[task.module].chunks - 1

    def _forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        if self._has_input(task):
            yield _make_access("forward.input", "inputs", stage, _make_value("input", task))

    def _forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        module = self.modules[task.module]
        if not self.full[task.module] and task.chunk in module.chunks_with(B):
            yield _make_access("forward.saved", "saved", stage, _make_value("saved", task))
        if not self._is_last(task):
            yield self._passing_write(stage, task, 1, "input")
        elif module.shared_ends:
            yield _make_access(
                "ends.head_gradient", "gradients", stage, _make_value("gradient", task)
            )
        else:
            yield _make_access(
                "forward.output", "output_buffer", stage, _make_value("output", task)
            )

    def _passing_write(self, stage: int, task: Task, further: int, what: str) -> _Access:
        """The write of a value for the next chunk, `further` chunks on."""
        module, value = self.modules[task.module], _make_value(what, task, further)
        to = stage + module.stage_of(value.chunk) - module.stage_of(task.chunk)
        move = "keep" if to == stage else "receive"
        return _make_access(f"{move}_{what}", f"{what}s", to, value)

    def _backward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        waits = self._is_last(task) and not self.modules[task.module].shared_ends
        buffer = "output_grad_buffer" if waits else "gradients"
        yield _make_access("backward.gradient", buffer, stage, _make_value("gradient", task))
        if not self.full[task.module]:
            yield _make_access("backward.saved", "saved", stage, _make_value("saved", task))
        elif self._has_input(task):
            yield _make_access("backward.input", "inputs", stage, _make_value("input", task))

    def _weights_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        yield _make_access("weights.operands", "operands", stage, _make_value("operands", task))

    def _backward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        if task.module in self.split:
            yield _make_access("weights.written", "operands", stage, _make_value("operands", task))
        if task.chunk - 1 in self.modules[task.module].chunks_with(B):
            yield self._passing_write(stage, task, -1, "gradient")


def _make_access(table: str, buffer: str, stage: int, value: _Value) -> _Access:
    """An access to a table and a buffer of the value's module."""
    return _Access(f"{value.module} {table}", f"{value.module} {buffer}", stage, value)


def _make_value(what: str, task: Task, further: int = 0) -> _Value:
    """The value of `task`, or of the task that is `further` parts on."""
    return _Value(what, task.module, task.microbatch, task.chunk + further)


class _Execution:
    """The state of a program that runs on names."""

    def __init__(self, program: LoweredSchedule) -> None:
        self.program, self.schedule = program, program.schedule
        self.moves = _Moves(program)
        tasks = _task_tables(self.schedule)
        tables = _flatten_tables(program)
        for name, expected in tasks.items():
            _compare_tables(name, tables[name], expected)
        # Entries are removed when they are used, so that those left have no reason to be there.
        self.entries = {n: t.tolist() for n, t in tables.items() if n not in tasks}
        self.memory: dict[str, list[list[_Value | None]]] = {
            buffer: [[None] * size for _ in range(self.schedule.stages)]
            for buffer, size in _list_buffers(program)
        }
        self.begun: set[_Value] = set()
        self.tick = 0

    def run_ticks(self) -> None:
        """Follow the values of the program through all ticks."""
        for stage, buffer, slot, value in self._carried_outputs(0):
            self._write_slot(stage, buffer, slot, value)
        moves, syncs = self.moves, self.schedule.stage_syncs.tolist()
        entering = {last: tick for tick, last in enumerate(self.schedule.last_sync.tolist())}
        self._enter_microbatch(entering.get(-1))
        for tick, row in enumerate(self.schedule.ticks):
            self.tick = tick
            self._apply_accesses(self._read_slot, moves.tick_reads(row))
            self._apply_accesses(self._write_slot, moves.tick_writes(row))
            self._return_gradients(row)
            if syncs[tick]:
                self._enter_microbatch(entering.get(tick))
        for stage, buffer, slot, value in self._carried_outputs(self.schedule.microbatches):
            self._read_slot(stage, buffer, slot, value)
        for name, rows in self.entries.items():
            _compare_tables(name, np.array(rows), np.full_like(rows, -1))

    def _enter_microbatch(self, tick: int | None) -> None:
        """The stage sync before `tick`: its microbatch enters the backbone."""
        if tick is None:
            return
        now, self.tick = self.tick, tick
        row = self.schedule.ticks[tick]
        microbatch = self.moves.entering_microbatch(row)
        for name in self.moves.feeds:
            for stage, pair, source in self._moving_pairs(name, microbatch, "merge"):
                slot = int(self.program.feed_of(name).merges.slots.output_buffer[stage, pair])
                self._read_slot(
                    stage, f"{name} output_buffer", slot, self.moves.output_of(name, source)
                )
        self._apply_accesses(self._write_slot, self.moves.entry_writes(row))
        self.tick = now

    def _return_gradients(self, row: Row) -> None:
        """The gradient of a microbatch's input is added to those of the outputs that fed it."""
        microbatch = self.moves.leaving_microbatch(row)
        for name in self.moves.feeds:
            module, slots = self.moves.modules[name], self.program.feed_of(name).merges.slots
            returned = microbatch if module.trains else None
            for stage, number, source in self._moving_pairs(name, returned, "return"):
                slot = int(slots.output_grad_buffer[stage, number])
                is_first = int(slots.is_first[stage, number])
                value = _Value("gradient", name, source, module.chunks - 1)
                if is_first != (value not in self.begun):
                    self._raise_problem(
                        stage, f"is_first of {value} is {is_first}; valid: {1 - is_first}"
                    )
                if not is_first:
                    self._read_slot(stage, f"{name} output_grad_buffer", slot, value)
                self._write_slot(stage, f"{name} output_grad_buffer", slot, value)
                self.begun.add(value)

    def _moving_pairs(
        self, name: str, microbatch: int | None, table: str
    ) -> Iterator[tuple[int, int, int]]:
        """Stage, number and source microbatch of the pairs that move in this tick.

        Entries of `table` are removed. Those of the pairs have been held against the schedule.
        """
        first, count = (
            self.entries[f"{name} {part}"][self.tick]
            for part in (f"{table}_first", f"{table}_count")
        )
        expected = {} if microbatch is None else self.moves.feeding_microbatches(name, microbatch)
        pairs = self.program.feed_of(name).merges
        for stage, microbatches in expected.items():
            numbers = range(first[stage], first[stage] + count[stage])
            inside = numbers.start >= 0 and numbers.stop <= pairs.count
            sources = [int(pairs.source[stage, n]) for n in numbers] if inside else numbers
            fed = {int(pairs.target[stage, n]) for n in numbers} if inside else set()
            if sources != microbatches or fed != {microbatch}:
                self._raise_problem(
                    stage,
                    f"{name} {table} names pairs {numbers.start} to {numbers.stop - 1}; valid: "
                    f"those of its microbatches {microbatches} with microbatch {microbatch}",
                )
            first[stage] = count[stage] = -1
            yield from ((stage, n, m) for n, m in zip(numbers, microbatches, strict=True))

    def _carried_outputs(self, first: int) -> Iterator[tuple[int, str, int, _Value]]:
        """Outputs of the microbatches from `first` on that wait from step to step."""
        for name, module in self.program.modules.items():
            for i, slot in enumerate(module.prefetch_slot.tolist()):
                value = self.moves.output_of(name, first + i)
                yield (
                    self.moves.stage_of(name, i, value.chunk),
                    f"{name} output_buffer",
                    slot,
                    value,
                )

    def _apply_accesses(
        self, act: Callable[[int, str, int, _Value], None], accesses: Iterable[_Access]
    ) -> None:
        for table, buffer, stage, value in accesses:
            row = self.entries[table][self.tick]
            if row[stage] < 0:
                self._raise_problem(stage, f"{table} has no slot for {value}")
            act(stage, buffer, row[stage], value)
            row[stage] = -1

    def _read_slot(self, stage: int, buffer: str, slot: int, value: _Value) -> None:
        content = self._slots_of(stage, buffer, slot)[slot]
        if content != value:
            self._raise_problem(
                stage, f"{value} is needed, but slot {slot} of {buffer} holds {content}"
            )

    def _write_slot(self, stage: int, buffer: str, slot: int, value: _Value) -> None:
        self._slots_of(stage, buffer, slot)[slot] = value

    def _slots_of(self, stage: int, buffer: str, slot: int) -> list[_Value | None]:
        slots = self.memory[buffer][stage]
        if not 0 <= slot < len(slots):
            self._raise_problem(
                stage, f"slot {slot} of {buffer} is not there; valid: below {len(slots)}"
            )
        return slots

    def _raise_problem(self, stage: int, problem: str) -> NoReturn:
        raise ScheduleError(f"tick {self.tick}, stage {stage}: {problem}")


def _find_owners(schedule: Schedule) -> dict[str, list[int]]:
    """Pipeline of every microbatch, by module."""
    owners = {
        module.name: [0] * schedule.microbatches_of(module.name) for module in schedule.modules
    }
    for _, stage, task in schedule:
        if task.kind is F:
            stage_of_owner, pipeline = (
                owners[task.module],
                stage // schedule.module_named(task.module).stages,
            )
            stage_of_owner[task.microbatch % len(stage_of_owner)] = pipeline
    return owners


def _local_positions(owners: list[int]) -> list[int]:
    """Position of every microbatch in its pipeline's batch."""
    counts: Counter[int] = Counter()
    positions = []
    for owner in owners:
        positions.append(counts[owner])
        counts[owner] += 1
    return positions


def _check_owners(program: LoweredSchedule) -> None:
    """Hold what a lowered schedule says of the modules' microbatches against the schedule."""
    schedule, every = program.schedule, _find_owners(program.schedule)
    for name, owners in every.items():
        module, local = program.modules[name], _local_positions(owners)
        facts: tuple[tuple[str, Any, Any], ...] = (
            ("stages", module.stages, schedule.module_named(name)),
            ("owners", module.owners.tolist(), owners),
            ("local", module.local.tolist(), local),
            ("slots", module.slots, max(local, default=-1) + 1),
            ("prefetched slots", len(module.prefetch_slot), module.stages.prefetch),
        )
        _refuse_wrong(name, facts)
    for lowered, feed in zip(program.feeds, schedule.feeds, strict=True):
        pairs = _named_pairs(lowered.merges), _expected_pairs(schedule, feed, every[feed.source])
        _refuse_wrong(feed.source, (("feed", lowered.feed, feed), ("pairs", *pairs)))


def _refuse_wrong(name: str, facts: tuple[tuple[str, Any, Any], ...]) -> None:
    for what, value, valid in facts:
        if value != valid:
            raise ScheduleError(f"module {name!r}: {what} {value} is wrong; valid: {valid}")


def _named_pairs(pairs: MergeTable) -> list[tuple[int, int, int]]:
    """Stage, target microbatch and source microbatch of every pair, sorted."""
    rows = enumerate(zip(pairs.target.tolist(), pairs.source.tolist(), strict=True))
    named = [(s, m, source) for s, row in rows for m, source in zip(*row, strict=True)]
    return sorted(pair for pair in named if max(pair[1:]) >= 0)


def _expected_pairs(
    schedule: Schedule, feed: Feed, owners: list[int]
) -> list[tuple[int, int, int]]:
    """`_named_pairs` as the schedule has them."""
    module = schedule.module_named(feed.source)
    last = module.stage_of(module.chunks - 1)
    sources, targets = (part.tolist() for part in feed.microbatch_pairs(schedule.microbatches))
    stages = [owners[source] * module.stages + last for source in sources]
    return sorted(zip(stages, targets, sources, strict=True))


def _flatten_tables(program: LoweredSchedule) -> dict[str, Ints]:
    """All tables by module and dotted name, `[ticks, stages]`."""
    flat = {name: dict(_dotted_names(name, part.tables)) for name, part in program.modules.items()}
    for part in program.feeds:
        flat[part.feed.source] |= _dotted_names(part.feed.source, part.tables)
    last = program.schedule.stages - 1
    shape = (len(program.schedule.ticks), last + 1)
    tables = {name: table for part in flat.values() for name, table in part.items()}
    for name, table in tables.items():
        if table.ndim == 1:
            tables[name] = np.full(shape, -1)
            tables[name][:, last if ".head" in name else 0] = table
        elif table.shape != shape:
            raise ScheduleError(f"{name}: shape {table.shape} is wrong; valid: {shape}")
    return tables


def _dotted_names(module: str, tables: Any) -> dict[str, Ints]:
    """`vision forward.input`: the tables of a module by name."""
    return {f"{module} {'.'.join(path)}": table for path, table in flat_leaves(tables).items()}


def _task_tables(schedule: Schedule) -> dict[str, Ints]:
    """The contents that the tables which name tasks must have."""
    shape = (len(schedule.ticks), schedule.stages)
    local = {name: _local_positions(owners) for name, owners in _find_owners(schedule).items()}
    names = [
        name
        for module in schedule.modules
        for kind in (F, B, W)
        if kind is not W or (module.name, W) in schedule.task_arrays.keys
        for name, _ in _task_entries(module, Task(kind, module.name, 0), [0])
    ]
    ends = [
        name for stages in schedule.modules if stages.shared_ends for name in _end_tables(stages)
    ]
    tables = {name: np.full(shape, -1) for name in (*names, *ends)}
    modules = {module.name: module for module in schedule.modules}
    for tick, stage, task in schedule:
        module = modules[task.module]
        for name, value in _task_entries(module, task, local[task.module]):
            tables[name][tick, stage] = value
        if module.shared_ends:
            for name, place in _end_tables(module).items():
                if place == (task.kind, task.chunk):
                    tables[name][tick, stage] = task.microbatch
    return tables


def _task_entries(module: ModuleStages, task: Task, local: list[int]) -> Iterator[tuple[str, int]]:
    """Tables and entries that name a task; `local` is that of every microbatch of the module."""
    table = f"{task.module} {task.kind.cost}"
    yield f"{table}.microbatch", task.microbatch
    yield f"{table}.chunk", task.chunk
    if not module.shared_ends:
        yield f"{table}.local", local[task.microbatch % len(local)]


def _end_tables(module: ModuleStages) -> dict[str, tuple[TaskKind, int]]:
    """Tables of what all stages do together, and the task before or after which they do it."""
    ends = f"{module.name} ends"
    return {
        f"{ends}.embed_microbatch": (F, 0),
        f"{ends}.head_microbatch": (F, module.chunks - 1),
        f"{ends}.return_microbatch": (B, 0),
    }


def _compare_tables(name: str, actual: Ints, expected: Ints) -> None:
    """Raise for the first entry that differs."""
    for tick, stage in np.argwhere(actual != expected)[:1].tolist():
        raise ScheduleError(
            f"tick {tick}, stage {stage}: {name} is {actual[tick, stage]}; "
            f"valid: {expected[tick, stage]}"
        )


def _list_buffers(program: LoweredSchedule) -> Iterator[tuple[str, int]]:
    """Every buffer and its slots."""
    for name, sizes in program.sizes.items():
        for buffer, size in asdict(sizes).items():
            yield f"{name} {buffer}", size
