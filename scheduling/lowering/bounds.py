"""Frames: what a compiled step fixes of the programs that it runs.

The loops over ticks read rows of integers, which are arguments of the compiled step. So a step runs
every program that fits its frame, without another compilation::

    frame   sizes, cuts, slots of buffers, kinds of bundles, room for ticks    compiled
    rows    which bundle runs in which tick, on which slots                    an argument

A bundle whose kind is not compiled as a whole runs in parts, one after the other. Rare kinds are
not compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.lowered import (
    BundleKind,
    DecoderSizes,
    EncoderProgram,
    EncoderSizes,
    Program,
    Remat,
    Table,
)
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import EB, EF, B, F, W
from scheduling.schedules.tasks import EncoderPieces

#: Names of the loops over ticks, in their order: before the decoder's ticks, those, and after them.
PHASES = ("prologue", "middle", "epilogue")
#: Slots of each buffer of activations that a frame has beyond those of the full load.
SPARE = 4
#: Share of a program's bundles below which a kind of several tasks is not compiled as a whole: the
#: time of compiling grows with the tasks of all kinds, and few bundles gain from it.
RARE = 0.02
#: Path of a table in `Program.tables`.
Path = tuple[str, ...]
#: Tables of what enters the decoder, which stand in the rows of the meetings before.
_ENTRIES = ("deliver", "deliver_count", "embed_microbatch", "embed_input")


@dataclass(frozen=True)
class EncoderFrame:
    """What is fixed of an encoder's program.

    Attributes:
        cut: how the encoder's work is cut.
        sizes: slots of the encoder's buffers, equal on all stages.
        slots: most microbatches that one of the encoder's pipelines runs.
        pairs: most pairs of an encoder and a decoder microbatch on a stage.
        remat: values that its forwards keep for its backwards.
        carried: slots of `outbox`, the first ones, that are carried from step to step.
    """

    cut: EncoderPieces
    sizes: EncoderSizes
    slots: int
    pairs: int
    carried: int
    remat: Remat


@dataclass(frozen=True)
class InstructionTable:
    """A program as arguments of a compiled step, int32.

    After the row of the first microbatch that enters the decoder comes a row for every tick, and
    room for more.

    Attributes:
        own: rows of each stage, `[stages, 1 + ticks, entries]`.
        joint: rows that all stages share, `[1 + ticks, entries]`.
        bounds: the ticks at which phases start, and the number of ticks, `[4]`.
        pairs: `Pairs.read` of every encoder, with room for more, `[stages, pairs]`.
    """

    own: Table
    joint: Table
    bounds: Table
    pairs: Mapping[str, Mapping[str, Table]]


@dataclass(frozen=True)
class Frame:
    """What is fixed of programs.

    Attributes:
        stages, chunks, microbatches: P, V and M.
        remat: values that the decoder's forwards keep for backwards.
        sizes: slots of the decoder's buffers.
        encoders: frames of the encoders by name, in the schedules' order.
        kinds: for each of `PHASES`, the kinds of bundles that are compiled, in the order in which
            those of one tick run: tasks that read slots of a buffer come before tasks that write
            them, as a slot that is read may be among those written.
        meets: for each phase, whether the stages meet in all of its ticks.
        ticks: most ticks of a program.
        own, joint: paths of the tables of a program that have a column for each stage, and of those
            that have one for all.
    """

    stages: int
    chunks: int
    microbatches: int
    remat: Remat
    sizes: DecoderSizes
    encoders: Mapping[str, EncoderFrame]
    kinds: tuple[tuple[BundleKind, ...], ...]
    meets: tuple[bool, ...]
    ticks: int
    own: tuple[Path, ...]
    joint: tuple[Path, ...]

    @classmethod
    def of(cls, program: Program, *, apart: bool = False) -> Frame:
        """The frame of one program, with nothing to spare.

        Bundles of a kind that is rare (`RARE`) run in parts.

        Args:
            apart: whether the tasks of a bundle run one after the other, each kind of task in a
                loop of its own, so that the compiled code does not depend on how tasks are bundled.
        """
        schedule = program.schedule
        return cls(
            schedule.stages,
            schedule.chunks,
            schedule.microbatches,
            program.remat,
            program.sizes,
            {
                name: EncoderFrame(
                    replace(own.cut, feeds=None),
                    own.sizes,
                    own.slots,
                    own.pairs.most,
                    own.carried,
                    own.remat,
                )
                for name, own in program.encoders.items()
            },
            tuple(_kinds(program, ticks, apart) for ticks in schedule.phases),
            tuple(
                bool(schedule.meetings[ticks.start : ticks.stop].all()) for ticks in schedule.phases
            ),
            len(schedule.ticks),
            *_paths(program),
        )

    @classmethod
    def following(cls, program: Program, *, apart: bool = False) -> Frame:
        """The frame for programs of smaller loads of the encoders than that of `program`.

        A tick without tasks of the decoder holds one of an encoder. A stage has as many pairs as
        the decoder has microbatches, and one more for each of an encoder's that shares one, which
        is enough for units whose rows go on together (`data.planning.independent_microbatches`).

        Args:
            program: program whose encoders have all microbatches that a step can need.
            apart: as of `of`.
        """
        frame, schedule = cls.of(program, apart=apart), program.schedule
        count = schedule.microbatches
        tasks = sum(cut.units(count) * (cut.pieces + cut.backward) for cut in schedule.encoders)
        pairs = count + max((own.slots for own in frame.encoders.values()), default=0)
        open_frame = frame.opened(len(schedule.span) + tasks, pairs)
        encoders = open_frame.encoders.items()
        roomy = {name: replace(own, sizes=roomier(own.sizes)) for name, own in encoders}
        return replace(open_frame, encoders=roomy)

    def joined(self, other: Frame) -> Frame:
        """The smallest frame that both fit.

        Raises:
            ScheduleError: the two differ in what all programs of a frame share.
        """
        for what in ("stages", "chunks", "microbatches", "remat"):
            _refuse_other(what, getattr(other, what), getattr(self, what))
        _refuse_other("encoders", _cuts(other), _cuts(self))
        _refuse_other("remat of encoders", _remats(other), _remats(self))
        encoders = {
            name: replace(
                own,
                sizes=_largest(own.sizes, other.encoders[name].sizes),
                slots=max(own.slots, other.encoders[name].slots),
                pairs=max(own.pairs, other.encoders[name].pairs),
            )
            for name, own in self.encoders.items()
        }
        return replace(
            self,
            sizes=_largest(self.sizes, other.sizes),
            encoders=encoders,
            kinds=tuple(map(_joined_kinds, self.kinds, other.kinds)),
            meets=tuple(a and b for a, b in zip(self.meets, other.meets, strict=True)),
            ticks=max(self.ticks, other.ticks),
        )

    def opened(self, ticks: int, pairs: int = 0) -> Frame:
        """The frame for all programs of the same slots and at most `ticks` ticks.

        Every task may run wherever its kind can stand, and the stages may meet or not.

        Args:
            pairs: most pairs of an encoder and a decoder microbatch on a stage, if more.
        """
        single = BundleKind.single
        forwards = [single(EF, name) for name in self.encoders]
        backwards = [single(EB, name) for name, own in self.encoders.items() if own.cut.backward]
        decoder = [*([single(W)] if self.sizes.pairs else []), single(B), single(F)]
        ahead = [single(EF, name) for name, own in self.encoders.items() if own.cut.ahead]
        more = forwards, [*decoder, *backwards, *forwards], [*backwards, *ahead]
        return replace(
            self,
            kinds=tuple(map(_joined_kinds, self.kinds, map(tuple, more))),
            meets=(False,) * len(PHASES),
            ticks=max(self.ticks, ticks),
            encoders={
                name: replace(own, pairs=max(own.pairs, pairs))
                for name, own in self.encoders.items()
            },
        )

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        sizes = {"decoder": asdict(self.sizes)}
        sizes |= {name: asdict(encoder.sizes) for name, encoder in self.encoders.items()}
        lines = [
            f"  {name}: " + ", ".join(f"{buffer} {size}" for buffer, size in slots.items())
            for name, slots in sizes.items()
        ]
        shape = f"at most {self.ticks} ticks x {self.stages} stages, remat {self.remat}"
        return "\n".join([f"{shape}; slots per stage:", *lines])

    # ---- rows ------------------------------------------------------------------------------------

    def row(self, own: Sequence[Any], joint: Sequence[Any]) -> dict[str, Any]:
        """Named entries of a row, as nested dicts like those of `Program.tables`.

        Added are `runs`: by kind of bundle, whether it runs (0 or 1); the `tick`; and whether the
        stages meet at its end (`meets`, 0 or 1).

        Args:
            own, joint: entries as they lie in `InstructionTable`.
        """
        pairs = (*zip(self._own, own, strict=True), *zip(self._joint, joint, strict=True))
        return _nested(dict(pairs))

    @cached_property
    def entries(self) -> tuple[int, int]:
        """Number of entries of a row of one stage, and of all."""
        return len(self._own), len(self._joint)

    @cached_property
    def _own(self) -> tuple[Path, ...]:
        kinds = dict.fromkeys(str(kind) for own in self.kinds for kind in own)
        return (*self.own, *(("runs", kind) for kind in kinds))

    @cached_property
    def _joint(self) -> tuple[Path, ...]:
        return (*self.joint, ("tick",), ("meets",))

    def rows(self, program: Program) -> InstructionTable:
        """A program as arguments of the step that is compiled for this frame.

        A microbatch that enters the decoder stands in the row of the meeting in which it enters.

        Raises:
            ScheduleError: the program does not fit the frame.
        """
        self.check(program)
        schedule, tables = program.schedule, leaves(program.tables())
        tables |= {("runs", str(kind)): runs for kind, runs in self.runs(program).items()}
        tables |= {("tick",): np.arange(len(schedule.ticks)), ("meets",): schedule.meetings}
        own, joint = (
            np.full((*shape, 1 + self.ticks, len(paths)), -1, np.int32)
            for paths, shape in ((self._own, (self.stages,)), (self._joint, ()))
        )
        for rows, paths in ((own, self._own), (joint, self._joint)):
            for entry, path in enumerate(paths):
                table = tables[path]
                if path[-1] in _ENTRIES:
                    rows[..., 0, entry] = table[schedule.span.start]
                    table = _at_meetings(table, program)
                rows[..., 1 : 1 + len(schedule.ticks), entry] = table.T
        bounds = np.array([0, *(ticks.stop for ticks in schedule.phases)], np.int32)
        pairs = {name: self._pairs(name, encoder) for name, encoder in program.encoders.items()}
        return InstructionTable(own, joint, bounds, pairs)

    def _pairs(self, name: str, encoder: EncoderProgram) -> dict[str, Table]:
        """The tables of an encoder's pairs, with room for more."""
        more = ((0, 0), (0, self.encoders[name].pairs - encoder.pairs.most))
        tables = encoder.pairs.read.items()
        return {table: np.pad(rows, more, constant_values=-1) for table, rows in tables}

    def runs(self, program: Program) -> dict[BundleKind, NDArray[np.bool_]]:
        """By compiled kind of bundles: whether it runs, `[ticks, stages]`; kinds that never do too.

        Raises:
            ScheduleError: a task runs in a phase for which its kind is not compiled.
        """
        shape = len(program.schedule.ticks), self.stages
        runs = {kind: np.zeros(shape, bool) for own in self.kinds for kind in own}
        for phase, ticks in enumerate(program.schedule.phases):
            codes = program.codes[ticks.start : ticks.stop]
            for code in np.unique(codes).tolist():
                for kind in self._parts(program.decoded(code), phase, ticks):
                    runs[kind][ticks.start : ticks.stop] |= codes == code
        return runs

    def _parts(self, whole: BundleKind, phase: int, ticks: range) -> list[BundleKind]:
        """The compiled kinds that run the tasks of a bundle."""
        kinds = self.kinds[phase]
        if whole in kinds:
            return [whole]
        parts = _parts(whole, kinds)
        for kind in parts:
            if kind not in kinds:
                valid = ", ".join(map(str, kinds)) or "none"
                raise ScheduleError(
                    f"ticks {ticks.start} to {ticks.stop - 1}: bundles {kind} are not compiled for "
                    f"the {PHASES[phase]}; valid: {valid}"
                )
        return parts

    @cached_property
    def without_encoders(self) -> dict[BundleKind, tuple[BundleKind, ...]]:
        """By kind of bundles with tasks of encoders: the kinds that run the decoder's tasks alone.

        Kinds are left out of which a task of the decoder is compiled in no other.
        """
        found = {}
        for own in self.kinds:
            for kind in own:
                parts = _parts(kind.decoder, own)
                if kind != kind.decoder and all(part in own for part in parts):
                    found[kind] = tuple(parts)
        return found

    def excess(self, program: Program) -> str | None:
        """What of a program does not fit the frame, or None."""
        try:
            self.check(program)
        except ScheduleError as error:
            return str(error)
        return None

    def check(self, program: Program) -> None:
        """Raise ScheduleError if a program does not fit the frame, and say what is too large."""
        schedule = program.schedule
        for what in ("stages", "chunks", "microbatches"):
            _refuse_other(what, getattr(schedule, what), getattr(self, what))
        _refuse_other("remat", program.remat, self.remat)
        cuts = [replace(cut, feeds=None) for cut in schedule.encoders]
        _refuse_other("encoders", cuts, list(_cuts(self)))
        remats = {name: own.remat for name, own in program.encoders.items()}
        _refuse_other("remat of encoders", remats, _remats(self))
        _refuse_more("ticks", len(schedule.ticks), self.ticks)
        _refuse_larger("decoder", program.sizes, self.sizes)
        for name, own in self.encoders.items():
            _refuse_larger(name, program.encoders[name].sizes, own.sizes)
            slots = program.encoders[name].slots
            _refuse_more(f"{name}: microbatches of a pipeline", slots, own.slots)
            pairs = program.encoders[name].pairs.most
            _refuse_more(f"{name}: pairs of microbatches on a stage", pairs, own.pairs)


def roomier(sizes: EncoderSizes) -> EncoderSizes:
    """`SPARE` more slots for activations that an encoder has between tasks.

    Not for what forwards keep for backwards, which is much larger.
    """
    names = ("pieces", "outbox", "inbox", "piece_gradients")
    held = {name: getattr(sizes, name) for name in names}
    return replace(sizes, **{name: n + SPARE for name, n in held.items() if n})


def _cuts(frame: Frame) -> tuple[EncoderPieces, ...]:
    return tuple(own.cut for own in frame.encoders.values())


def _remats(frame: Frame) -> dict[str, Remat]:
    return {name: own.remat for name, own in frame.encoders.items()}


def _refuse_other(what: str, given: object, valid: object) -> None:
    if given != valid:
        raise ScheduleError(f"{what}: {given} does not fit the compiled step; valid: {valid}")


def _refuse_more(what: str, given: int, most: int) -> None:
    if given > most:
        raise ScheduleError(f"{what}: {given} do not fit the compiled step; valid: at most {most}")


def _refuse_larger(module: str, sizes: Any, most: Any) -> None:
    for buffer, size in asdict(sizes).items():
        _refuse_more(f"{module}: slots of {buffer}", size, getattr(most, buffer))


def _largest(sizes: Any, others: Any) -> Any:
    """Slots of both."""
    both = asdict(others)
    return replace(sizes, **{name: max(size, both[name]) for name, size in asdict(sizes).items()})


def _kinds(program: Program, ticks: range, apart: bool) -> tuple[BundleKind, ...]:
    """The kinds of bundles in `ticks`: as they stand there, or each task as one of its own."""
    codes = np.unique(program.codes[ticks.start : ticks.stop]).tolist()
    shares = {program.decoded(code): np.mean(program.codes == code) for code in codes}
    if apart:
        return _in_order(single for kind in shares for single in kind.singles)
    rare = [kind for kind, share in shares.items() if len(kind.tasks) > 1 and share < RARE]
    whole = tuple(kind for kind in shares if kind not in rare)
    return _joined_kinds(whole, tuple(part for kind in rare for part in _parts(kind, whole)))


def _parts(whole: BundleKind, kinds: Container[BundleKind]) -> list[BundleKind]:
    """Parts of a bundle: the decoder's tasks together if `kinds` has them, and single tasks."""
    decoder = whole.decoder
    together = [decoder] if decoder.tasks and decoder in kinds else []
    return together + [one for one in whole.singles if not (together and one.decoder.tasks)]


def _joined_kinds(
    kinds: tuple[BundleKind, ...], more: tuple[BundleKind, ...]
) -> tuple[BundleKind, ...]:
    """Kinds of both: bundles of several tasks first, then single tasks."""
    every = dict.fromkeys((*kinds, *more))
    several = [kind for kind in every if len(kind.tasks) != 1]
    return (*several, *_in_order(kind for kind in every if len(kind.tasks) == 1))


def _in_order(singles: Iterable[BundleKind]) -> tuple[BundleKind, ...]:
    """Single tasks of each module: those that read slots before those that write them."""

    def place(single: BundleKind) -> tuple[bool, bool, bool]:
        ((kind, _),) = single.tasks
        return kind.encoder, kind.forward, kind.passes

    return tuple(sorted(dict.fromkeys(singles), key=place))


def _paths(program: Program) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Paths of the tables with a column for each stage, and with one for all."""
    tables = leaves(program.tables())
    own = tuple(path for path, table in tables.items() if table.ndim == 2)
    return own, tuple(path for path, table in tables.items() if table.ndim == 1)


def _at_meetings(table: Table, program: Program) -> Table:
    """Entries of microbatches that enter the decoder, in the rows of the meetings before."""
    last = program.schedule.last_meeting
    entries = np.flatnonzero((program.embed_microbatch >= 0) & (last >= 0))
    moved = np.full_like(table, -1)
    moved[last[entries]] = table[entries]
    return moved


def leaves(tree: Mapping[str, Any], prefix: Path = ()) -> dict[Path, Any]:
    """Leaves of nested dicts by their paths."""
    found: dict[Path, Any] = {}
    for name, value in tree.items():
        path = (*prefix, name)
        found |= leaves(value, path) if isinstance(value, Mapping) else {path: value}
    return found


def _nested(flat: Mapping[Path, Any]) -> dict[str, Any]:
    """Inverse of `leaves`."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return tree
