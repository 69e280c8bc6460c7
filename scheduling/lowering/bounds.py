"""Bounds: what a compiled step fixes of the lowered schedules that it runs.

The loops over ticks read rows of integers, which are arguments of the compiled step. So a step runs
every schedule that fits its bounds, without another compilation::

    bounds        sizes, divisions, slots of buffers, kinds of fused tasks, most ticks    compiled
    instructions  which fused task runs in which tick, on which slots                 an argument

A fused task whose kind is not compiled runs in parts, one after the other. Rare kinds are not
compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.fused_kinds import phase_kinds, split_fused, union_kinds
from scheduling.lowering.instructions import (
    ENTRY_TABLES,
    InstructionTable,
    TickRow,
    move_to_syncs,
    pad_slots,
)
from scheduling.lowering.lowered import (
    BufferSizes,
    Entry,
    FeedTables,
    FusedKind,
    LoweredFeed,
    LoweredModule,
    LoweredSchedule,
    ModuleTables,
    Remat,
    Table,
    slot_lines,
)
from scheduling.lowering.trees import Path, flat_leaves, map_leaves
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import ModuleStages

#: Names of the loops over ticks, in their order: before the backbone's ticks, those, and after.
PHASES = ("prologue", "middle", "epilogue")
#: Slots of each buffer of activations that bounds have beyond those of the full load.
SLACK_SLOTS = 4


@dataclass(frozen=True)
class ModuleBounds:
    """What is fixed of a module.

    Attributes:
        stages: how the module's work is divided.
        remat: values that its forwards keep for its backwards.
        sizes: slots of the module's buffers, equal on all stages.
        slots: most microbatches that one of the module's pipelines runs.
        carried: slots of `output_buffer`, the first ones, that are carried from step to step.
        tables: which tables it has, and whether each of them has a column for every stage.
    """

    stages: ModuleStages
    remat: Remat
    sizes: BufferSizes
    slots: int
    carried: int
    tables: ModuleTables[bool]


@dataclass(frozen=True)
class FeedBounds:
    """What is fixed of a feed.

    Attributes:
        source, target, per_target: as of `Feed`.
        merges: most pairs of a source and a target microbatch on a stage.
        tables: as of `ModuleBounds`.
    """

    source: str
    target: str
    per_target: int
    merges: int
    tables: FeedTables[bool]


@dataclass(frozen=True)
class ScheduleBounds:
    """What is fixed of lowered schedules.

    Attributes:
        microbatches: those of the backbone.
        modules: bounds of the modules by name, in the schedules' order, the backbone first.
        feeds: bounds of the feeds, in the schedules' order.
        kinds: for each of `PHASES`, the kinds of fused tasks that are compiled, in the order in
            which those of one tick run: tasks that read slots of a buffer come before tasks that
            write them, as a slot that is read may be among those written.
        syncs: for each phase, whether the stages meet in all of its ticks.
        ticks: most ticks of a schedule.
    """

    microbatches: int
    modules: Mapping[str, ModuleBounds]
    feeds: tuple[FeedBounds, ...]
    kinds: tuple[tuple[FusedKind, ...], ...]
    syncs: tuple[bool, ...]
    ticks: int

    @classmethod
    def of_schedule(cls, program: LoweredSchedule, *, single_tasks: bool = False) -> ScheduleBounds:
        """The bounds of one lowered schedule, with nothing to spare.

        Fused tasks of a kind that is rare (`RARE_SHARE`) run in parts.

        Args:
            single_tasks: whether fused tasks run task by task, each kind of task in a separate
                loop, so that the compiled code does not depend on how tasks are fused.
        """
        schedule = program.schedule
        modules = {
            name: ModuleBounds(
                module.stages,
                module.remat,
                module.sizes,
                module.slots,
                module.carried,
                map_leaves(_is_by_stage, module.tables),
            )
            for name, module in program.modules.items()
        }
        syncs = (schedule.stage_syncs[ticks.start : ticks.stop] for ticks in schedule.phases)
        return cls(
            schedule.microbatches,
            modules,
            tuple(map(_feed_bounds, program.feeds)),
            tuple(phase_kinds(program, ticks, single_tasks) for ticks in schedule.phases),
            tuple(bool(module.all()) for module in syncs),
            len(schedule.ticks),
        )

    @classmethod
    def for_independent_microbatches(
        cls, program: LoweredSchedule, *, single_tasks: bool = False
    ) -> ScheduleBounds:
        """The bounds for smaller loads of the sources than that of `program`.

        A tick without tasks of the backbone holds one of a source. A stage has as many pairs as
        the backbone has microbatches, and one more for each of a source's that shares one, which is
        enough for microbatches whose rows go on together
        (`data.planning.independent_microbatches`).

        Args:
            program: lowered schedule whose sources have all microbatches that a step can need.
            single_tasks: as of `of_schedule`.
        """
        bounds, schedule = cls.of_schedule(program, single_tasks=single_tasks), program.schedule
        tasks = sum(
            schedule.microbatches_of(module.name) * (2 * module.chunks - module.first_backward)
            for module in schedule.sources
        )
        pairs = schedule.microbatches + max(
            (source.slots for source in bounds.sources.values()), default=0
        )
        open_bounds = bounds.without_order(len(schedule.span) + tasks, pairs)
        roomy = {
            name: replace(source, sizes=with_slack(source.sizes))
            for name, source in bounds.sources.items()
        }
        return replace(open_bounds, modules={**open_bounds.modules, **roomy})

    @property
    def backbone(self) -> ModuleBounds:
        """The module whose microbatches count the step."""
        return self.modules[self.backbone_name]

    @property
    def sources(self) -> dict[str, ModuleBounds]:
        """The modules that feed the backbone, by name."""
        return {name: module for name, module in self.modules.items() if name != self.backbone_name}

    @property
    def sizes(self) -> dict[str, BufferSizes]:
        """Sizes of the buffers of every module by name."""
        return {name: module.sizes for name, module in self.modules.items()}

    @property
    def backbone_name(self) -> str:
        """Name of the backbone."""
        return next(iter(self.modules))

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.backbone.stages.stages

    @property
    def stage_chunks(self) -> int:
        """Number of chunks of each stage of the backbone."""
        return self.backbone.stages.stage_chunks

    def feed_of(self, source: str) -> FeedBounds:
        """Bounds of what a module feeds.

        Raises:
            KeyError: the module is none that feeds another one.
        """
        return {feed.source: feed for feed in self.feeds}[source]

    def union_with(self, other: ScheduleBounds) -> ScheduleBounds:
        """The smallest bounds that both fit.

        Raises:
            ScheduleError: the two differ in what all schedules of bounds share.
        """
        self._refuse_others(other, other.modules, other.feeds)
        modules = {
            name: replace(
                module,
                sizes=_largest_sizes(module.sizes, other.modules[name].sizes),
                slots=max(module.slots, other.modules[name].slots),
            )
            for name, module in self.modules.items()
        }
        feeds = tuple(
            replace(feed, merges=max(feed.merges, more.merges))
            for feed, more in zip(self.feeds, other.feeds, strict=True)
        )
        return replace(
            self,
            modules=modules,
            feeds=feeds,
            kinds=tuple(map(self._union_kinds, self.kinds, other.kinds)),
            syncs=tuple(a and b for a, b in zip(self.syncs, other.syncs, strict=True)),
            ticks=max(self.ticks, other.ticks),
        )

    def without_order(self, ticks: int, pairs: int = 0) -> ScheduleBounds:
        """The bounds for all schedules of the same slots and at most `ticks` ticks.

        Every task may run wherever its kind can stand, and the stages may meet or not.

        Args:
            pairs: most pairs of a source and a target microbatch on a stage, if more.
        """
        single, backbone = FusedKind.of_task, self.backbone_name
        forwards = [single(F, name) for name in self.sources]
        backwards = [
            single(B, name) for name, module in self.sources.items() if module.stages.trains
        ]
        prefetched = [
            single(F, name) for name, module in self.sources.items() if module.stages.prefetch
        ]
        own_kinds = (W, B, F) if self.backbone.sizes.operands else (B, F)
        middle = [*(single(kind, backbone) for kind in own_kinds), *backwards, *forwards]
        more = forwards, middle, [*backwards, *prefetched]
        return replace(
            self,
            kinds=tuple(map(self._union_kinds, self.kinds, map(tuple, more))),
            syncs=(False,) * len(PHASES),
            ticks=max(self.ticks, ticks),
            feeds=tuple(replace(module, merges=max(module.merges, pairs)) for module in self.feeds),
        )

    def _union_kinds(
        self, kinds: tuple[FusedKind, ...], more: tuple[FusedKind, ...]
    ) -> tuple[FusedKind, ...]:
        return union_kinds(self.backbone_name, kinds, more)

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        shape = f"at most {self.ticks} ticks x {self.stages} stages, remat {self.backbone.remat}"
        return "\n".join([f"{shape}; slots per stage:", *slot_lines(self.sizes)])

    # ---- rows ------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> TickRow[int]:
        """Numbers of the columns of an `InstructionTable`.

        They are counted from 0 up of the tables that have a column for each stage, and from -1 down
        of those that have one for all.
        """
        by_stage, joint = count(), count(-1, -1)
        layout = TickRow(
            {name: part.tables for name, part in self.modules.items()},
            tuple(part.tables for part in self.feeds),
            {str(kind): True for kinds in self.kinds for kind in kinds},
            tick=False,
            syncs=False,
        )
        columns: TickRow[int] = map_leaves(
            lambda _, per_stage: next(by_stage if per_stage else joint), layout
        )
        return columns

    def unpack_row(self, by_stage: Sequence[Entry], joint: Sequence[Entry]) -> TickRow[Entry]:
        """The typed view of a row.

        Args:
            by_stage, joint: entries as they lie in `InstructionTable`.
        """
        row: TickRow[Entry] = map_leaves(
            lambda _, column: by_stage[column] if column >= 0 else joint[~column], self.columns
        )
        return row

    @cached_property
    def entry_counts(self) -> tuple[int, int]:
        """Number of entries of a row of one stage, and of all."""
        columns = flat_leaves(self.columns).values()
        by_stage = sum(column >= 0 for column in columns)
        return by_stage, len(columns) - by_stage

    def make_instructions(self, program: LoweredSchedule) -> InstructionTable:
        """A lowered schedule as arguments of the step that is compiled for these bounds.

        A microbatch that enters the backbone stands in the row of the stage sync in which it
        enters.

        Raises:
            ScheduleError: the schedule does not fit the bounds.
        """
        self.check_fit(program)
        schedule, ticks = program.schedule, len(program.schedule.ticks)
        tables: TickRow[NDArray[Any]] = TickRow(
            {name: part.tables for name, part in program.modules.items()},
            tuple(part.tables for part in program.feeds),
            {str(kind): runs for kind, runs in self.find_runs(program).items()},
            np.arange(ticks),
            schedule.stage_syncs,
        )
        width, joint_width = self.entry_counts
        by_stage = np.full((self.stages, 1 + self.ticks, width), -1, np.int32)
        joint = np.full((1 + self.ticks, joint_width), -1, np.int32)
        columns = flat_leaves(self.columns)
        for path, table in flat_leaves(tables).items():
            column = columns[path]
            rows = by_stage[..., column] if column >= 0 else joint[..., ~column]
            moved = table
            if path[-1] in ENTRY_TABLES:
                rows[..., 0] = table[schedule.span.start]
                moved = move_to_syncs(table, program)
            rows[..., 1 : 1 + ticks] = moved.T
        phases = np.array([0, *(ticks.stop for ticks in schedule.phases)], np.int32)
        merges = tuple(
            pad_slots(feed, bounds.merges)
            for feed, bounds in zip(program.feeds, self.feeds, strict=True)
        )
        return InstructionTable(by_stage, joint, phases, merges)

    def find_runs(self, program: LoweredSchedule) -> dict[FusedKind, NDArray[np.bool_]]:
        """By compiled kind: whether it runs, `[ticks, stages]`; kinds that never do too.

        Raises:
            ScheduleError: a task runs in a phase for which its kind is not compiled.
        """
        shape = len(program.schedule.ticks), self.stages
        runs = {kind: np.zeros(shape, bool) for kinds in self.kinds for kind in kinds}
        for phase, ticks in enumerate(program.schedule.phases):
            codes = program.codes[ticks.start : ticks.stop]
            for code in np.unique(codes).tolist():
                for kind in self._compiled_parts(program.kind_of_code(code), phase, ticks):
                    runs[kind][ticks.start : ticks.stop] |= codes == code
        return runs

    def _compiled_parts(self, fused: FusedKind, phase: int, ticks: range) -> list[FusedKind]:
        """The compiled kinds that run the tasks of a fused task."""
        kinds = self.kinds[phase]
        if fused in kinds:
            return [fused]
        parts = split_fused(self.backbone_name, fused, kinds)
        for kind in parts:
            if kind not in kinds:
                valid = ", ".join(map(str, kinds)) or "none"
                raise ScheduleError(
                    f"ticks {ticks.start} to {ticks.stop - 1}: fused tasks {kind} are not compiled "
                    f"for the {PHASES[phase]}; valid: {valid}"
                )
        return parts

    @cached_property
    def without_sources(self) -> dict[FusedKind, tuple[FusedKind, ...]]:
        """By kind with tasks of sources: the kinds that run the backbone's tasks alone.

        Kinds are left out of which a task of the backbone is compiled in no other.
        """
        without = {}
        for kinds in self.kinds:
            for kind in kinds:
                backbone = kind.of_module(self.backbone_name)
                parts = split_fused(self.backbone_name, backbone, kinds)
                if kind != backbone and all(part in kinds for part in parts):
                    without[kind] = tuple(parts)
        return without

    def find_excess(self, program: LoweredSchedule) -> str | None:
        """What of a lowered schedule does not fit the bounds, or None."""
        try:
            self.check_fit(program)
        except ScheduleError as error:
            return str(error)
        return None

    def check_fit(self, program: LoweredSchedule) -> None:
        """Raise ScheduleError if a schedule does not fit the bounds, and say what is too large."""
        schedule, feeds = program.schedule, tuple(map(_feed_bounds, program.feeds))
        self._refuse_others(schedule, program.modules, feeds)
        _refuse_more("ticks", len(schedule.ticks), self.ticks)
        for name, module in self.modules.items():
            lowered = program.modules[name]
            _refuse_larger(name, lowered.sizes, module.sizes)
            _refuse_more(f"{name}: microbatches of a pipeline", lowered.slots, module.slots)
        for feed, most in zip(feeds, self.feeds, strict=True):
            where = f"{feed.source}: pairs of microbatches on a stage"
            _refuse_more(where, feed.merges, most.merges)

    def _refuse_others(
        self,
        other: ScheduleBounds | Schedule,
        modules: Mapping[str, ModuleBounds] | Mapping[str, LoweredModule],
        feeds: Sequence[FeedBounds],
    ) -> None:
        """Raise ScheduleError if another schedule differs in what all schedules of bounds share."""
        for what in ("stages", "stage_chunks", "microbatches"):
            _refuse_other(what, getattr(other, what), getattr(self, what))
        _refuse_other("modules", _module_stages(modules), _module_stages(self.modules))
        _refuse_other("remat", _remat_policies(modules), _remat_policies(self.modules))
        _refuse_other("feeds", _feed_ends(feeds), _feed_ends(self.feeds))


def with_slack(sizes: BufferSizes) -> BufferSizes:
    """`SLACK_SLOTS` more slots for activations that a source has between tasks.

    Not for what forwards keep for backwards, which is much larger.
    """
    names = ("inputs", "gradients", "output_buffer", "output_grad_buffer")
    sizes_of = {name: getattr(sizes, name) for name in names}
    return replace(sizes, **{name: n + SLACK_SLOTS for name, n in sizes_of.items() if n})


def _is_by_stage(path: Path, table: Table) -> bool:
    """Whether a table has a column for each stage."""
    del path
    return table.ndim == 2


def _feed_bounds(feed: LoweredFeed) -> FeedBounds:
    ends = feed.feed
    tables = map_leaves(_is_by_stage, feed.tables)
    return FeedBounds(ends.source, ends.target, ends.per_target, feed.merges.count, tables)


def _module_stages(
    modules: Mapping[str, ModuleBounds] | Mapping[str, LoweredModule],
) -> list[ModuleStages]:
    return [module.stages for module in modules.values()]


def _remat_policies(
    modules: Mapping[str, ModuleBounds] | Mapping[str, LoweredModule],
) -> dict[str, Remat]:
    return {name: module.remat for name, module in modules.items()}


def _feed_ends(feeds: Sequence[FeedBounds]) -> list[tuple[str, str, int]]:
    return [(feed.source, feed.target, feed.per_target) for feed in feeds]


def _refuse_other(what: str, value: object, valid: object) -> None:
    if value != valid:
        raise ScheduleError(f"{what}: {value} does not fit the compiled step; valid: {valid}")


def _refuse_more(what: str, value: int, most: int) -> None:
    if value > most:
        raise ScheduleError(f"{what}: {value} do not fit the compiled step; valid: at most {most}")


def _refuse_larger(module: str, sizes: BufferSizes, most: BufferSizes) -> None:
    for buffer, size in asdict(sizes).items():
        _refuse_more(f"{module}: slots of {buffer}", size, getattr(most, buffer))


def _largest_sizes(sizes: BufferSizes, others: BufferSizes) -> BufferSizes:
    """Slots of both."""
    both = asdict(others)
    return BufferSizes(**{name: max(size, both[name]) for name, size in asdict(sizes).items()})
