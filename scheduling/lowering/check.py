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
from scheduling.schedules.task_kinds import EB, EF, B, F, TaskKind, W
from scheduling.schedules.tasks import FusedTask, Task

Ints = NDArray[np.intp]

Row = tuple[FusedTask, ...]

_ENCODER_FIELDS = ("microbatch", "piece", "local")


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
    part: int

    def __str__(self) -> str:
        return f"{self.module} {self.what}({self.microbatch}, {self.part})"


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
        self.stages, self.chunks = schedule.stages, schedule.chunks
        self.full = program.remat == "full"
        self.full_in = {name: own.remat == "full" for name, own in program.encoders.items()}
        self.cuts = {cut.name: cut for cut in schedule.encoders}
        self.owners = _owners(schedule)
        self.parted = W in schedule.kinds
        self.feeds: dict[str, dict[int, list[int]]] = {name: {} for name in self.cuts}
        for name, cut in self.cuts.items():
            for unit, microbatch in zip(*cut.feed_pairs(schedule.microbatches), strict=True):
                self.feeds[name].setdefault(int(microbatch), []).append(int(unit))

    def entering(self, row: Row) -> int | None:
        """The microbatch whose first task of the decoder stands in a tick."""
        return next((t.microbatch for t in row[0] if t.kind is F and t.part == 0), None)

    def leaving(self, row: Row) -> int | None:
        """The microbatch whose last backward of the decoder stands in a tick."""
        return next((t.microbatch for t in row[0] if t.kind is B and t.part == 0), None)

    def feeding(self, name: str, microbatch: int) -> dict[int, list[int]]:
        """Encoder microbatches that feed one of the decoder's, by the stage of their outputs."""
        found: dict[int, list[int]] = {}
        for unit in self.feeds[name].get(microbatch, ()):
            stage = self.stage(name, unit, self.cuts[name].pieces - 1)
            found.setdefault(stage, []).append(unit)
        return found

    def entered(self, row: Row) -> Iterator[_Access]:
        """The write of the microbatch's input in the same stage sync."""
        for task in row[0]:
            if task.kind is F and task.part == 0:
                yield _Access("embed_input", "inputs", 0, _value("input", task))

    def read(self, row: Row) -> Iterator[_Access]:
        """Reads of the tasks of a tick."""
        return _of_tasks(
            row,
            {
                F: self._forward_reads,
                B: self._backward_reads,
                W: self._weights_reads,
                EF: self._encoder_forward_reads,
                EB: self._encoder_backward_reads,
            },
        )

    def written(self, row: Row) -> Iterator[_Access]:
        """Writes at the end of a tick."""
        return _of_tasks(
            row,
            {
                F: self._forward_writes,
                B: self._backward_writes,
                W: lambda stage, task: iter(()),
                EF: self._encoder_forward_writes,
                EB: self._encoder_backward_writes,
            },
        )

    def output(self, name: str, microbatch: int) -> _Value:
        """The encoder's output for `microbatch`."""
        return _Value("output", name, microbatch, self.cuts[name].pieces - 1)

    def stage(self, name: str, microbatch: int, piece: int) -> int:
        """Stage that runs `piece` of `microbatch`."""
        cut = self.cuts[name]
        return self.owners[name][microbatch] * cut.stages + cut.stage(piece)

    def _forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        yield _Access("forward.input", "inputs", stage, _value("input", task))

    def _forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        if not self.full:
            yield _Access("forward.saved", "saved", stage, _value("saved", task))
        if stage < self.stages - 1:
            yield _Access("receive_input", "inputs", stage + 1, _value("input", task))
        elif task.part < self.chunks - 1:
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
            yield _Access("receive_gradient", "gradients", stage - 1, _value("gradient", task))
        elif task.part > 0:
            last, value = self.stages - 1, _value("gradient", task, -1)
            yield _Access("receive_gradient", "gradients", last, value)

    def _encoder_forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name = task.module
        if task.part:
            value = _value("input", task)
            yield _Access(f"{name} forward.input", f"{name} pieces", stage, value)

    def _encoder_forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        name, cut = task.module, self.cuts[task.module]
        if not self.full_in[name] and task.part in cut.backward_pieces:
            value = _value("saved", task)
            yield _Access(f"{name} forward.saved", f"{name} saved", stage, value)
        if task.part == cut.pieces - 1:
            value = _value("output", task)
            yield _Access(f"{name} forward.output", f"{name} output_buffer", stage, value)
        else:
            to = stage + cut.stage(task.part + 1) - cut.stage(task.part)
            table = "keep_piece" if to == stage else "receive_piece"
            yield _Access(f"{name} {table}", f"{name} pieces", to, _value("input", task, 1))

    def _encoder_backward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name, cut = task.module, self.cuts[task.module]
        buffer = "output_grad_buffer" if task.part == cut.pieces - 1 else "piece_gradients"
        value = _value("gradient", task)
        yield _Access(f"{name} backward.gradient", f"{name} {buffer}", stage, value)
        if not self.full_in[name]:
            value = _value("saved", task)
            yield _Access(f"{name} backward.saved", f"{name} saved", stage, value)
        elif task.part:
            value = _value("input", task)
            yield _Access(f"{name} backward.input", f"{name} pieces", stage, value)

    def _encoder_backward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        name, cut = task.module, self.cuts[task.module]
        if task.part - 1 in cut.backward_pieces:
            to = stage + cut.stage(task.part - 1) - cut.stage(task.part)
            table = "keep_piece_gradient" if to == stage else "receive_piece_gradient"
            value = _value("gradient", task, -1)
            yield _Access(f"{name} {table}", f"{name} piece_gradients", to, value)


def _of_tasks(
    row: Row, accesses: Mapping[TaskKind, Callable[[int, Task], Iterator[_Access]]]
) -> Iterator[_Access]:
    """Accesses of the tasks of a tick, by kind of task."""
    for stage, bundle in enumerate(row):
        for task in bundle:
            yield from accesses[task.kind](stage, task)


def _value(what: str, task: Task, further: int = 0) -> _Value:
    """The value of `task`, or of the task that is `further` parts on."""
    return _Value(what, task.module, task.microbatch, task.part + further)


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
        for name in self.moves.cuts:
            for stage, pair, unit in self._pairs(name, microbatch, "merge"):
                slot = int(self.program.encoders[name].merges.output_buffer[stage, pair])
                self._read(stage, f"{name} output_buffer", slot, self.moves.output(name, unit))
        self._all(self._write, self.moves.entered(row))
        self.tick = now

    def _leave(self, row: Row) -> None:
        """The gradient of a microbatch's input is added to those of the outputs that fed it."""
        microbatch = self.moves.leaving(row)
        for name, cut in self.moves.cuts.items():
            for stage, number, unit in self._pairs(
                name, microbatch if cut.backward else None, "return"
            ):
                pairs = self.program.encoders[name].merges
                slot, fresh = (
                    int(pairs.output_grad_buffer[stage, number]),
                    int(pairs.is_first[stage, number]),
                )
                value = _Value("gradient", name, unit, cut.pieces - 1)
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
            given = [int(pairs.source[stage, n]) for n in numbers] if inside else numbers
            fed = {int(pairs.target[stage, n]) for n in numbers} if inside else set()
            if given != units or fed != {microbatch}:
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
                yield self.moves.stage(name, i, value.part), f"{name} output_buffer", slot, value

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
        held = self._slots(stage, buffer, slot)[slot]
        if held != value:
            self._fail(stage, f"{value} is needed, but slot {slot} of {buffer} holds {held}")

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
    count = schedule.microbatches
    owners = {cut.name: [0] * cut.units(count) for cut in schedule.encoders}
    for _, stage, task in schedule:
        if task.kind is EF:
            own, pipeline = owners[task.module], stage // schedule.encoder(task.module).stages
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
            ("cut", encoder.cut, program.schedule.encoder(name)),
            ("owners", encoder.owners.tolist(), owners),
            ("local", encoder.local.tolist(), local),
            ("slots", encoder.slots, max(local, default=-1) + 1),
            ("number of ahead slots", len(encoder.prefetch_slot), encoder.cut.ahead),
            (
                "pairs",
                _named_pairs(encoder.merges),
                _expected_pairs(program.schedule, name, owners),
            ),
        )
        for what, given, valid in facts:
            if given != valid:
                raise ScheduleError(f"encoder {name!r}: {what} {given} is wrong; valid: {valid}")


def _named_pairs(pairs: MergeTable) -> list[tuple[int, int, int]]:
    """Stage, decoder microbatch and encoder microbatch of every pair, sorted."""
    rows = enumerate(zip(pairs.target.tolist(), pairs.source.tolist(), strict=True))
    named = [(s, m, unit) for s, row in rows for m, unit in zip(*row, strict=True)]
    return sorted(pair for pair in named if max(pair[1:]) >= 0)


def _expected_pairs(schedule: Schedule, name: str, owners: list[int]) -> list[tuple[int, int, int]]:
    """`_named_pairs` as the schedule has them."""
    cut = schedule.encoder(name)
    last = cut.stage(cut.pieces - 1)
    units, fed = (part.tolist() for part in cut.feed_pairs(schedule.microbatches))
    stages = [owners[unit] * cut.stages + last for unit in units]
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
    for kind in (F, B, W) if W in schedule.kinds else (F, B):
        names += [f"{kind.cost}.microbatch", f"{kind.cost}.chunk"]
    for cut in schedule.encoders:
        for kind in (EF, EB):
            names += [f"{cut.name} {kind.cost}.{field}" for field in _ENCODER_FIELDS]
    shape = (len(schedule.ticks), schedule.stages)
    tables = {name: np.full(shape, -1) for name in names}
    local = {name: _locals(owners) for name, owners in _owners(schedule).items()}
    for tick, stage, task in schedule:
        entries = _encoder_entries(task, local) if task.module in local else _entries(task)
        for name, value in entries:
            tables[name][tick, stage] = value
        for name in _events(schedule, stage, task):
            tables[name][tick, stage] = task.microbatch
    return tables


def _entries(task: Task) -> tuple[tuple[str, int], ...]:
    """Tables and entries that name a decoder task."""
    table = task.kind.cost
    return (f"{table}.microbatch", task.microbatch), (f"{table}.chunk", task.part)


def _encoder_entries(task: Task, local: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    """Tables and entries that name an encoder task."""
    positions = local[task.module]
    values = (task.microbatch, task.part, positions[task.microbatch % len(positions)])
    for field, value in zip(_ENCODER_FIELDS, values, strict=True):
        yield f"{task.module} {task.kind.cost}.{field}", value


def _events(schedule: Schedule, stage: int, task: Task) -> Iterator[str]:
    """Tables of what all stages do together before or after `task`."""
    place = (task.kind, task.part, stage)
    if place == (F, 0, 0):
        yield "embed_microbatch"
    if place == (F, schedule.chunks - 1, schedule.stages - 1):
        yield "head_microbatch"
    if place == (B, 0, 0):
        yield "return_microbatch"


def _compare(name: str, given: Ints, expected: Ints) -> None:
    """Raise for the first entry that differs."""
    for tick, stage in np.argwhere(given != expected)[:1].tolist():
        raise ScheduleError(
            f"tick {tick}, stage {stage}: {name} is {given[tick, stage]}; "
            f"valid: {expected[tick, stage]}"
        )


def _buffers(program: LoweredSchedule) -> Iterator[tuple[str, int]]:
    """Every buffer and its slots."""
    yield from asdict(program.sizes).items()
    for name, encoder in program.encoders.items():
        for buffer, size in asdict(encoder.sizes).items():
            yield f"{name} {buffer}", size
