"""Bounds: what a compiled step fixes of the programs that it runs.

The loops over ticks read rows of integers, which are arguments of the compiled step. So a step runs
every program that fits its bounds, without another compilation::

    bounds   sizes, cuts, slots of buffers, kinds of bundles, room for ticks    compiled
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
    BufferSizes,
    FusedKind,
    LoweredSchedule,
    ModuleTables,
    Remat,
    Table,
    slot_lines,
)
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import BACKBONE, ModuleStages

#: Names of the loops over ticks, in their order: before the decoder's ticks, those, and after them.
PHASES = ("prologue", "middle", "epilogue")
#: Slots of each buffer of activations that bounds has beyond those of the full load.
SLACK_SLOTS = 4
#: Share of a program's bundles below which a kind of several tasks is not compiled as a whole: the
#: time of compiling grows with the tasks of all kinds, and few bundles gain from it.
RARE_SHARE = 0.02
#: Path of a table in `LoweredSchedule.tables`.
Path = tuple[str, ...]
#: Tables of what enters the decoder, which stand in the rows of the stage syncs before.
_ENTRIES = ("merge_first", "merge_count", "embed_microbatch", "embed_input")


@dataclass(frozen=True)
class ModuleBounds:
    """What is fixed of an encoder's program.

    Attributes:
        module: how the encoder's work is divided.
        per_target: as of `Feed`.
        sizes: slots of the encoder's buffers, equal on all stages.
        slots: most microbatches that one of the encoder's pipelines runs.
        merges: most pairs of an encoder and a decoder microbatch on a stage.
        remat: values that its forwards keep for its backwards.
        carried: slots of `output_buffer`, the first ones, that are carried from step to step.
    """

    module: ModuleStages
    per_target: int
    sizes: BufferSizes
    slots: int
    merges: int
    carried: int
    remat: Remat


@dataclass(frozen=True)
class InstructionTable:
    """A program as arguments of a compiled step, int32.

    After the row of the first microbatch that enters the decoder comes a row for every tick, and
    room for more.

    Attributes:
        by_stage: rows of each stage, `[stages, 1 + ticks, entries]`.
        joint: rows that all stages share, `[1 + ticks, entries]`.
        phases: the ticks at which phases start, and the number of ticks, `[4]`.
        merges: `Pairs.read` of every encoder, with room for more, `[stages, pairs]`.
    """

    by_stage: Table
    joint: Table
    phases: Table
    merges: Mapping[str, Mapping[str, Table]]


@dataclass(frozen=True)
class ScheduleBounds:
    """What is fixed of programs.

    Attributes:
        stages, chunks, microbatches: P, V and M.
        remat: values that the decoder's forwards keep for backwards.
        sizes: slots of the decoder's buffers.
        encoders: bounds of the encoders by name, in the schedules' order.
        kinds: for each of `PHASES`, the kinds of bundles that are compiled, in the order in which
            those of one tick run: tasks that read slots of a buffer come before tasks that write
            them, as a slot that is read may be among those written.
        syncs: for each phase, whether the stages meet in all of its ticks.
        ticks: most ticks of a program.
        by_stage, joint: paths of the tables of a program that have a column for each stage, and of
            those that have one for all.
    """

    stages: int
    chunks: int
    microbatches: int
    remat: Remat
    sizes: BufferSizes
    encoders: Mapping[str, ModuleBounds]
    kinds: tuple[tuple[FusedKind, ...], ...]
    syncs: tuple[bool, ...]
    ticks: int
    by_stage: tuple[Path, ...]
    joint: tuple[Path, ...]

    @classmethod
    def of(cls, program: LoweredSchedule, *, single_tasks: bool = False) -> ScheduleBounds:
        """The bounds of one program, with nothing to spare.

        Bundles of a kind that is rare (`RARE_SHARE`) run in parts.

        Args:
            single_tasks: whether the tasks of a bundle run one after the other, each kind of task
                in a loop of its own, so that the compiled code does not depend on how tasks are
                bundled.
        """
        schedule = program.schedule
        return cls(
            schedule.stages,
            schedule.chunks,
            schedule.microbatches,
            program.remat,
            program.sizes,
            {
                name: ModuleBounds(
                    tables.module,
                    tables.feed.per_target,
                    tables.sizes,
                    tables.slots,
                    tables.merges.count,
                    tables.carried,
                    tables.remat,
                )
                for name, tables in program.encoders.items()
            },
            tuple(_kinds(program, ticks, single_tasks) for ticks in schedule.phases),
            tuple(
                bool(schedule.stage_syncs[ticks.start : ticks.stop].all())
                for ticks in schedule.phases
            ),
            len(schedule.ticks),
            *_paths(program),
        )

    @classmethod
    def for_independent_microbatches(
        cls, program: LoweredSchedule, *, single_tasks: bool = False
    ) -> ScheduleBounds:
        """The bounds for programs of smaller loads of the encoders than that of `program`.

        A tick without tasks of the decoder holds one of an encoder. A stage has as many pairs as
        the decoder has microbatches, and one more for each of an encoder's that shares one, which
        is enough for units whose rows go on together (`data.planning.independent_microbatches`).

        Args:
            program: program whose encoders have all microbatches that a step can need.
            single_tasks: as of `of`.
        """
        bounds, schedule = cls.of(program, single_tasks=single_tasks), program.schedule
        count = schedule.microbatches
        tasks = sum(
            schedule.microbatches_of(module.name) * (2 * module.chunks - module.first_backward)
            for module in schedule.sources
        )
        pairs = count + max((own.slots for own in bounds.encoders.values()), default=0)
        open_bounds = bounds.without_order(len(schedule.span) + tasks, pairs)
        encoders = open_bounds.encoders.items()
        roomy = {name: replace(own, sizes=with_slack(own.sizes)) for name, own in encoders}
        return replace(open_bounds, encoders=roomy)

    def union(self, other: ScheduleBounds) -> ScheduleBounds:
        """The smallest bounds that both fit.

        Raises:
            ScheduleError: the two differ in what all programs of bounds share.
        """
        for what in ("stages", "chunks", "microbatches", "remat"):
            _refuse_other(what, getattr(other, what), getattr(self, what))
        _refuse_other("encoders", _divisions(other), _divisions(self))
        _refuse_other("remat of encoders", _remats(other), _remats(self))
        encoders = {
            name: replace(
                module,
                sizes=_largest(module.sizes, other.encoders[name].sizes),
                slots=max(module.slots, other.encoders[name].slots),
                merges=max(module.merges, other.encoders[name].merges),
            )
            for name, module in self.encoders.items()
        }
        return replace(
            self,
            sizes=_largest(self.sizes, other.sizes),
            encoders=encoders,
            kinds=tuple(map(_union_kinds, self.kinds, other.kinds)),
            syncs=tuple(a and b for a, b in zip(self.syncs, other.syncs, strict=True)),
            ticks=max(self.ticks, other.ticks),
        )

    def without_order(self, ticks: int, pairs: int = 0) -> ScheduleBounds:
        """The bounds for all programs of the same slots and at most `ticks` ticks.

        Every task may run wherever its kind can stand, and the stages may meet or not.

        Args:
            pairs: most pairs of an encoder and a decoder microbatch on a stage, if more.
        """
        single = FusedKind.single
        forwards = [single(F, name) for name in self.encoders]
        backwards = [
            single(B, name) for name, module in self.encoders.items() if module.module.trains
        ]
        decoder = [*([single(W)] if self.sizes.operands else []), single(B), single(F)]
        prefetched = [single(F, name) for name, own in self.encoders.items() if own.module.prefetch]
        more = forwards, [*decoder, *backwards, *forwards], [*backwards, *prefetched]
        return replace(
            self,
            kinds=tuple(map(_union_kinds, self.kinds, map(tuple, more))),
            syncs=(False,) * len(PHASES),
            ticks=max(self.ticks, ticks),
            encoders={
                name: replace(own, merges=max(own.merges, pairs))
                for name, own in self.encoders.items()
            },
        )

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        lines = slot_lines(BACKBONE, self.sizes, self.encoders)
        shape = f"at most {self.ticks} ticks x {self.stages} stages, remat {self.remat}"
        return "\n".join([f"{shape}; slots per stage:", *lines])

    # ---- rows ------------------------------------------------------------------------------------

    def unpack(self, by_stage: Sequence[Any], joint: Sequence[Any]) -> dict[str, Any]:
        """Named entries of a row, as nested dicts like those of `LoweredSchedule.tables`.

        Added are `runs`: by kind of bundle, whether it runs (0 or 1); the `tick`; and whether the
        stages meet at its end (`syncs`, 0 or 1).

        Args:
            by_stage, joint: entries as they lie in `InstructionTable`.
        """
        pairs = (*zip(self._own, by_stage, strict=True), *zip(self._joint, joint, strict=True))
        return _nested(dict(pairs))

    @cached_property
    def entries(self) -> tuple[int, int]:
        """Number of entries of a row of one stage, and of all."""
        return len(self._own), len(self._joint)

    @cached_property
    def _own(self) -> tuple[Path, ...]:
        kinds = dict.fromkeys(str(kind) for own in self.kinds for kind in own)
        return (*self.by_stage, *(("runs", kind) for kind in kinds))

    @cached_property
    def _joint(self) -> tuple[Path, ...]:
        return (*self.joint, ("tick",), ("syncs",))

    def instructions(self, program: LoweredSchedule) -> InstructionTable:
        """A program as arguments of the step that is compiled for this bounds.

        A microbatch that enters the decoder stands in the row of the stage sync in which it enters.

        Raises:
            ScheduleError: the program does not fit the bounds.
        """
        self.check(program)
        schedule, tables = program.schedule, flat_leaves(program.tables())
        tables |= {("runs", str(kind)): runs for kind, runs in self.runs(program).items()}
        tables |= {("tick",): np.arange(len(schedule.ticks)), ("syncs",): schedule.stage_syncs}
        by_stage, joint = (
            np.full((*shape, 1 + self.ticks, len(paths)), -1, np.int32)
            for paths, shape in ((self._own, (self.stages,)), (self._joint, ()))
        )
        for rows, paths in ((by_stage, self._own), (joint, self._joint)):
            for entry, path in enumerate(paths):
                table = tables[path]
                if path[-1] in _ENTRIES:
                    rows[..., 0, entry] = table[schedule.span.start]
                    table = _at_stage_syncs(table, program)
                rows[..., 1 : 1 + len(schedule.ticks), entry] = table.T
        phases = np.array([0, *(ticks.stop for ticks in schedule.phases)], np.int32)
        pairs = {
            name: self._merge_tables(name, encoder) for name, encoder in program.encoders.items()
        }
        return InstructionTable(by_stage, joint, phases, pairs)

    def _merge_tables(self, name: str, encoder: ModuleTables) -> dict[str, Table]:
        """The tables of an encoder's pairs, with room for more."""
        more = ((0, 0), (0, self.encoders[name].merges - encoder.merges.count))
        tables = encoder.merges.executed.items()
        return {table: np.pad(rows, more, constant_values=-1) for table, rows in tables}

    def runs(self, program: LoweredSchedule) -> dict[FusedKind, NDArray[np.bool_]]:
        """By compiled kind of bundles: whether it runs, `[ticks, stages]`; kinds that never do too.

        Raises:
            ScheduleError: a task runs in a phase for which its kind is not compiled.
        """
        shape = len(program.schedule.ticks), self.stages
        runs = {kind: np.zeros(shape, bool) for kinds in self.kinds for kind in kinds}
        for phase, ticks in enumerate(program.schedule.phases):
            codes = program.codes[ticks.start : ticks.stop]
            for code in np.unique(codes).tolist():
                for kind in self._parts(program.kind_of_code(code), phase, ticks):
                    runs[kind][ticks.start : ticks.stop] |= codes == code
        return runs

    def _parts(self, fused: FusedKind, phase: int, ticks: range) -> list[FusedKind]:
        """The compiled kinds that run the tasks of a bundle."""
        kinds = self.kinds[phase]
        if fused in kinds:
            return [fused]
        parts = _parts(fused, kinds)
        for kind in parts:
            if kind not in kinds:
                valid = ", ".join(map(str, kinds)) or "none"
                raise ScheduleError(
                    f"ticks {ticks.start} to {ticks.stop - 1}: bundles {kind} are not compiled for "
                    f"the {PHASES[phase]}; valid: {valid}"
                )
        return parts

    @cached_property
    def without_encoders(self) -> dict[FusedKind, tuple[FusedKind, ...]]:
        """By kind of bundles with tasks of encoders: the kinds that run the decoder's tasks alone.

        Kinds are left out of which a task of the decoder is compiled in no other.
        """
        without = {}
        for kinds in self.kinds:
            for kind in kinds:
                parts = _parts(kind.backbone, kinds)
                if kind != kind.backbone and all(part in kinds for part in parts):
                    without[kind] = tuple(parts)
        return without

    def find_excess(self, program: LoweredSchedule) -> str | None:
        """What of a program does not fit the bounds, or None."""
        try:
            self.check(program)
        except ScheduleError as error:
            return str(error)
        return None

    def check(self, program: LoweredSchedule) -> None:
        """Raise ScheduleError if a program does not fit the bounds, and say what is too large."""
        schedule = program.schedule
        for what in ("stages", "chunks", "microbatches"):
            _refuse_other(what, getattr(schedule, what), getattr(self, what))
        _refuse_other("remat", program.remat, self.remat)
        given = [(own.module, own.feed.per_target) for own in program.encoders.values()]
        _refuse_other("encoders", given, list(_divisions(self)))
        remats = {name: own.remat for name, own in program.encoders.items()}
        _refuse_other("remat of encoders", remats, _remats(self))
        _refuse_more("ticks", len(schedule.ticks), self.ticks)
        _refuse_larger(BACKBONE, program.sizes, self.sizes)
        for name, module in self.encoders.items():
            _refuse_larger(name, program.encoders[name].sizes, module.sizes)
            slots = program.encoders[name].slots
            _refuse_more(f"{name}: microbatches of a pipeline", slots, module.slots)
            pairs = program.encoders[name].merges.count
            _refuse_more(f"{name}: pairs of microbatches on a stage", pairs, module.merges)


def with_slack(sizes: BufferSizes) -> BufferSizes:
    """`SLACK_SLOTS` more slots for activations that an encoder has between tasks.

    Not for what forwards keep for backwards, which is much larger.
    """
    names = ("inputs", "gradients", "output_buffer", "output_grad_buffer")
    sizes_of = {name: getattr(sizes, name) for name in names}
    return replace(sizes, **{name: n + SLACK_SLOTS for name, n in sizes_of.items() if n})


def _divisions(bounds: ScheduleBounds) -> tuple[tuple[ModuleStages, int], ...]:
    return tuple((module.module, module.per_target) for module in bounds.encoders.values())


def _remats(bounds: ScheduleBounds) -> dict[str, Remat]:
    return {name: module.remat for name, module in bounds.encoders.items()}


def _refuse_other(what: str, value: object, valid: object) -> None:
    if value != valid:
        raise ScheduleError(f"{what}: {value} does not fit the compiled step; valid: {valid}")


def _refuse_more(what: str, value: int, most: int) -> None:
    if value > most:
        raise ScheduleError(f"{what}: {value} do not fit the compiled step; valid: at most {most}")


def _refuse_larger(module: str, sizes: Any, most: Any) -> None:
    for buffer, size in asdict(sizes).items():
        _refuse_more(f"{module}: slots of {buffer}", size, getattr(most, buffer))


def _largest(sizes: Any, others: Any) -> Any:
    """Slots of both."""
    both = asdict(others)
    return replace(sizes, **{name: max(size, both[name]) for name, size in asdict(sizes).items()})


def _kinds(program: LoweredSchedule, ticks: range, single_tasks: bool) -> tuple[FusedKind, ...]:
    """The kinds of bundles in `ticks`: as they stand there, or each task as one of its own."""
    codes = np.unique(program.codes[ticks.start : ticks.stop]).tolist()
    shares = {program.kind_of_code(code): np.mean(program.codes == code) for code in codes}
    if single_tasks:
        return _in_order(single for kind in shares for single in kind.single_tasks)
    rare = [kind for kind, share in shares.items() if len(kind.tasks) > 1 and share < RARE_SHARE]
    common = tuple(kind for kind in shares if kind not in rare)
    return _union_kinds(common, tuple(part for kind in rare for part in _parts(kind, common)))


def _parts(fused: FusedKind, kinds: Container[FusedKind]) -> list[FusedKind]:
    """Parts of a bundle: the decoder's tasks together if `kinds` has them, and single tasks."""
    decoder = fused.backbone
    together = [decoder] if decoder.tasks and decoder in kinds else []
    return together + [one for one in fused.single_tasks if not (together and one.backbone.tasks)]


def _union_kinds(
    kinds: tuple[FusedKind, ...], more: tuple[FusedKind, ...]
) -> tuple[FusedKind, ...]:
    """Kinds of both: bundles of several tasks first, then single tasks."""
    every = dict.fromkeys((*kinds, *more))
    several = [kind for kind in every if len(kind.tasks) != 1]
    return (*several, *_in_order(kind for kind in every if len(kind.tasks) == 1))


def _in_order(singles: Iterable[FusedKind]) -> tuple[FusedKind, ...]:
    """Single tasks of each module: those that read slots before those that write them."""

    def place(single: FusedKind) -> tuple[bool, bool, bool]:
        ((kind, module),) = single.tasks
        return module != BACKBONE, kind.forward, kind.passes

    return tuple(sorted(dict.fromkeys(singles), key=place))


def _paths(program: LoweredSchedule) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Paths of the tables with a column for each stage, and with one for all."""
    tables = flat_leaves(program.tables())
    by_stage = tuple(path for path, table in tables.items() if table.ndim == 2)
    return by_stage, tuple(path for path, table in tables.items() if table.ndim == 1)


def _at_stage_syncs(table: Table, program: LoweredSchedule) -> Table:
    """Entries of microbatches that enter the decoder, in the rows of the stage syncs before."""
    last = program.schedule.last_sync
    entries = np.flatnonzero((program.embed_microbatch >= 0) & (last >= 0))
    moved = np.full_like(table, -1)
    moved[last[entries]] = table[entries]
    return moved


def flat_leaves(tree: Mapping[str, Any], prefix: Path = ()) -> dict[Path, Any]:
    """Leaves of nested dicts by their paths."""
    flat: dict[Path, Any] = {}
    for name, value in tree.items():
        path = (*prefix, name)
        flat |= flat_leaves(value, path) if isinstance(value, Mapping) else {path: value}
    return flat


def _nested(flat: Mapping[Path, Any]) -> dict[str, Any]:
    """Inverse of `flat_leaves`."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return tree
