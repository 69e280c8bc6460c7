"""Checks of compiled programs: their tables run on names in place of arrays.

The checks know only what the tables say of the program's slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.lowered import LoweredSchedule, MergeTable
from scheduling.schedules.check import check
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import FusedTask, Task

Ints = NDArray[np.intp]

Row = tuple[FusedTask, ...]

_SOURCE_FIELDS = ("microbatch", "chunk", "local")


def check_lowered(program: LoweredSchedule) -> None:
    """Execute a program on names: every task of the schedule must read the values it needs.

    A slot that is overwritten too early, a value that lands in a wrong slot or on a wrong stage,
    a task in a wrong place and an entry that no task explains are all found. This takes one or two
    seconds for 130,000 tasks.

    Raises:
        ScheduleError: the first problem, with table, tick and stage.
    """
    check(program.schedule)
    _check_owners(program)
    _Execution(program).run()


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


#: Accesses of a task on a stage, by its kind.
_Accesses = Mapping[TaskKind, Callable[[int, Task], Iterator[_Access]]]


class _Moves:
    """Reads and writes of tasks, derived from the schedule alone."""

    def __init__(self, program: LoweredSchedule) -> None:
        schedule = program.schedule
        self.stages, self.chunks = schedule.stages, schedule.chunks
        self.full = program.remat == "full"
        self.full_in = {name: tables.remat == "full" for name, tables in program.encoders.items()}
        self.backbone = schedule.backbone
        self.modules = {module.name: module for module in schedule.sources}
        self.owners = _owners(schedule)
        self.parted = schedule.split_backward
        self.feeds: dict[str, dict[int, list[int]]] = {name: {} for name in self.modules}
        for feed in schedule.feeds:
            for source, target in zip(*feed.pairs(schedule.microbatches), strict=True):
                self.feeds[feed.source].setdefault(int(target), []).append(int(source))

    def entering(self, row: Row) -> int | None:
        """The microbatch whose first task of the backbone stands in a tick."""
        return next((t.microbatch for t in row[0] if self._is_first(t, F)), None)

    def leaving(self, row: Row) -> int | None:
        """The microbatch whose last backward of the backbone stands in a tick."""
        return next((t.microbatch for t in row[0] if self._is_first(t, B)), None)

    def _is_first(self, task: Task, kind: TaskKind) -> bool:
        """Whether a task is of the first chunk of the backbone."""
        return (task.kind, task.module, task.chunk) == (kind, self.backbone.name, 0)

    def feeding(self, name: str, microbatch: int) -> dict[int, list[int]]:
        """Encoder microbatches that feed one of the decoder's, by the stage of their outputs."""
        by_stage: dict[int, list[int]] = {}
        for unit in self.feeds[name].get(microbatch, ()):
            stage = self.stage(name, unit, self.modules[name].chunks - 1)
            by_stage.setdefault(stage, []).append(unit)
        return by_stage

    def entered(self, row: Row) -> Iterator[_Access]:
        """The write of the microbatch's input in the same stage sync."""
        for task in row[0]:
            if self._is_first(task, F):
                yield _Access("embed_input", "inputs", 0, _value("input", task))

    def read(self, row: Row) -> Iterator[_Access]:
        """Reads of the tasks of a tick."""
        backbone = {F: self._forward_reads, B: self._backward_reads, W: self._weights_reads}
        others = {F: self._source_forward_reads, B: self._source_backward_reads}
        return self._of_tasks(row, backbone, others)

    def written(self, row: Row) -> Iterator[_Access]:
        """Writes at the end of a tick."""
        backbone: _Accesses = {
            F: self._forward_writes,
            B: self._backward_writes,
            W: lambda stage, task: iter(()),
        }
        others = {F: self._source_forward_writes, B: self._source_backward_writes}
        return self._of_tasks(row, backbone, others)

    def _of_tasks(self, row: Row, backbone: _Accesses, others: _Accesses) -> Iterator[_Access]:
        """Accesses of the tasks of a tick, by kind of task of the backbone or of other modules."""
        for stage, fused in enumerate(row):
            for task in fused:
                accesses = backbone if task.module == self.backbone.name else others
                yield from accesses[task.kind](stage, task)

    def output(self, name: str, microbatch: int) -> _Value:
        """The encoder's output for `microbatch`."""
        return _Value("output", name, microbatch, self.modules[name].chunks - 1)

    def stage(self, name: str, microbatch: int, chunk: int) -> int:
        """Stage that runs `chunk` of `microbatch`."""
        module = self.modules[name]
        return self.owners[name][microbatch] * module.stages + module.stage_of(chunk)

    def _forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        yield _Access("forward.input", "inputs", stage, _value("input", task))

    def _forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        if not self.full:
            yield _Access("forward.saved", "saved", stage, _value("saved", task))
        if stage < self.stages - 1:
            yield _Access("receive_input", "inputs", stage + 1, _value("input", task, 1))
        elif task.chunk < self.backbone.chunks - 1:
            yield _Access("receive_input", "inputs", 0, _value("input", task, 1))
        else:
            yield _Access("head_gradient", "gradients", stage, _value("gradient", task))

    def _backward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        yield _Access("backward.gradient", "gradients", stage, _value("gradient", task))
        if self.full:
            yield _Access("backward.input", "inputs", stage, _value("input", task))
        else:
            yield _Access("backward.saved", "saved", stage, _value("saved", task))

    def _weights_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        yield _Access("weights.operands", "operands", stage, _value("operands", task))

    def _backward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        if self.parted:
            yield _Access("weights.written", "operands", stage, _value("operands", task))
        if stage > 0:
            value = _value("gradient", task, -1)
            yield _Access("receive_gradient", "gradients", stage - 1, value)
        elif task.chunk > 0:
            last, value = self.stages - 1, _value("gradient", task, -1)
            yield _Access("receive_gradient", "gradients", last, value)

    def _source_forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name = task.module
        if task.chunk:
            value = _value("input", task)
            yield _Access(f"{name} forward.input", f"{name} inputs", stage, value)

    def _source_forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        name, module = task.module, self.modules[task.module]
        if not self.full_in[name] and task.chunk in module.chunks_with(B):
            value = _value("saved", task)
            yield _Access(f"{name} forward.saved", f"{name} saved", stage, value)
        if task.chunk == module.chunks - 1:
            value = _value("output", task)
            yield _Access(f"{name} forward.output", f"{name} output_buffer", stage, value)
        else:
            to = stage + module.stage_of(task.chunk + 1) - module.stage_of(task.chunk)
            table = "keep_input" if to == stage else "receive_input"
            yield _Access(f"{name} {table}", f"{name} inputs", to, _value("input", task, 1))

    def _source_backward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name, module = task.module, self.modules[task.module]
        buffer = "output_grad_buffer" if task.chunk == module.chunks - 1 else "gradients"
        value = _value("gradient", task)
        yield _Access(f"{name} backward.gradient", f"{name} {buffer}", stage, value)
        if not self.full_in[name]:
            value = _value("saved", task)
            yield _Access(f"{name} backward.saved", f"{name} saved", stage, value)
        elif task.chunk:
            value = _value("input", task)
            yield _Access(f"{name} backward.input", f"{name} inputs", stage, value)

    def _source_backward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        name, module = task.module, self.modules[task.module]
        if task.chunk - 1 in module.chunks_with(B):
            to = stage + module.stage_of(task.chunk - 1) - module.stage_of(task.chunk)
            table = "keep_gradient" if to == stage else "receive_gradient"
            value = _value("gradient", task, -1)
            yield _Access(f"{name} {table}", f"{name} gradients", to, value)


def _value(what: str, task: Task, further: int = 0) -> _Value:
    """The value of `task`, or of the task that is `further` parts on."""
    return _Value(what, task.module, task.microbatch, task.chunk + further)


class _Execution:
    """The state of a program that runs on names."""

    def __init__(self, program: LoweredSchedule) -> None:
        self.program, self.schedule = program, program.schedule
        self.moves = _Moves(program)
        tasks = _task_tables(self.schedule)
        tables = _tables(program)
        for name, expected in tasks.items():
            _compare(name, tables[name], expected)
        # Entries are removed when they are used, so that those left have no reason to be there.
        self.entries = {n: t.tolist() for n, t in tables.items() if n not in tasks}
        self.memory: dict[str, list[list[_Value | None]]] = {
            buffer: [[None] * size for _ in range(self.schedule.stages)]
            for buffer, size in _buffers(program)
        }
        self.begun: set[_Value] = set()
        self.tick = 0

    def run(self) -> None:
        """Follow the values of the program through all ticks."""
        for stage, buffer, slot, value in self._carried(0):
            self._write(stage, buffer, slot, value)
        moves, meets = self.moves, self.schedule.stage_syncs.tolist()
        entering = {last: tick for tick, last in enumerate(self.schedule.last_sync.tolist())}
        self._enter(entering.get(-1))
        for tick, row in enumerate(self.schedule.ticks):
            self.tick = tick
            self._all(self._read, moves.read(row))
            self._all(self._write, moves.written(row))
            self._leave(row)
            if meets[tick]:
                self._enter(entering.get(tick))
        for stage, buffer, slot, value in self._carried(self.schedule.microbatches):
            self._read(stage, buffer, slot, value)
        for name, rows in self.entries.items():
            _compare(name, np.array(rows), np.full_like(rows, -1))

    def _enter(self, tick: int | None) -> None:
        """The stage sync before `tick`: its microbatch enters the decoder."""
        if tick is None:
            return
        now, self.tick = self.tick, tick
        row = self.schedule.ticks[tick]
        microbatch = self.moves.entering(row)
        for name in self.moves.modules:
            for stage, pair, unit in self._pairs(name, microbatch, "merge"):
                slot = int(self.program.encoders[name].merges.output_buffer[stage, pair])
                self._read(stage, f"{name} output_buffer", slot, self.moves.output(name, unit))
        self._all(self._write, self.moves.entered(row))
        self.tick = now

    def _leave(self, row: Row) -> None:
        """The gradient of a microbatch's input is added to those of the outputs that fed it."""
        microbatch = self.moves.leaving(row)
        for name, module in self.moves.modules.items():
            for stage, number, unit in self._pairs(
                name, microbatch if module.trains else None, "return"
            ):
                pairs = self.program.encoders[name].merges
                slot, fresh = (
                    int(pairs.output_grad_buffer[stage, number]),
                    int(pairs.is_first[stage, number]),
                )
                value = _Value("gradient", name, unit, module.chunks - 1)
                if fresh != (value not in self.begun):
                    self._fail(stage, f"fresh of {value} is {fresh}; valid: {1 - fresh}")
                if not fresh:
                    self._read(stage, f"{name} output_grad_buffer", slot, value)
                self._write(stage, f"{name} output_grad_buffer", slot, value)
                self.begun.add(value)

    def _pairs(
        self, name: str, microbatch: int | None, table: str
    ) -> Iterator[tuple[int, int, int]]:
        """Stage, number and encoder microbatch of the pairs that move in this tick.

        Entries of `table` are removed. Those of the pairs have been held against the schedule.
        """
        first, count = (
            self.entries[f"{name} {part}"][self.tick]
            for part in (f"{table}_first", f"{table}_count")
        )
        expected = {} if microbatch is None else self.moves.feeding(name, microbatch)
        pairs = self.program.encoders[name].merges
        for stage, units in expected.items():
            numbers = range(first[stage], first[stage] + count[stage])
            inside = numbers.start >= 0 and numbers.stop <= pairs.count
            sources = [int(pairs.source[stage, n]) for n in numbers] if inside else numbers
            fed = {int(pairs.target[stage, n]) for n in numbers} if inside else set()
            if sources != units or fed != {microbatch}:
                self._fail(
                    stage,
                    f"{name} {table} names pairs {numbers.start} to {numbers.stop - 1}; valid: "
                    f"those of the encoder's microbatches {units} with microbatch {microbatch}",
                )
            first[stage] = count[stage] = -1
            yield from ((stage, n, unit) for n, unit in zip(numbers, units, strict=True))

    def _carried(self, first: int) -> Iterator[tuple[int, str, int, _Value]]:
        """Outputs of the microbatches from `first` on that wait from step to step."""
        for name, encoder in self.program.encoders.items():
            for i, slot in enumerate(encoder.prefetch_slot.tolist()):
                value = self.moves.output(name, first + i)
                yield self.moves.stage(name, i, value.chunk), f"{name} output_buffer", slot, value

    def _all(
        self, act: Callable[[int, str, int, _Value], None], accesses: Iterable[_Access]
    ) -> None:
        for table, buffer, stage, value in accesses:
            row = self.entries[table][self.tick]
            if row[stage] < 0:
                self._fail(stage, f"{table} has no slot for {value}")
            act(stage, buffer, row[stage], value)
            row[stage] = -1

    def _read(self, stage: int, buffer: str, slot: int, value: _Value) -> None:
        content = self._slots(stage, buffer, slot)[slot]
        if content != value:
            self._fail(stage, f"{value} is needed, but slot {slot} of {buffer} holds {content}")

    def _write(self, stage: int, buffer: str, slot: int, value: _Value) -> None:
        self._slots(stage, buffer, slot)[slot] = value

    def _slots(self, stage: int, buffer: str, slot: int) -> list[_Value | None]:
        slots = self.memory[buffer][stage]
        if not 0 <= slot < len(slots):
            self._fail(stage, f"slot {slot} of {buffer} is not there; valid: below {len(slots)}")
        return slots

    def _fail(self, stage: int, problem: str) -> NoReturn:
        raise ScheduleError(f"tick {self.tick}, stage {stage}: {problem}")


def _owners(schedule: Schedule) -> dict[str, list[int]]:
    """Encoder pipeline of every microbatch, by encoder."""
    owners = {
        module.name: [0] * schedule.microbatches_of(module.name) for module in schedule.sources
    }
    for _, stage, task in schedule:
        if task.kind is F and task.module in owners:
            own, pipeline = owners[task.module], stage // schedule.module(task.module).stages
            own[task.microbatch % len(own)] = pipeline
    return owners


def _locals(owners: list[int]) -> list[int]:
    """Position of every microbatch in its pipeline's batch."""
    counts: Counter[int] = Counter()
    positions = []
    for owner in owners:
        positions.append(counts[owner])
        counts[owner] += 1
    return positions


def _check_owners(program: LoweredSchedule) -> None:
    """Hold what a program says of the encoders' microbatches against the schedule."""
    for name, owners in _owners(program.schedule).items():
        encoder, local = program.encoders[name], _locals(owners)
        facts: tuple[tuple[str, Any, Any], ...] = (
            ("module", encoder.module, program.schedule.module(name)),
            ("feed", encoder.feed, program.schedule.feed(name)),
            ("owners", encoder.owners.tolist(), owners),
            ("local", encoder.local.tolist(), local),
            ("slots", encoder.slots, max(local, default=-1) + 1),
            ("number of ahead slots", len(encoder.prefetch_slot), encoder.module.prefetch),
            (
                "pairs",
                _named_pairs(encoder.merges),
                _expected_pairs(program.schedule, name, owners),
            ),
        )
        for what, value, valid in facts:
            if value != valid:
                raise ScheduleError(f"encoder {name!r}: {what} {value} is wrong; valid: {valid}")


def _named_pairs(pairs: MergeTable) -> list[tuple[int, int, int]]:
    """Stage, decoder microbatch and encoder microbatch of every pair, sorted."""
    rows = enumerate(zip(pairs.target.tolist(), pairs.source.tolist(), strict=True))
    named = [(s, m, unit) for s, row in rows for m, unit in zip(*row, strict=True)]
    return sorted(pair for pair in named if max(pair[1:]) >= 0)


def _expected_pairs(schedule: Schedule, name: str, owners: list[int]) -> list[tuple[int, int, int]]:
    """`_named_pairs` as the schedule has them."""
    module, feed = schedule.module(name), schedule.feed(name)
    assert feed is not None  # as every module but the backbone has one
    last = module.stage_of(module.chunks - 1)
    units, fed = (part.tolist() for part in feed.pairs(schedule.microbatches))
    stages = [owners[unit] * module.stages + last for unit in units]
    return sorted(zip(stages, fed, units, strict=True))


def _tables(program: LoweredSchedule) -> dict[str, Ints]:
    """A program's tables by dotted name, all `[ticks, stages]`."""
    tables = program.tables()
    encoders = tables.pop("encoders")
    flat = dict(_flat(tables, ""))
    for name, inner in encoders.items():
        flat |= _flat(inner, f"{name} ")
    last = program.schedule.stages - 1
    shape = (len(program.schedule.ticks), last + 1)
    for name, table in flat.items():
        if table.ndim == 1:
            flat[name] = np.full(shape, -1)
            flat[name][:, last if name.startswith("head") else 0] = table
        elif table.shape != shape:
            raise ScheduleError(f"{name}: shape {table.shape} is wrong; valid: {shape}")
    return flat


def _flat(tables: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Ints]]:
    """Nested tables with dotted names."""
    for name, table in tables.items():
        if isinstance(table, Mapping):
            yield from _flat(table, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", table


def _task_tables(schedule: Schedule) -> dict[str, Ints]:
    """The contents that the tables which name tasks must have."""
    names = ["embed_microbatch", "head_microbatch", "return_microbatch"]
    for kind in (F, B, W) if schedule.split_backward else (F, B):
        names += [f"{kind.cost}.microbatch", f"{kind.cost}.chunk"]
    for module in schedule.sources:
        for kind in (F, B):
            names += [f"{module.name} {kind.cost}.{field}" for field in _SOURCE_FIELDS]
    shape = (len(schedule.ticks), schedule.stages)
    tables = {name: np.full(shape, -1) for name in names}
    local = {name: _locals(owners) for name, owners in _owners(schedule).items()}
    for tick, stage, task in schedule:
        local_chunk = schedule.backbone.local_chunk(task.chunk)
        entries = (
            _source_entries(task, local) if task.module in local else _entries(task, local_chunk)
        )
        for name, value in entries:
            tables[name][tick, stage] = value
        for name in _events(schedule, task):
            tables[name][tick, stage] = task.microbatch
    return tables


def _entries(task: Task, chunk: int) -> tuple[tuple[str, int], ...]:
    """Tables and entries that name a task of the backbone; `chunk` is that of its stage."""
    table = task.kind.cost
    return (f"{table}.microbatch", task.microbatch), (f"{table}.chunk", chunk)


def _source_entries(task: Task, local: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    """Tables and entries that name a task of another module."""
    positions = local[task.module]
    values = (task.microbatch, task.chunk, positions[task.microbatch % len(positions)])
    for field, value in zip(_SOURCE_FIELDS, values, strict=True):
        yield f"{task.module} {task.kind.cost}.{field}", value


def _events(schedule: Schedule, task: Task) -> Iterator[str]:
    """Tables of what all stages do together before or after `task`."""
    if task.module != schedule.backbone.name:
        return
    place = (task.kind, task.chunk)
    if place == (F, 0):
        yield "embed_microbatch"
    if place == (F, schedule.backbone.chunks - 1):
        yield "head_microbatch"
    if place == (B, 0):
        yield "return_microbatch"


def _compare(name: str, actual: Ints, expected: Ints) -> None:
    """Raise for the first entry that differs."""
    for tick, stage in np.argwhere(actual != expected)[:1].tolist():
        raise ScheduleError(
            f"tick {tick}, stage {stage}: {name} is {actual[tick, stage]}; "
            f"valid: {expected[tick, stage]}"
        )


def _buffers(program: LoweredSchedule) -> Iterator[tuple[str, int]]:
    """Every buffer and its slots."""
    yield from asdict(program.sizes).items()
    for name, encoder in program.encoders.items():
        for buffer, size in asdict(encoder.sizes).items():
            yield f"{name} {buffer}", size
