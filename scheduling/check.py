"""Checks of schedules and of compiled programs; nothing is executed that has not passed them.

`check` holds a schedule against the rules::

    F(m, v) of stage s      after F(m, v) of stage s - 1; on stage 0 after F(m, v - 1) of the last
    F(m, 0) of stage 0      after the last piece's EF(m) of every encoder
    B(m, v) of stage s      after B(m, v) of stage s + 1; on the last after B(m, v + 1) of stage 0
    B(m, V - 1) of the last stage      after F(m, V - 1) there
    EF(m, j), EB(m, j)      after EF(m, j - 1), EB(m, j + 1)
    EB(m) of the last piece after B(m, 0) of stage 0

"After" is a later tick: what is sent in a tick arrives at its end. `check_program` runs a program's
tables on names in place of arrays, and knows of the program's slots only what the tables say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from scheduling.schedule import KINDS, Bundle, EncoderPieces, Kind, Schedule, ScheduleError, Task

if TYPE_CHECKING:
    from scheduling.program import Program

Ints = NDArray[np.intp]

Row = tuple[Bundle, ...]

_LISTED = 8
_DECODER_KINDS: tuple[Kind, ...] = ("F", "B")
_ENCODER_KINDS: tuple[Kind, ...] = ("EF", "EB")
_ENCODER_FIELDS = ("microbatch", "piece", "local")


def check(schedule: Schedule) -> None:
    """Hold a schedule against every rule, in a quarter of a second for 130,000 tasks.

    Raises:
        ScheduleError: a size or a cut is impossible, a task is missing, there twice or in a wrong
            place, or runs before what it needs has arrived. Lists the first problems of the first
            kind found, with task, tick and stage.
    """
    _raise_first(_bad_sizes(schedule))
    _raise_first(_bad_bundles(schedule))
    sites = _Sites(schedule)
    _raise_first(sites.fill())
    for cut in schedule.encoders:
        _raise_first(_split(sites, cut))
    _raise_first(_too_early(sites))


def peak_live(schedule: Schedule) -> tuple[int, ...]:
    """Largest number of live decoder activations on each stage.

    An activation `(m, v)` lives from the start of its forward to the end of its backward.

    Raises:
        ScheduleError: `schedule` breaks a rule, see `check`.
    """
    check(schedule)
    changes = np.zeros((len(schedule.ticks) + 1, schedule.stages), np.intp)
    for tick, stage, task in schedule:
        if task.kind == "F":
            changes[tick, stage] += 1
        elif task.kind == "B":
            changes[tick + 1, stage] -= 1
    return tuple(int(n) for n in changes.cumsum(axis=0).max(axis=0))


def _raise_first(problems: Iterator[str]) -> None:
    """Raise the first few problems, if there is one."""
    found = list(islice(problems, _LISTED + 1))
    if found:
        more = ["..."] if len(found) > _LISTED else []
        raise ScheduleError("\n".join(found[:_LISTED] + more))


# ---- sizes and bundles ---------------------------------------------------------------------------


def _bad_sizes(schedule: Schedule) -> Iterator[str]:
    for name in ("stages", "chunks", "microbatches"):
        if getattr(schedule, name) < 1:
            yield f"{name}: {getattr(schedule, name)} is refused; valid: 1 or more"
    for tick, row in enumerate(schedule.ticks):
        if len(row) != schedule.stages:
            yield f"tick {tick} has {len(row)} bundles; valid: {schedule.stages}, one per stage"
    names = Counter(cut.name for cut in schedule.encoders)
    for name, count in names.items():
        if count > 1 or name == "decoder":
            yield f"encoder {name!r}: the name is taken; valid: one that no other module has"
    for cut in schedule.encoders:
        yield from _bad_cut(schedule, cut)


def _bad_cut(schedule: Schedule, cut: EncoderPieces) -> Iterator[str]:
    """What is wrong with how an encoder is cut."""
    limit = schedule.microbatches if cut.backward == 0 else 0
    divisors = [n for n in range(1, schedule.stages + 1) if schedule.stages % n == 0]
    rules = (
        ("stages", cut.stages in divisors, f"a divisor of the decoder's {schedule.stages}"),
        (
            "pieces",
            cut.pieces >= 1 and cut.stages >= 1 and cut.pieces % cut.stages == 0,
            f"a multiple of the encoder's {cut.stages} stages",
        ),
        ("backward", 0 <= cut.backward <= cut.pieces, f"0 to {cut.pieces}, the pieces"),
        ("ahead", 0 <= cut.ahead <= limit, f"0 to {limit} (only without a backward)"),
    )
    for name, holds, valid in rules:
        if not holds:
            yield f"encoder {cut.name!r}: {name} {getattr(cut, name)} is refused; valid: {valid}"


def _bad_bundles(schedule: Schedule) -> Iterator[str]:
    """Bundles with two tasks of a kind, tasks that do not exist or may not be where they are."""
    cuts = {cut.name: cut for cut in schedule.encoders}
    for tick, row in enumerate(schedule.ticks):
        for stage, bundle in enumerate(row):
            for task in bundle:
                if reason := _fault(schedule, cuts, stage, task):
                    yield f"tick {tick}, stage {stage}: {task} {reason}"
            if reason := _crowd(bundle):
                yield f"tick {tick}, stage {stage}: {reason}"


def _crowd(bundle: Bundle) -> str | None:
    """Why `bundle` is too full."""
    if len(bundle) < 2 or len({task.kind for task in bundle}) == len(bundle):
        return None
    listed = ", ".join(str(task) for task in bundle)
    return f"{listed} in one bundle; valid: at most one task of each kind"


def _fault(
    schedule: Schedule, cuts: dict[str, EncoderPieces], stage: int, task: Task
) -> str | None:
    """Why `task` may not be on `stage`."""
    if task.kind not in KINDS:
        return f"has an unknown kind; valid: {', '.join(KINDS)}"
    if (task.kind in _DECODER_KINDS) != (task.module == "decoder") or (
        task.module != "decoder" and task.module not in cuts
    ):
        valid = ", ".join(cuts) or "no encoder, for there is none"
        return f"is no task of {task.module!r}; valid: decoder F and B, EF and EB of {valid}"
    microbatches, parts = range(schedule.microbatches), range(schedule.chunks)
    if task.module != "decoder":
        cut = cuts[task.module]
        forward = task.kind == "EF"
        microbatches = range(cut.ahead * forward, len(microbatches) + cut.ahead * forward)
        parts = range(cut.pieces) if forward else cut.backward_pieces
        if task.part in parts and stage % cut.stages != cut.stage(task.part):
            return f"is on a wrong stage; valid: {cut.stage(task.part)} + n x {cut.stages}"
    if task.microbatch not in microbatches:
        return f"has an unknown microbatch; valid: {_span(microbatches)}"
    if task.part not in parts:
        return f"has an unknown part; valid: {_span(parts)}"
    return None


def _span(values: range) -> str:
    return f"{values.start} to {values.stop - 1}" if values else "none"


# ---- dependencies --------------------------------------------------------------------------------


class _Sites:
    """Where every task that must be there is, by number; decoder tasks are there once per stage.

    Attributes:
        schedule: the schedule.
        ids: numbers by module and kind: `[microbatches, chunks, stages]` of the decoder,
            `[microbatches, pieces]` of an encoder; microbatch `M + i` has the row of i.
        tick, stage: by number, -1 for tasks that are nowhere.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.ids: dict[tuple[str, Kind], Ints] = {}
        count = schedule.microbatches
        shapes: dict[tuple[str, Kind], tuple[int, ...]] = {}
        for kind in _DECODER_KINDS:
            shapes["decoder", kind] = (count, schedule.chunks, schedule.stages)
        for cut in schedule.encoders:
            for kind in _ENCODER_KINDS:
                shapes[cut.name, kind] = (count, cut.pieces)
        total = 0
        for key, shape in shapes.items():
            count = int(np.prod(shape))
            self.ids[key] = np.arange(total, total + count).reshape(shape)
            total += count
        self.tick, self.stage = np.full(total, -1), np.full(total, -1)

    def fill(self) -> Iterator[str]:
        """Find every task; yields those that are there twice, then those that are missing."""
        first = {key: int(ids.flat[0]) for key, ids in self.ids.items()}
        ticks, stages = self.tick.tolist(), self.stage.tolist()
        for tick, stage, task in self.schedule:
            number = first[task.module, task.kind] + self._offset(stage, task)
            if ticks[number] >= 0:
                before = f"tick {ticks[number]}, stage {stages[number]}"
                yield f"tick {tick}, stage {stage}: {task} is already in {before}; valid: once"
            ticks[number], stages[number] = tick, stage
        self.tick[:], self.stage[:] = ticks, stages
        for ids in self.required():
            for number in ids[self.tick[ids] < 0].tolist():
                yield f"{self.name(number)} is missing; valid: once"

    def _offset(self, stage: int, task: Task) -> int:
        """Place of `task` in its array of numbers."""
        shape = self.ids[task.module, task.kind].shape
        place = task.microbatch % shape[0] * shape[1] + task.part
        return place if len(shape) == 2 else place * shape[2] + stage

    def required(self) -> Iterator[Ints]:
        """Numbers of the tasks that a complete schedule holds."""
        for (module, kind), ids in self.ids.items():
            yield ids[:, self.schedule.encoder(module).backward_pieces] if kind == "EB" else ids

    def name(self, number: int) -> str:
        """`F(0, 1) of stage 2`, `vision EF(0, 1)`."""
        module, kind = next(key for key, ids in self.ids.items() if number <= ids.flat[-1])
        ids = self.ids[module, kind]
        microbatch, part, *stage = np.argwhere(ids == number)[0].tolist()
        if kind == "EF" and microbatch < self.schedule.encoder(module).ahead:
            microbatch += self.schedule.microbatches
        task = str(Task(kind, microbatch, part, module))
        return f"{task} of stage {stage[0]}" if stage else task

    def where(self, number: int) -> str:
        """`tick 3, stage 1`."""
        return f"tick {self.tick[number]}, stage {self.stage[number]}"


def _split(sites: _Sites, cut: EncoderPieces) -> Iterator[str]:
    """Pieces of a microbatch that are in another encoder pipeline than its first."""
    forward, backward = sites.ids[cut.name, "EF"], sites.ids[cut.name, "EB"]
    numbers = np.concatenate([forward, backward[:, cut.backward_pieces]], axis=1)
    pipelines = sites.stage[numbers] // cut.stages
    elsewhere = pipelines != pipelines[:, :1]
    for number, first in zip(*_pairs(numbers, forward[:, :1], elsewhere), strict=True):
        yield (
            f"{sites.where(number)}: {sites.name(number)} is in another encoder pipeline than "
            f"{sites.name(first)} ({sites.where(first)}); valid: one for all of a microbatch"
        )


def _pairs(left: Ints, right: Ints, mask: NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """The entries of both arrays, broadcast to one shape, where `mask` holds."""
    left, right = np.broadcast_arrays(left, right)
    return left[mask].tolist(), right[mask].tolist()


def _too_early(sites: _Sites) -> Iterator[str]:
    """Tasks that run before what they need has arrived."""
    for before, after in _dependencies(sites):
        early = sites.tick[after] <= sites.tick[before]
        for first, second in zip(*_pairs(before, after, early), strict=True):
            yield (
                f"{sites.where(second)}: {sites.name(second)} needs {sites.name(first)} "
                f"({sites.where(first)}); valid: tick {sites.tick[first] + 1} or later"
            )
    for cut in sites.schedule.encoders:
        entry = sites.ids["decoder", "F"][: cut.ahead, 0, 0]
        encoded = sites.ids[cut.name, "EF"][: cut.ahead, -1]
        early = sites.tick[encoded] < sites.tick[entry]
        for first, second in zip(*_pairs(entry, encoded, early), strict=True):
            yield (
                f"{sites.where(second)}: {sites.name(second)} overwrites what {sites.name(first)} "
                f"({sites.where(first)}) reads; valid: tick {sites.tick[first]} or later"
            )


def _dependencies(sites: _Sites) -> Iterator[tuple[Ints, Ints]]:
    """Numbers of tasks and of tasks that need them in an earlier tick."""
    forward, backward = sites.ids["decoder", "F"], sites.ids["decoder", "B"]
    yield forward[:, :, :-1], forward[:, :, 1:]
    yield forward[:, :-1, -1], forward[:, 1:, 0]
    yield forward[:, -1, -1], backward[:, -1, -1]
    yield backward[:, :, 1:], backward[:, :, :-1]
    yield backward[:, 1:, 0], backward[:, :-1, -1]
    for cut in sites.schedule.encoders:
        encode = sites.ids[cut.name, "EF"]
        yield encode[:, :-1], encode[:, 1:]
        yield encode[cut.ahead :, -1], forward[cut.ahead :, 0, 0]
        if cut.backward:
            learn = sites.ids[cut.name, "EB"][:, cut.backward_pieces]
            yield backward[:, 0, 0], learn[:, -1]
            yield learn[:, 1:], learn[:, :-1]


# ---- programs ------------------------------------------------------------------------------------


def check_program(program: Program) -> None:
    """Execute a program on names: every task of the schedule must read the values it needs.

    A slot that is overwritten too early, a value that lands in a wrong slot or on a wrong stage,
    a task in a wrong place and an entry that nothing explains are all found. One or two
    seconds for 130,000 tasks.

    Raises:
        ScheduleError: the first problem, with table, tick and stage.
    """
    check(program.schedule)
    _check_owners(program)
    _Execution(program).run()


class _Value(NamedTuple):
    """The name of an array: what it is to which task."""

    what: str
    module: str
    microbatch: int
    part: int

    def __str__(self) -> str:
        return f"{self.module} {self.what}({self.microbatch}, {self.part})"


class _Access(NamedTuple):
    """An entry of `table` names the slot of `buffer` that holds, or comes to hold, `value`."""

    table: str
    buffer: str
    stage: int
    value: _Value


class _Moves:
    """What tasks read and write, by the meaning of the schedule alone."""

    def __init__(self, schedule: Schedule, full: bool) -> None:
        self.stages, self.chunks, self.full = schedule.stages, schedule.chunks, full
        self.cuts = {cut.name: cut for cut in schedule.encoders}
        self.owners = _owners(schedule)

    def delivered(self, row: Row) -> Iterator[_Access]:
        """Reads of the meeting before a tick: encoder outputs for the microbatch that enters."""
        for task in row[0]:
            if task.kind == "F" and task.part == 0:
                for name in self.cuts:
                    value = self.output(name, task.microbatch)
                    stage = self.stage(name, task.microbatch, value.part)
                    yield _Access(f"{name} deliver", f"{name} outbox", stage, value)

    def entered(self, row: Row) -> Iterator[_Access]:
        """The write that follows."""
        for task in row[0]:
            if task.kind == "F" and task.part == 0:
                yield _Access("embed_input", "inputs", 0, _value("input", task))

    def read(self, row: Row) -> Iterator[_Access]:
        """Reads of the tasks of a tick."""
        reads = {
            "F": self._forward_reads,
            "B": self._backward_reads,
            "EF": self._encoder_forward_reads,
            "EB": self._encoder_backward_reads,
        }
        for stage, bundle in enumerate(row):
            for task in bundle:
                yield from reads[task.kind](stage, task)

    def written(self, row: Row) -> Iterator[_Access]:
        """Writes at the end of a tick."""
        writes = {
            "F": self._forward_writes,
            "B": self._backward_writes,
            "EF": self._encoder_forward_writes,
            "EB": self._encoder_backward_writes,
        }
        for stage, bundle in enumerate(row):
            for task in bundle:
                yield from writes[task.kind](stage, task)

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

    def _backward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        if stage > 0:
            yield _Access("receive_gradient", "gradients", stage - 1, _value("gradient", task))
        elif task.part > 0:
            last, value = self.stages - 1, _value("gradient", task, -1)
            yield _Access("receive_gradient", "gradients", last, value)
        else:
            for name, cut in self.cuts.items():
                if cut.backward:
                    value = _Value("gradient", name, task.microbatch, cut.pieces - 1)
                    where = self.stage(name, task.microbatch, cut.pieces - 1)
                    yield _Access(f"{name} inbox", f"{name} inbox", where, value)

    def _encoder_forward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name = task.module
        if task.part:
            value = _value("input", task)
            yield _Access(f"{name} forward.input", f"{name} pieces", stage, value)

    def _encoder_forward_writes(self, stage: int, task: Task) -> Iterator[_Access]:
        name, cut = task.module, self.cuts[task.module]
        if not self.full and task.part in cut.backward_pieces:
            value = _value("saved", task)
            yield _Access(f"{name} forward.saved", f"{name} saved", stage, value)
        if task.part == cut.pieces - 1:
            value = _value("output", task)
            yield _Access(f"{name} forward.output", f"{name} outbox", stage, value)
        else:
            to = stage + cut.stage(task.part + 1) - cut.stage(task.part)
            table = "keep_piece" if to == stage else "receive_piece"
            yield _Access(f"{name} {table}", f"{name} pieces", to, _value("input", task, 1))

    def _encoder_backward_reads(self, stage: int, task: Task) -> Iterator[_Access]:
        name, cut = task.module, self.cuts[task.module]
        buffer = "inbox" if task.part == cut.pieces - 1 else "piece_gradients"
        value = _value("gradient", task)
        yield _Access(f"{name} backward.gradient", f"{name} {buffer}", stage, value)
        if not self.full:
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


def _value(what: str, task: Task, further: int = 0) -> _Value:
    """What `task`, or the task of the part `further` on, reads or keeps."""
    return _Value(what, task.module, task.microbatch, task.part + further)


class _Execution:
    """The state of a program that runs on names."""

    def __init__(self, program: Program) -> None:
        self.program, self.schedule = program, program.schedule
        self.moves = _Moves(self.schedule, program.remat == "full")
        tasks = _task_tables(self.schedule)
        tables = _tables(program)
        for name, expected in tasks.items():
            _compare(name, tables[name], expected)
        # Entries are taken out when they are used, so that what is left has no reason to be there.
        self.entries = {n: t.tolist() for n, t in tables.items() if n not in tasks}
        self.memory: dict[str, list[list[_Value | None]]] = {
            buffer: [[None] * size for _ in range(self.schedule.stages)]
            for buffer, size in _buffers(program)
        }
        self.tick = 0

    def run(self) -> None:
        """All ticks."""
        for stage, buffer, slot, value in self._carried(0):
            self._write(stage, buffer, slot, value)
        moves, meets = self.moves, self.schedule.meetings.tolist()
        entering = {last: tick for tick, last in enumerate(self.schedule.last_meeting.tolist())}
        self._enter(entering.get(-1))
        for tick, row in enumerate(self.schedule.ticks):
            self.tick = tick
            self._all(self._read, moves.read(row))
            self._all(self._write, moves.written(row))
            if meets[tick]:
                self._enter(entering.get(tick))
        for stage, buffer, slot, value in self._carried(self.schedule.microbatches):
            self._read(stage, buffer, slot, value)
        for name, rows in self.entries.items():
            _compare(name, np.array(rows), np.full_like(rows, -1))

    def _enter(self, tick: int | None) -> None:
        """The meeting before `tick`: its microbatch enters the decoder."""
        if tick is None:
            return
        now, self.tick = self.tick, tick
        row = self.schedule.ticks[tick]
        self._all(self._read, self.moves.delivered(row))
        self._all(self._write, self.moves.entered(row))
        self.tick = now

    def _carried(self, first: int) -> Iterator[tuple[int, str, int, _Value]]:
        """Outputs of the microbatches from `first` on that wait from step to step."""
        for name, encoder in self.program.encoders.items():
            for i, slot in enumerate(encoder.ahead_slot.tolist()):
                value = self.moves.output(name, first + i)
                yield self.moves.stage(name, i, value.part), f"{name} outbox", slot, value

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
    owners = {cut.name: [0] * schedule.microbatches for cut in schedule.encoders}
    for _, stage, task in schedule:
        if task.kind == "EF":
            pipeline = stage // schedule.encoder(task.module).stages
            owners[task.module][task.microbatch % schedule.microbatches] = pipeline
    return owners


def _locals(owners: list[int]) -> list[int]:
    """Position of every microbatch in its pipeline's batch."""
    counts: Counter[int] = Counter()
    positions = []
    for owner in owners:
        positions.append(counts[owner])
        counts[owner] += 1
    return positions


def _check_owners(program: Program) -> None:
    """Hold what a program says of the encoders' microbatches against the schedule."""
    for name, owners in _owners(program.schedule).items():
        encoder, local = program.encoders[name], _locals(owners)
        facts: tuple[tuple[str, Any, Any], ...] = (
            ("cut", encoder.cut, program.schedule.encoder(name)),
            ("owners", encoder.owners.tolist(), owners),
            ("local", encoder.local.tolist(), local),
            ("slots", encoder.slots, max(local) + 1),
            ("number of ahead slots", len(encoder.ahead_slot), encoder.cut.ahead),
        )
        for what, given, valid in facts:
            if given != valid:
                raise ScheduleError(f"encoder {name!r}: {what} {given} is wrong; valid: {valid}")


def _tables(program: Program) -> dict[str, Ints]:
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
    """What the tables that name tasks must say."""
    names = ["embed_microbatch", "head_microbatch", "return_microbatch"]
    for direction in ("forward", "backward"):
        names += [f"{direction}.microbatch", f"{direction}.chunk"]
        for cut in schedule.encoders:
            names += [f"{cut.name} {direction}.{field}" for field in _ENCODER_FIELDS]
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
    direction = "forward" if task.kind == "F" else "backward"
    return (f"{direction}.microbatch", task.microbatch), (f"{direction}.chunk", task.part)


def _encoder_entries(task: Task, local: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
    """Tables and entries that name an encoder task."""
    positions = local[task.module]
    values = (task.microbatch, task.part, positions[task.microbatch % len(positions)])
    direction = "forward" if task.kind == "EF" else "backward"
    for field, value in zip(_ENCODER_FIELDS, values, strict=True):
        yield f"{task.module} {direction}.{field}", value


def _events(schedule: Schedule, stage: int, task: Task) -> Iterator[str]:
    """Tables of what all stages do together before or after `task`."""
    place = (task.kind, task.part, stage)
    if place == ("F", 0, 0):
        yield "embed_microbatch"
    if place == ("F", schedule.chunks - 1, schedule.stages - 1):
        yield "head_microbatch"
    if place == ("B", 0, 0):
        yield "return_microbatch"


def _compare(name: str, given: Ints, expected: Ints) -> None:
    """Raise for the first entry that differs."""
    for tick, stage in np.argwhere(given != expected)[:1].tolist():
        raise ScheduleError(
            f"tick {tick}, stage {stage}: {name} is {given[tick, stage]}; "
            f"valid: {expected[tick, stage]}"
        )


def _buffers(program: Program) -> Iterator[tuple[str, int]]:
    """Every buffer and its slots."""
    yield from asdict(program.sizes).items()
    for name, encoder in program.encoders.items():
        for buffer, size in asdict(encoder.sizes).items():
            yield f"{name} {buffer}", size
