"""Programs: schedules as integer tables, the only form that the executor reads.

`scheduling.lowering.lower` makes them, `scheduling.lowering.check` checks them.
What happens inside a tick, and so when a slot of a buffer is free again::

    bundle   tasks read their inputs
    end      the tasks' results are written where they will be read; a slot that was read for the
             last time in this tick may be among those written
    sync     if there is one, gradients of a microbatch's input are added up; outputs are
             read for the microbatch that enters before the next, and its input, that of F(m, 0), is
             written on stage 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages

#: Values that a forward keeps for its backward: its input only, those between layers, or all.
Remat = Literal["full", "layer", "none"]
#: int32 `[ticks, stages]`, or `[ticks]` where said; -1 means none.
Table = NDArray[np.int32]
Ints = NDArray[np.intp]

#: Kinds of tasks that the executor has functions for, and programs have tables for.
EXECUTABLE_KINDS = (F, B, W)

_NOT_PER_TICK = ("owners", "local", "prefetch_slot", "merges")


@dataclass(frozen=True, eq=False)
class ForwardTable:
    """Forwards of a module.

    Attributes:
        microbatch: the module's own microbatch.
        chunk: number of the chunk along the module; of the backbone, among those of its stage.
        local: position of the microbatch in its pipeline's batch; None for the backbone, whose
            stages have the rows of all microbatches.
        input: slot of the input; -1 for the first chunk of a module without shared ends, whose
            input is the batch.
        saved: slot of the values kept for the backward; -1 where no backward will read them.
        output: slot of the output buffer for the last chunk; None for the backbone.
    """

    microbatch: Table
    chunk: Table
    local: Table | None
    input: Table
    saved: Table
    output: Table | None


@dataclass(frozen=True, eq=False)
class BackwardTable:
    """Backwards of a module; `microbatch`, `chunk` and `local` as of `ForwardTable`.

    Attributes:
        input: -1 unless remat is full, and where the forward has none.
        saved: -1 if remat is full.
        gradient: slot of the gradient of the chunk's output, of the last chunk of a module that
            feeds another one in `output_grad_buffer`.
    """

    microbatch: Table
    chunk: Table
    local: Table | None
    input: Table
    saved: Table
    gradient: Table


@dataclass(frozen=True, eq=False)
class WeightsTable:
    """Weight gradients of the decoder, apart from its backwards.

    `operands` is the slot of what the backward has kept for them, and `written` the slot in which
    the backward of this tick keeps it.
    """

    microbatch: Table
    chunk: Table
    operands: Table
    written: Table


@dataclass(frozen=True, eq=False)
class MergeTable:
    """Which encoder microbatch feeds which decoder microbatch, by the stage that holds the output.

    All are `[stages, pairs]`; pairs of a stage are in the order in which their decoder microbatches
    enter, and -1 is behind the last one.

    Attributes:
        source: encoder microbatch, `M + i` of the next step not among them.
        target: decoder microbatch that its outputs enter.
        output_buffer, output_grad_buffer: slots of the outputs and of their gradient; -1 without a
            backward.
        is_first: whether this pair's gradient is the first one of its encoder microbatch, 0 or 1;
            else it is added to what lies in the slot.
    """

    source: Table
    target: Table
    output_buffer: Table
    output_grad_buffer: Table
    is_first: Table

    @property
    def executed(self) -> dict[str, Table]:
        """What the executor reads."""
        return {
            "output_buffer": self.output_buffer,
            "output_grad_buffer": self.output_grad_buffer,
            "is_first": self.is_first,
        }

    @property
    def count(self) -> int:
        """Most pairs of a stage."""
        return self.source.shape[1]


@dataclass(frozen=True)
class BufferSizes:
    """Slots of a module's buffers, equal on all stages; 0 for buffers that it does not have.

    Attributes:
        inputs: slots for inputs of chunks, kept for the backward if remat is full; of a module
            without shared ends, of chunks but the first.
        saved: slots for values that forwards keep for backwards, 0 if remat is full.
        gradients: slots for gradients of the outputs of chunks; of a module without shared ends, of
            chunks but the last.
        operands: slots for what backwards keep for weight gradients, if these are split from them.
        output_buffer: slots for outputs that wait to enter the backbone.
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
class ModuleTables:
    """Tables of a module that feeds the backbone.

    A chunk's output stays on its stage for the next chunk (`keep_input`) or moves to the next stage
    (`receive_input`); both may happen on one stage in one tick. Gradients move the other way.

    Attributes:
        module, feed: how the module's work is divided, and what its microbatches feed.
        forward, backward: tables of its tasks.
        keep_input: slot of `inputs` written at a tick's end with the output made on this stage.
        receive_input: the same for the output that arrives from the stage before.
        merge_first, merge_count: first of the stage's `merges` that enter the decoder in the last
            stage sync before a tick, and their number.
        return_first, return_count: first of the pairs that take their gradients from that of the
            decoder's input at a tick's end, and their number.
        keep_gradient, receive_gradient: slots of `gradients`, as for `inputs`.
        sizes: sizes of the buffers.
        owners: encoder pipeline that runs each microbatch, `[microbatches]`.
        local: position of each microbatch among those of its pipeline, in increasing order, counted
            over the whole step, including microbatches encoded ahead, `[microbatches]`.
        merges: which of its microbatches enter the decoder with which of the decoder's.
        slots: largest number of microbatches that one pipeline runs.
        prefetch_slot: slot of `output_buffer`, reserved for the whole step, in which the output of
            microbatch i waits from the step before and that of `M + i` for the next, `[ahead]`.
        remat: values that its forwards keep for its backwards, as of `LoweredSchedule`.
    """

    module: ModuleStages
    feed: Feed
    forward: ForwardTable
    backward: BackwardTable
    keep_input: Table
    receive_input: Table
    merge_first: Table
    merge_count: Table
    return_first: Table
    return_count: Table
    keep_gradient: Table
    receive_gradient: Table
    sizes: BufferSizes
    owners: Table
    local: Table
    merges: MergeTable
    slots: int
    prefetch_slot: Table
    remat: Remat

    @property
    def carried(self) -> int:
        """Number of the first slots of `output_buffer` that are carried from step to step."""
        return int(self.prefetch_slot.max(initial=-1)) + 1


@dataclass(frozen=True)
class FusedKind:
    """The kinds of tasks in a bundle, each with its module, in the order of `KINDS`."""

    tasks: tuple[tuple[TaskKind, str], ...] = ()

    @classmethod
    def single(cls, kind: TaskKind, module: str = BACKBONE) -> FusedKind:
        """One task."""
        return cls(((kind, module),))

    @property
    def single_tasks(self) -> tuple[FusedKind, ...]:
        """Each task as a bundle of its own."""
        return tuple(FusedKind((task,)) for task in self.tasks)

    @property
    def backbone(self) -> FusedKind:
        """The tasks of the backbone alone."""
        return FusedKind(tuple(task for task in self.tasks if task[1] == BACKBONE))

    def __str__(self) -> str:
        """`decoder_F+decoder_B`, `decoder_B+vision_B`, `idle`."""
        return "+".join(f"{name}_{kind}" for kind, name in self.tasks) or "idle"


#: A bundle without tasks.
IDLE = FusedKind()


@dataclass(frozen=True, eq=False)
class LoweredSchedule:
    """A schedule as tables `[ticks, stages]` (`[ticks]` where said); -1 means none.

    Attributes:
        schedule: the compiled schedule.
        remat: values that the decoder's forwards keep for backwards: their inputs only (`full`),
            the values between layers (`layer`) or everything (`none`).
        forward, backward, weights: tables of the decoder's tasks; no table of weight gradients if
            these are not apart.
        receive_input: slot of `inputs` for the value that arrives at a tick's end from the stage
            before, or on stage 0 from the last one.
        receive_gradient: slot of `gradients` for the value that arrives from the stage after, or on
            the last stage from stage 0.
        embed_microbatch, embed_input: microbatch that enters stage 0 for a tick, in the last
            stage sync before it, and its slot of `inputs` there, `[ticks]`.
        head_microbatch, head_gradient: microbatch that leaves the last stage in a tick, and the
            slot of `gradients` there for the loss's gradient, `[ticks]`.
        return_microbatch: microbatch whose input's gradient leaves stage 0, `[ticks]`.
        sizes: sizes of the decoder's buffers.
        encoders: programs of the encoders by name, in the schedule's order.
    """

    schedule: Schedule
    remat: Remat
    forward: ForwardTable
    backward: BackwardTable
    weights: WeightsTable | None
    receive_input: Table
    receive_gradient: Table
    embed_microbatch: Table
    embed_input: Table
    head_microbatch: Table
    head_gradient: Table
    return_microbatch: Table
    sizes: BufferSizes
    encoders: Mapping[str, ModuleTables]

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        shape = f"{len(self.schedule.ticks)} ticks x {self.schedule.stages} stages"
        lines = slot_lines(self.schedule.backbone.name, self.sizes, self.encoders)
        return "\n".join([f"{shape}, remat {self.remat}; slots per stage:", *lines])

    def tables(self) -> dict[str, Any]:
        """Every table that has a row per tick, as nested dicts named like the fields."""
        return _tables(self) | {"encoders": {n: _tables(e) for n, e in self.encoders.items()}}

    @property
    def prefetch_only(self) -> LoweredSchedule:
        """The program with only the forwards for the next step, to prime a first step.

        Values move as in the whole program; values that are not computed are never read.
        """
        nothing = partial(_mask_tables, keep=np.zeros_like(self.forward.microbatch, bool))
        encoders = {}
        for name, encoder in self.encoders.items():
            prefetched = encoder.forward.microbatch >= self.schedule.microbatches
            encoders[name] = replace(
                encoder,
                forward=_mask_tables(encoder.forward, prefetched),
                backward=nothing(encoder.backward),
            )
        return replace(
            self,
            forward=nothing(self.forward),
            backward=nothing(self.backward),
            weights=None if self.weights is None else nothing(self.weights),
            encoders=encoders,
        )

    @cached_property
    def tasks(self) -> dict[tuple[TaskKind, str], NDArray[np.bool_]]:
        """Where tasks of each kind of each module run, `[ticks, stages]`, in the order of kinds."""
        kinds = (F, B) if self.weights is None else (F, B, W)
        decoder = {(kind, self.schedule.backbone.name): getattr(self, kind.cost) for kind in kinds}
        encoders = {
            (kind, name): getattr(encoder, kind.cost)
            for kind in (F, B)
            for name, encoder in self.encoders.items()
        }
        return {task: table.microbatch >= 0 for task, table in (decoder | encoders).items()}

    @cached_property
    def codes(self) -> Ints:
        """The kind of every bundle as a number, `[ticks, stages]`; see `kind_of_code`."""
        runs = np.stack(list(self.tasks.values()), axis=-1)
        return runs @ (1 << np.arange(runs.shape[-1]))

    def kind_of_code(self, code: int) -> FusedKind:
        """The kind of bundle with a number of `codes`."""
        return FusedKind(tuple(task for i, task in enumerate(self.tasks) if code >> i & 1))


class _Sized(Protocol):
    """What has buffers."""

    @property
    def sizes(self) -> BufferSizes:
        """Slots of its buffers."""


def slot_lines(backbone: str, sizes: BufferSizes, others: Mapping[str, _Sized]) -> list[str]:
    """A line for each module with the slots of its buffers."""
    every = {backbone: sizes} | {name: own.sizes for name, own in others.items()}
    return [f"  {name}: {sizes_of}" for name, sizes_of in every.items()]


def read_only(values: NDArray[Any]) -> Table:
    """A read-only copy."""
    table = np.array(values, np.int32)
    table.setflags(write=False)
    return table


def _mask_tables(part: Any, keep: NDArray[np.bool_]) -> Any:
    """A dataclass of tables `[ticks, stages]` with the entries in `keep` only."""
    tables = {field.name: getattr(part, field.name) for field in fields(part)}
    masked = {
        n: read_only(np.where(keep, table, -1)) for n, table in tables.items() if table is not None
    }
    return replace(part, **masked)


def _tables(part: Any) -> dict[str, Any]:
    """The tables among a dataclass's fields, and those of its fields that are dataclasses."""
    tables: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        whole_step = isinstance(part, ModuleTables) and field.name in _NOT_PER_TICK
        if isinstance(value, np.ndarray) and not whole_step:
            tables[field.name] = value
        elif not whole_step and is_dataclass(value) and (inner := _tables(value)):
            tables[field.name] = inner
    return tables
