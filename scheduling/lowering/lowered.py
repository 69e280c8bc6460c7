"""Lowered schedules: schedules as integer tables, the form between the checker and the device.

`scheduling.lowering.lower` makes them, `scheduling.lowering.check` checks them, and
`scheduling.lowering.bounds` writes them as rows of numbers, an argument of the compiled step::

    Schedule  ->  LoweredSchedule  ->  InstructionTable, under the ScheduleBounds that are compiled

What happens inside a tick, and so when a slot of a buffer is free again::

    tasks    read their inputs
    end      the tasks' results are written where they will be read; a slot that was read for the
             last time in this tick may be among those written
    sync     if there is one, gradients of a microbatch's input are added up; outputs are
             read for the microbatch that enters before the next, and its input, that of F(m, 0), is
             written on stage 0

The classes that are generic hold tables `[ticks, stages]` in a lowered schedule, and one entry of
each in what the executor reads of a tick (`ScheduleBounds.unpack_row`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.trees import map_leaves
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import Feed, ModuleStages

#: Values that a forward keeps for its backward: its input only, those between layers, or all.
Remat = Literal["full", "layer", "none"]
#: int32 `[ticks, stages]`, or `[ticks]` where said; -1 means none.
Table = NDArray[np.int32]
Ints = NDArray[np.intp]
#: A table, or an entry of it.
Entry = TypeVar("Entry")

#: Kinds of tasks that the executor has functions for, and lowered schedules have tables for.
EXECUTABLE_KINDS = (F, B, W)


@dataclass(frozen=True)
class ForwardTable(Generic[Entry]):
    """Forwards of a module.

    Attributes:
        microbatch: number of the microbatch among those of the module.
        chunk: number of the chunk along the module.
        local: position of the microbatch in its pipeline's batch; None of a module whose stages
            have the rows of all microbatches.
        input: slot of the input; -1 for the first chunk of a module without shared ends, whose
            input is the batch.
        saved: slot of the values saved for the backward; -1 where no backward will read them.
        output: slot of the output buffer for the last chunk; None with shared ends.
    """

    microbatch: Entry
    chunk: Entry
    local: Entry | None
    input: Entry
    saved: Entry
    output: Entry | None

    @property
    def position(self) -> Entry:
        """Position of the microbatch's rows in the batch of a stage."""
        return self.microbatch if self.local is None else self.local


@dataclass(frozen=True)
class BackwardTable(Generic[Entry]):
    """Backwards of a module; `microbatch`, `chunk` and `local` as of `ForwardTable`.

    Attributes:
        input: -1 unless remat is full, and where the forward has none.
        saved: -1 if remat is full.
        gradient: slot of the gradient of the chunk's output: of the last chunk of a module without
            shared ends in `output_grad_buffer`.
    """

    microbatch: Entry
    chunk: Entry
    local: Entry | None
    input: Entry
    saved: Entry
    gradient: Entry

    @property
    def position(self) -> Entry:
        """As of `ForwardTable`."""
        return self.microbatch if self.local is None else self.local


@dataclass(frozen=True)
class WeightsTable(Generic[Entry]):
    """Weight gradients of a module that are split from its backwards.

    `microbatch`, `chunk` and `local` are as of `ForwardTable`, `operands` is the slot of what the
    backward has saved for them, and `written` the slot in which the backward of this tick saves it.
    """

    microbatch: Entry
    chunk: Entry
    local: Entry | None
    operands: Entry
    written: Entry

    @property
    def position(self) -> Entry:
        """As of `ForwardTable`."""
        return self.microbatch if self.local is None else self.local


@dataclass(frozen=True)
class SharedEndsTable(Generic[Entry]):
    """What all stages do together for a module with shared ends; tables are `[ticks]`.

    Attributes:
        embed_microbatch, embed_input: microbatch that enters stage 0 for a tick, in the last
            stage sync before it, and its slot of `inputs` there.
        head_microbatch, head_gradient: microbatch that leaves the last stage in a tick, and the
            slot of `gradients` there for the loss's gradient.
        return_microbatch: microbatch whose input's gradient leaves stage 0.
    """

    embed_microbatch: Entry
    embed_input: Entry
    head_microbatch: Entry
    head_gradient: Entry
    return_microbatch: Entry


@dataclass(frozen=True)
class ModuleTables(Generic[Entry]):
    """Tables of a module.

    A chunk's output stays on its stage for the next chunk (`keep_input`) or moves to the next stage
    (`receive_input`), from the last one to stage 0; both may happen on one stage in one tick.
    Gradients move the other way.

    Attributes:
        forward, backward: tables of its tasks.
        weights: table of its weight gradients; None if these are not split from backwards.
        ends: None without shared ends.
        keep_input: slot of `inputs` written at a tick's end with the output of this stage;
            None of a module of which no stage has two chunks in a row.
        receive_input: the same for the output that arrives from the stage before; None of a module
            of one stage.
        keep_gradient, receive_gradient: slots of `gradients`, as for `inputs`.
    """

    forward: ForwardTable[Entry]
    backward: BackwardTable[Entry]
    weights: WeightsTable[Entry] | None
    ends: SharedEndsTable[Entry] | None
    keep_input: Entry | None
    receive_input: Entry | None
    keep_gradient: Entry | None
    receive_gradient: Entry | None

    def of_kind(self, kind: TaskKind) -> Any:
        """The table of a kind of tasks, or None."""
        return getattr(self, kind.cost)


@dataclass(frozen=True)
class FeedTables(Generic[Entry]):
    """When pairs of a feed move; see `MergeTable`.

    Attributes:
        merge_first, merge_count: first of the stage's pairs that enter the target in the last
            stage sync before a tick, and their number.
        return_first, return_count: first of the pairs that take their gradients from that of the
            target's input at a tick's end, and their number.
    """

    merge_first: Entry
    merge_count: Entry
    return_first: Entry
    return_count: Entry


@dataclass(frozen=True)
class MergeSlots(Generic[Entry]):
    """Slots of the pairs of a `MergeTable`.

    Attributes:
        output_buffer, output_grad_buffer: slots of the outputs and of their gradient; -1 without a
            backward.
        is_first: whether this pair's gradient is the first one of its source microbatch, 0 or 1;
            else it is added to what lies in the slot.
    """

    output_buffer: Entry
    output_grad_buffer: Entry
    is_first: Entry


@dataclass(frozen=True)
class MergeTable:
    """Which microbatch of a feed's source feeds which of its target, by stage of the output.

    All are `[stages, pairs]`; pairs of a stage are in the order in which their target microbatches
    enter, and -1 is after the last one.

    Attributes:
        source: microbatch of the source, `M + i` of the next step not among them.
        target: microbatch of the target that its outputs enter.
        slots: where the outputs and their gradients wait.
    """

    source: Table
    target: Table
    slots: MergeSlots[Table]

    @property
    def count(self) -> int:
        """Most pairs of a stage."""
        return self.source.shape[1]


@dataclass(frozen=True)
class BufferSizes:
    """Slots of a module's buffers, equal on all stages; 0 for buffers that it does not have.

    Attributes:
        inputs: slots for inputs of chunks, saved for the backward if remat is full; of a module
            without shared ends, of chunks but the first.
        saved: slots for values that forwards keep for backwards, 0 if remat is full.
        gradients: slots for gradients of the outputs of chunks; of a module without shared ends, of
            chunks but the last.
        operands: slots for what backwards keep for weight gradients, if these are split from them.
        output_buffer: slots for outputs that wait to enter another module.
        output_grad_buffer: slots for gradients of outputs, which are added up and wait for the
            backward.
    """

    inputs: int = 0
    saved: int = 0
    gradients: int = 0
    operands: int = 0
    output_buffer: int = 0
    output_grad_buffer: int = 0

    def __str__(self) -> str:
        """`inputs 2, gradients 1`: the buffers that there are."""
        return ", ".join(f"{name} {size}" for name, size in asdict(self).items() if size)


@dataclass(frozen=True, eq=False)
class LoweredModule:
    """A module in a lowered schedule.

    Attributes:
        stages: how the module's work is divided.
        remat: values that its forwards keep for its backwards: their inputs only (`full`), the
            values between layers (`layer`) or everything (`none`).
        sizes: sizes of its buffers.
        tables: what it does in every tick.
        owners: pipeline of the module that runs each microbatch, `[microbatches]`.
        local: position of each microbatch among those of its pipeline, in increasing order, counted
            over the step, including prefetched microbatches, `[microbatches]`.
        slots: largest number of microbatches that one pipeline runs.
        prefetch_slot: slot of `output_buffer`, reserved for the length of the step, in which the
            output of microbatch i waits from the step before and that of `M + i` for the next,
            `[prefetch]`.
    """

    stages: ModuleStages
    remat: Remat
    sizes: BufferSizes
    tables: ModuleTables[Table]
    owners: Table
    local: Table
    slots: int
    prefetch_slot: Table

    @property
    def carried(self) -> int:
        """Number of the first slots of `output_buffer` that are carried from step to step."""
        return int(self.prefetch_slot.max(initial=-1)) + 1

    def with_forwards(self, chosen: NDArray[np.bool_]) -> LoweredModule:
        """The module with no tasks but the forwards in `chosen`, `[ticks, stages]`."""

        def mask_unread(tables: Any, mask: NDArray[np.bool_]) -> Any:
            return map_leaves(lambda _, table: read_only(np.where(mask, table, -1)), tables)

        nothing, tables = np.zeros_like(chosen), self.tables
        changed = replace(
            tables,
            forward=mask_unread(tables.forward, chosen),
            backward=mask_unread(tables.backward, nothing),
            weights=mask_unread(tables.weights, nothing),
        )
        return replace(self, tables=changed)


@dataclass(frozen=True, eq=False)
class LoweredFeed:
    """A feed in a lowered schedule: its pairs, and when they move."""

    feed: Feed
    merges: MergeTable
    tables: FeedTables[Table]


@dataclass(frozen=True)
class FusedKind:
    """The kinds of tasks in a fused task, each with its module, in the order of `FusedTask`."""

    tasks: tuple[tuple[TaskKind, str], ...] = ()

    @classmethod
    def of_task(cls, kind: TaskKind, module: str) -> FusedKind:
        """One task."""
        return cls(((kind, module),))

    @property
    def single_tasks(self) -> tuple[FusedKind, ...]:
        """Each task as a separate fused task."""
        return tuple(FusedKind((task,)) for task in self.tasks)

    def of_module(self, name: str) -> FusedKind:
        """The tasks of one module alone."""
        return FusedKind(tuple(task for task in self.tasks if task[1] == name))

    def __str__(self) -> str:
        """`decoder_F+decoder_B`, `decoder_B+vision_B`, `idle`."""
        return "+".join(f"{name}_{kind}" for kind, name in self.tasks) or "idle"


#: A fused task without tasks.
IDLE = FusedKind()


@dataclass(frozen=True, eq=False)
class LoweredSchedule:
    """A schedule as tables.

    Attributes:
        schedule: the schedule.
        modules: its modules by name, in its order, the backbone first.
        feeds: its feeds, in its order.
    """

    schedule: Schedule
    modules: Mapping[str, LoweredModule]
    feeds: tuple[LoweredFeed, ...]

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        shape = f"{len(self.schedule.ticks)} ticks x {self.schedule.stages} stages"
        heading = f"{shape}, remat {self.backbone.remat}; slots per stage:"
        return "\n".join([heading, *slot_lines(self.sizes)])

    @property
    def sizes(self) -> dict[str, BufferSizes]:
        """Sizes of the buffers of every module by name."""
        return {name: module.sizes for name, module in self.modules.items()}

    @property
    def backbone(self) -> LoweredModule:
        """The module whose microbatches count the step."""
        return self.modules[self.schedule.backbone.name]

    @property
    def sources(self) -> dict[str, LoweredModule]:
        """The modules that feed the backbone, by name."""
        return {module.name: self.modules[module.name] for module in self.schedule.sources}

    def feed_of(self, source: str) -> LoweredFeed:
        """What a module's microbatches feed.

        Raises:
            KeyError: the module is none that feeds another one.
        """
        return {feed.feed.source: feed for feed in self.feeds}[source]

    @property
    def prefetch_only(self) -> LoweredSchedule:
        """The schedule with only the forwards for the next step, to prime a first step.

        Values move as in the full schedule; values that are not computed are never read.
        """
        modules = {}
        for name, module in self.modules.items():
            of_next = module.tables.forward.microbatch >= self.schedule.microbatches
            modules[name] = module.with_forwards(of_next)
        return replace(self, modules=modules)

    @cached_property
    def tasks(self) -> dict[tuple[TaskKind, str], NDArray[np.bool_]]:
        """Where tasks of each kind of each module run, `[ticks, stages]`.

        In the order of `FusedTask`: the backbone's, then by kind.
        """
        backbone = self.schedule.backbone.name
        keys = [(kind, backbone) for kind in EXECUTABLE_KINDS]
        keys += [(kind, name) for kind in EXECUTABLE_KINDS for name in self.sources]
        tables = {(kind, name): self.modules[name].tables.of_kind(kind) for kind, name in keys}
        return {key: table.microbatch >= 0 for key, table in tables.items() if table is not None}

    @cached_property
    def codes(self) -> Ints:
        """The kind of every fused task as a number, `[ticks, stages]`; see `kind_of_code`."""
        runs = np.stack(list(self.tasks.values()), axis=-1)
        return runs @ (1 << np.arange(runs.shape[-1]))

    def kind_of_code(self, code: int) -> FusedKind:
        """The kind of fused task with a number of `codes`."""
        return FusedKind(tuple(task for i, task in enumerate(self.tasks) if code >> i & 1))


def slot_lines(sizes: Mapping[str, BufferSizes]) -> list[str]:
    """A line for each module with the slots of its buffers."""
    return [f"  {name}: {of_module}" for name, of_module in sizes.items()]


def read_only(values: NDArray[Any]) -> Table:
    """A read-only copy."""
    table = np.array(values, np.int32)
    table.setflags(write=False)
    return table
