"""Programs: schedules as integer tables, the only form that the executor reads.

`scheduling.lowering.lower` makes them, `scheduling.lowering.check` checks them.
What happens inside a tick, and so when a slot of a buffer is free again::

    bundle   tasks read their inputs
    end      the tasks' results are written where they will be read; a slot that was read for the
             last time in this tick may be among those written
    meeting  if there is one, gradients of a microbatch's input are added in inboxes; outboxes are
             read for the microbatch that enters before the next, and its input, that of F(m, 0), is
             written on stage 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import EB, EF, B, F, TaskKind, W
from scheduling.schedules.tasks import EncoderPieces

#: Values that a forward keeps for its backward: its input only, those between layers, or all.
Remat = Literal["full", "layer", "none"]
#: int32 `[ticks, stages]`, or `[ticks]` where said; -1 means none.
Table = NDArray[np.int32]
Ints = NDArray[np.intp]

#: Kinds of tasks that the executor has functions for, and programs have tables for.
EXECUTED = (F, B, W, EF, EB)

_NOT_PER_TICK = ("owners", "local", "ahead_slot", "pairs")


@dataclass(frozen=True, eq=False)
class ForwardTable:
    """Decoder forwards: microbatch, chunk, slot of the input, slot of the kept values (or -1)."""

    microbatch: Table
    chunk: Table
    input: Table
    saved: Table


@dataclass(frozen=True, eq=False)
class BackwardTable:
    """Decoder backwards; `input` is -1 unless remat is full, and `saved` is -1 if remat is full.

    `gradient` is the slot of the gradient of the chunk's output.
    """

    microbatch: Table
    chunk: Table
    input: Table
    saved: Table
    gradient: Table


@dataclass(frozen=True, eq=False)
class WeightsTable:
    """Weight gradients of the decoder, apart from its backwards.

    `pairs` is the slot of what the backward has kept for them, and `made` the slot in which the
    backward of this tick keeps it.
    """

    microbatch: Table
    chunk: Table
    pairs: Table
    made: Table


@dataclass(frozen=True, eq=False)
class EncoderForwardTable:
    """Encoder forwards; `local` is the microbatch's position in its pipeline's batch.

    `input` is -1 for piece 0, whose input is the batch; `saved` is -1 where no backward will read
    it; `output` is the slot of the outbox for the last piece.
    """

    microbatch: Table
    piece: Table
    local: Table
    input: Table
    saved: Table
    output: Table


@dataclass(frozen=True, eq=False)
class EncoderBackwardTable:
    """Encoder backwards; `gradient` is a slot of `inbox` for the last piece.

    For the other pieces it is a slot of `piece_gradients`. `input` is -1 for piece 0 and unless
    remat is full; `saved` is -1 if remat is full.
    """

    microbatch: Table
    piece: Table
    local: Table
    input: Table
    saved: Table
    gradient: Table


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which encoder microbatch feeds which decoder microbatch, by the stage that holds the output.

    All are `[stages, pairs]`; pairs of a stage are in the order in which their decoder microbatches
    enter, and -1 is behind the last one.

    Attributes:
        unit: encoder microbatch, `M + i` of the next step not among them.
        microbatch: decoder microbatch that its outputs enter.
        outbox, inbox: slots of the outputs and of their gradient; -1 without a backward.
        fresh: whether this pair's gradient is the first one of its encoder microbatch, 0 or 1; else
            it is added to what lies in the slot.
    """

    unit: Table
    microbatch: Table
    outbox: Table
    inbox: Table
    fresh: Table

    @property
    def read(self) -> dict[str, Table]:
        """What the executor reads."""
        return {"outbox": self.outbox, "inbox": self.inbox, "fresh": self.fresh}

    @property
    def most(self) -> int:
        """Most pairs of a stage."""
        return self.unit.shape[1]


@dataclass(frozen=True)
class DecoderSizes:
    """Slots of the decoder's buffers, equal on all stages.

    Attributes:
        inputs: slots for inputs of chunks, kept for the backward if remat is full.
        saved: slots for values that forwards keep for backwards, 0 if remat is full.
        gradients: slots for gradients of the outputs of chunks.
        pairs: slots for what backwards keep for weight gradients, 0 if these are not apart.
    """

    inputs: int
    saved: int
    gradients: int
    pairs: int = 0


@dataclass(frozen=True)
class EncoderSizes:
    """Slots of one encoder's buffers, equal on all stages.

    Attributes:
        pieces: slots for inputs of pieces but the first, kept for the backward if remat is full.
        saved: slots for values that forwards keep for backwards, 0 if remat is full.
        outbox: slots for outputs that wait to enter the decoder.
        inbox: slots for gradients of outputs, which are added up and wait for the backward.
        piece_gradients: slots for gradients of the outputs of pieces but the last.
    """

    pieces: int
    saved: int
    outbox: int
    inbox: int
    piece_gradients: int


@dataclass(frozen=True, eq=False)
class EncoderProgram:
    """Tables of one encoder.

    A piece's output stays on its stage for the next piece (`keep_piece`) or moves to the next stage
    (`receive_piece`); both may happen on one stage in one tick. Gradients move the other way.

    Attributes:
        cut: how the encoder's work is cut.
        forward, backward: tables of its tasks.
        keep_piece: slot of `pieces` written at a tick's end with the output made on this stage.
        receive_piece: the same for the output that arrives from the stage before.
        deliver, deliver_count: first of the stage's `pairs` that enter the decoder in the last
            meeting before a tick, and their number.
        back, back_count: first of the pairs that take their gradients from that of the decoder's
            input at a tick's end, and their number.
        keep_piece_gradient, receive_piece_gradient: slots of `piece_gradients`, as for `pieces`.
        sizes: sizes of the buffers.
        owners: encoder pipeline that runs each microbatch, `[microbatches]`.
        local: position of each microbatch among those of its pipeline, in increasing order, counted
            over the whole step, including microbatches encoded ahead, `[microbatches]`.
        pairs: which of its microbatches enter the decoder with which of the decoder's.
        slots: largest number of microbatches that one pipeline runs.
        ahead_slot: slot of `outbox`, reserved for the whole step, in which the output of
            microbatch i waits from the step before and that of `M + i` for the next, `[ahead]`.
        remat: values that its forwards keep for its backwards, as of `Program`.
    """

    cut: EncoderPieces
    forward: EncoderForwardTable
    backward: EncoderBackwardTable
    keep_piece: Table
    receive_piece: Table
    deliver: Table
    deliver_count: Table
    back: Table
    back_count: Table
    keep_piece_gradient: Table
    receive_piece_gradient: Table
    sizes: EncoderSizes
    owners: Table
    local: Table
    pairs: Pairs
    slots: int
    ahead_slot: Table
    remat: Remat

    @property
    def carried(self) -> int:
        """Number of the first slots of `outbox` whose content is carried from step to step."""
        return int(self.ahead_slot.max(initial=-1)) + 1


@dataclass(frozen=True)
class BundleKind:
    """The kinds of tasks in a bundle, each with its module, in the order of `KINDS`."""

    tasks: tuple[tuple[TaskKind, str], ...] = ()

    @classmethod
    def single(cls, kind: TaskKind, module: str = "decoder") -> BundleKind:
        """One task."""
        return cls(((kind, module),))

    @property
    def singles(self) -> tuple[BundleKind, ...]:
        """Each task as a bundle of its own."""
        return tuple(BundleKind((task,)) for task in self.tasks)

    @property
    def decoder(self) -> BundleKind:
        """The tasks of the decoder alone."""
        return BundleKind(tuple(task for task in self.tasks if not task[0].encoder))

    def __str__(self) -> str:
        """`F+B`, `B+vision_EB`, `idle`."""
        names = (f"{name}_{kind}" if kind.encoder else kind.name for kind, name in self.tasks)
        return "+".join(names) or "idle"


#: A bundle without tasks.
IDLE = BundleKind()


@dataclass(frozen=True, eq=False)
class Program:
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
            meeting before it, and its slot of `inputs` there, `[ticks]`.
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
    sizes: DecoderSizes
    encoders: Mapping[str, EncoderProgram]

    def __str__(self) -> str:
        """Ticks, stages and the slots of every buffer."""
        shape = f"{len(self.schedule.ticks)} ticks x {self.schedule.stages} stages"
        sizes = {"decoder": asdict(self.sizes)}
        sizes |= {name: asdict(encoder.sizes) for name, encoder in self.encoders.items()}
        lines = [
            f"  {name}: " + ", ".join(f"{buffer} {size}" for buffer, size in slots.items())
            for name, slots in sizes.items()
        ]
        return "\n".join([f"{shape}, remat {self.remat}; slots per stage:", *lines])

    def tables(self) -> dict[str, Any]:
        """Every table that has a row per tick, as nested dicts named like the fields."""
        return _tables(self) | {"encoders": {n: _tables(e) for n, e in self.encoders.items()}}

    @property
    def ahead_only(self) -> Program:
        """The program with only the forwards for the next step, to prime a first step.

        Values move as in the whole program; values that are not computed are never read.
        """
        nothing = partial(_masked, keep=np.zeros_like(self.forward.microbatch, bool))
        encoders = {}
        for name, encoder in self.encoders.items():
            ahead = encoder.forward.microbatch >= self.schedule.microbatches
            encoders[name] = replace(
                encoder,
                forward=_masked(encoder.forward, ahead),
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
        own = (F, B) if self.weights is None else (F, B, W)
        decoder = {(kind, "decoder"): getattr(self, kind.cost) for kind in own}
        encoders = {
            (kind, name): getattr(encoder, kind.cost)
            for kind in (EF, EB)
            for name, encoder in self.encoders.items()
        }
        return {task: own.microbatch >= 0 for task, own in (decoder | encoders).items()}

    @cached_property
    def codes(self) -> Ints:
        """The kind of every bundle as a number, `[ticks, stages]`; see `decoded`."""
        runs = np.stack(list(self.tasks.values()), axis=-1)
        return runs @ (1 << np.arange(runs.shape[-1]))

    def decoded(self, code: int) -> BundleKind:
        """The kind of bundle with a number of `codes`."""
        return BundleKind(tuple(task for i, task in enumerate(self.tasks) if code >> i & 1))


def frozen(values: NDArray[Any]) -> Table:
    """A read-only copy."""
    table = np.array(values, np.int32)
    table.setflags(write=False)
    return table


def _masked(part: Any, keep: NDArray[np.bool_]) -> Any:
    """A dataclass of tables `[ticks, stages]` with the entries in `keep` only."""
    return replace(
        part,
        **{f.name: frozen(np.where(keep, getattr(part, f.name), -1)) for f in fields(part)},
    )


def _tables(part: Any) -> dict[str, Any]:
    """The tables among a dataclass's fields, and those of its fields that are dataclasses."""
    tables: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        whole_step = isinstance(part, EncoderProgram) and field.name in _NOT_PER_TICK
        if isinstance(value, np.ndarray) and not whole_step:
            tables[field.name] = value
        elif not whole_step and is_dataclass(value) and (inner := _tables(value)):
            tables[field.name] = inner
    return tables
