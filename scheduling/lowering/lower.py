"""Schedules compiled to programs.

A value that waits for a later tick lies in a slot of a buffer, on the stage that will read it.
Slots are dealt by the left-edge algorithm (Hashimoto and Stevens, DAC 1971): in the order in which
values are written, each takes the lowest free slot. For intervals that is optimal: a buffer has
as many slots as values are alive at once, so its size does not grow with the microbatches.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.lowered import (
    EXECUTABLE_KINDS,
    BackwardTable,
    BufferSizes,
    ForwardTable,
    Ints,
    LoweredSchedule,
    MergeTable,
    ModuleTables,
    Remat,
    Table,
    WeightsTable,
    read_only,
)
from scheduling.lowering.ticks import BackboneTicks, SourceTicks, task_rows
from scheduling.schedules.check import check
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import W
from scheduling.schedules.tasks import ModuleStages


def lower_schedule(
    schedule: Schedule, remat: Remat, encoders: Mapping[str, Remat] | None = None
) -> LoweredSchedule:
    """Turn a schedule into tables, with a slot for every value that waits.

    Takes a fifth of a second for 16 stages, 8 chunks and 512 microbatches.

    Args:
        schedule: the schedule.
        remat: values that forwards keep for backwards.
        encoders: the same of encoders that differ in it from the decoder, by name.

    Raises:
        ScheduleError: `schedule` breaks a rule (see `scheduling.schedules.check.check`) or holds a
            kind of task that the executor has no function for, or a `remat` is unknown.
    """
    remats = encoders or {}
    for policy in (remat, *remats.values()):
        if policy not in get_args(Remat):
            valid = ", ".join(get_args(Remat))
            raise ScheduleError(f"remat: {policy!r} is unknown; valid: {valid}")
    check(schedule)
    _refuse_without_tables(schedule)
    tasks = task_rows(schedule)
    decoder = BackboneTicks.of(schedule, tasks)
    blank = _TableShape(len(schedule.ticks), schedule.stages)
    tables = {
        feed.source: _lower_encoder(
            blank,
            SourceTicks.of(schedule, schedule.module(feed.source), feed, tasks),
            decoder,
            remats.get(feed.source, remat),
        )
        for feed in schedule.feeds
    }
    return _lower_decoder(schedule, decoder, remat, tables)


def _refuse_without_tables(schedule: Schedule) -> None:
    """Raise ScheduleError for kinds of tasks that the executor has no function for."""
    backbone = schedule.backbone.name
    for module, kind in schedule.task_arrays.keys:
        valid = [k for k in EXECUTABLE_KINDS if k is not W or module == backbone]
        if kind not in valid:
            raise ScheduleError(
                f"the executor has no function for tasks of kind {kind} of {module!r}, so that "
                f"they are scheduled and simulated only; valid: {', '.join(map(str, valid))}"
            )


# ---- slots ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BufferSlots:
    """Slot of every value of a buffer, -1 if it does not exist, and the number of slots."""

    slot: Ints
    size: int


def _assign_slots(
    stage: Ints,
    written: Ints,
    read: Ints,
    exists: NDArray[np.bool_],
    reserved: Mapping[int, int] | None = None,
) -> _BufferSlots:
    """Give every value the lowest slot of its stage that is free when it is written.

    Args:
        stage, written, read, exists: arrays of one shape, for each value: its stage, the tick at
            whose end it is written, the tick that reads it last, and whether it exists.
        reserved: number of slots of each stage that no value may take.
    """
    slot = np.full(written.shape, -1, np.intp)
    size = max((reserved or {}).values(), default=0)
    for here in np.unique(stage[exists]).tolist():
        values = np.nonzero(exists & (stage == here))
        order = np.argsort(written[values], kind="stable")
        first = (reserved or {}).get(here, 0)
        slots, used = _left_edge(written[values][order], read[values][order], first)
        slot[tuple(axis[order] for axis in values)] = slots
        size = max(size, used)
    return _BufferSlots(slot, size)


def _left_edge(written: Ints, read: Ints, first: int) -> tuple[list[int], int]:
    """Slots from `first` on of values sorted by `written`, and the slot after the last in use."""
    slots: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    size = first
    for start, end in zip(written.tolist(), read.tolist(), strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            free.append(size)
            size += 1
        slots.append(heapq.heappop(free))
        heapq.heappush(busy, (end, slots[-1]))
    return slots, size


# ---- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TableShape:
    """Makes tables of one shape."""

    ticks: int
    stages: int

    def table(
        self, tick: Ints, stage: Ints, value: Ints, where: NDArray[np.bool_] | None = None
    ) -> Table:
        """A table with `value` at `[tick, stage]` for the entries in `where`; all of one shape."""
        chosen = np.ones(tick.shape, bool) if where is None else where
        table = np.full((self.ticks, self.stages), -1, np.int32)
        table[tick[chosen], stage[chosen]] = value[chosen]
        return read_only(table)

    def column(self, tick: Ints, value: Ints) -> Table:
        """A column with `value` at `[tick]`."""
        column = np.full(self.ticks, -1, np.int32)
        column[tick] = value
        return read_only(column)


def _entry_mask(shape: tuple[int, ...], *index: int) -> NDArray[np.bool_]:
    """True for the entry `index` of every microbatch."""
    mask = np.zeros(shape, bool)
    entry: tuple[int | slice, ...] = (slice(None), *index)
    mask[entry] = True
    return mask


def _positions_along(shape: tuple[int, ...], axis: int) -> Ints:
    """Position along `axis` of every entry."""
    return np.indices(shape)[axis]


def _lower_decoder(
    schedule: Schedule,
    ticks: BackboneTicks,
    remat: Remat,
    encoders: Mapping[str, ModuleTables],
) -> LoweredSchedule:
    blank = _TableShape(len(schedule.ticks), schedule.stages)
    every = np.ones(ticks.forward.shape, bool)
    read = ticks.backward if remat == "full" else ticks.forward
    inputs = _assign_slots(ticks.stage, ticks.inputs_written, read, every)
    saved = _assign_slots(ticks.stage, ticks.forward, ticks.backward, every & (remat != "full"))
    gradients = _assign_slots(ticks.stage, ticks.gradients_written, ticks.backward, every)
    weights, operands = _weights(blank, ticks)
    return LoweredSchedule(
        schedule=schedule,
        remat=remat,
        forward=_forward_table(blank, ticks, inputs, saved),
        backward=_backward_table(blank, ticks, inputs, saved, gradients, remat),
        weights=weights,
        sizes=BufferSizes(inputs.size, saved.size, gradients.size, operands),
        encoders=encoders,
        **_decoder_moves(blank, ticks, inputs.slot, gradients.slot),
    )


def _forward_table(
    blank: _TableShape, ticks: BackboneTicks, inputs: _BufferSlots, saved: _BufferSlots
) -> ForwardTable:
    place = partial(blank.table, ticks.forward, ticks.stage)
    microbatch, chunk = (_positions_along(ticks.forward.shape, axis) for axis in (0, 1))
    slots = place(inputs.slot), place(saved.slot)
    return ForwardTable(place(microbatch), place(chunk), None, *slots, None)


def _backward_table(
    blank: _TableShape,
    ticks: BackboneTicks,
    inputs: _BufferSlots,
    saved: _BufferSlots,
    gradients: _BufferSlots,
    remat: Remat,
) -> BackwardTable:
    place = partial(blank.table, ticks.backward, ticks.stage)
    return BackwardTable(
        place(_positions_along(ticks.backward.shape, 0)),
        place(_positions_along(ticks.backward.shape, 1)),
        None,
        place(np.where(remat == "full", inputs.slot, -1)),
        place(saved.slot),
        place(gradients.slot),
    )


def _weights(blank: _TableShape, ticks: BackboneTicks) -> tuple[WeightsTable | None, int]:
    """The table of weight gradients, and the slots of what backwards keep for them."""
    if ticks.weights is None:
        return None, 0
    every = np.ones(ticks.weights.shape, bool)
    pairs = _assign_slots(ticks.stage, ticks.backward, ticks.weights, every)
    place = partial(blank.table, ticks.weights, ticks.stage)
    microbatch, chunk = (_positions_along(every.shape, axis) for axis in (0, 1))
    written = blank.table(ticks.backward, ticks.stage, pairs.slot)
    return WeightsTable(place(microbatch), place(chunk), place(pairs.slot), written), pairs.size


def _decoder_moves(
    blank: _TableShape, ticks: BackboneTicks, inputs: Ints, gradients: Ints
) -> dict[str, Table]:
    """Values that stages pass on, and values that enter and leave the decoder."""
    shape, numbers = inputs.shape, np.arange(len(inputs))
    entry, leave = ticks.forward[:, 0, 0], ticks.forward[:, -1, -1]
    return {
        "receive_input": blank.table(
            ticks.inputs_written, ticks.stage, inputs, where=~_entry_mask(shape, 0, 0)
        ),
        "receive_gradient": blank.table(
            ticks.gradients_written, ticks.stage, gradients, where=~_entry_mask(shape, -1, -1)
        ),
        "embed_microbatch": blank.column(entry, numbers),
        "embed_input": blank.column(entry, inputs[:, 0, 0]),
        "head_microbatch": blank.column(leave, numbers),
        "head_gradient": blank.column(leave, gradients[:, -1, -1]),
        "return_microbatch": blank.column(ticks.backward[:, 0, 0], numbers),
    }


@dataclass(frozen=True)
class _SourceSlots:
    """Slots of one encoder's values, `[microbatches, chunks]`.

    Output and output-gradient buffers hold one value per microbatch: the column of the last chunk,
    -1 elsewhere.
    """

    inputs: _BufferSlots
    saved: _BufferSlots
    gradients: _BufferSlots
    output_buffer: _BufferSlots
    output_grad_buffer: _BufferSlots

    @classmethod
    def of(
        cls, ticks: SourceTicks, decoder: BackboneTicks, remat: Remat, local: Ints
    ) -> _SourceSlots:
        forward, backward, trained = ticks.forward, ticks.backward, ticks.backward >= 0
        last = _entry_mask(forward.shape, -1)
        full = remat == "full"
        # The stage sync reads the value, so values of later ticks may take its slot.
        entry = ticks.feed.reduce_consumers(decoder.entry + 1, np.maximum)[:, None] + 0 * forward
        leave = (
            ticks.feed.reduce_consumers(decoder.backward[:, 0, 0], np.minimum)[:, None]
            + 0 * forward
        )
        colour = partial(_assign_slots, ticks.stage)
        return cls(
            inputs=colour(
                np.roll(forward, 1, axis=1),
                np.where(trained & full, backward, forward),
                ~_entry_mask(forward.shape, 0),
            ),
            saved=colour(forward, backward, trained & (not full)),
            output_buffer=_output_slots(ticks, entry, local),
            output_grad_buffer=colour(leave, backward, trained & last),
            gradients=colour(np.roll(backward, -1, axis=1), backward, trained & ~last),
        )

    @property
    def sizes(self) -> BufferSizes:
        """Slots of every buffer."""
        return BufferSizes(**{field.name: getattr(self, field.name).size for field in fields(self)})


def _output_slots(ticks: SourceTicks, entry: Ints, local: Ints) -> _BufferSlots:
    """Slots of outputs that wait from the tick of the last chunk to `entry`.

    Microbatches of the next step are numbered from 0 on their stage, which is their place in their
    pipeline's batch: they are its first.
    """
    prefetched = np.arange(len(local)) < ticks.module.prefetch
    reserved = dict(Counter(ticks.stage[prefetched, -1].tolist()))
    here = _entry_mask(entry.shape, -1) & ~prefetched[:, None]
    slots = _assign_slots(ticks.stage, ticks.forward, entry, here, reserved)
    slots.slot[prefetched, -1] = local[prefetched]
    return slots


def _positions_of_owner(owners: Ints) -> Ints:
    """Position of every microbatch among those with the same owner."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    positions = np.empty_like(owners)
    positions[order] = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions


def _lower_encoder(
    blank: _TableShape, ticks: SourceTicks, decoder: BackboneTicks, remat: Remat
) -> ModuleTables:
    local = _positions_of_owner(ticks.owners)
    slots = _SourceSlots.of(ticks, decoder, remat, local)
    pairs = _merge_table(ticks, decoder, slots, blank.stages)
    return ModuleTables(
        module=ticks.module,
        feed=ticks.feed,
        forward=_encoder_forward(blank, ticks, slots, local),
        backward=_encoder_backward(blank, ticks, slots, local, remat),
        sizes=slots.sizes,
        owners=read_only(ticks.owners),
        local=read_only(local),
        merges=pairs,
        slots=max(local.tolist(), default=-1) + 1,
        prefetch_slot=read_only(local[: ticks.module.prefetch]),
        remat=remat,
        **_chunk_moves(blank, ticks, slots),
        **_merge_ticks(blank, decoder, pairs, ticks.module),
    )


def _merge_table(
    ticks: SourceTicks, decoder: BackboneTicks, slots: _SourceSlots, stages: int
) -> MergeTable:
    """Pairs of encoder and decoder microbatches by stage, in the order in which they enter."""
    entry, leave = decoder.forward[:, 0, 0], decoder.backward[:, 0, 0]
    by_stage: list[list[tuple[int, int]]] = [[] for _ in range(stages)]
    fresh = {}
    for unit, (first, last) in enumerate(ticks.feed.consumer_spans(len(entry)).tolist()):
        fed = range(first, last + 1)
        by_stage[ticks.stage[unit, -1]] += [(m, unit) for m in fed]
        fresh[unit] = min(fed, key=lambda m: leave[m])
    most = max(map(len, by_stage), default=0)
    tables = {field.name: np.full((stages, most), -1) for field in fields(MergeTable)}
    for stage, pairs_of_stage in enumerate(by_stage):
        for i, (m, unit) in enumerate(
            sorted(pairs_of_stage, key=lambda pair: (entry[pair[0]], pair[1]))
        ):
            values = (
                m,
                unit,
                slots.output_buffer.slot[unit, -1],
                slots.output_grad_buffer.slot[unit, -1],
            )
            names = "target", "source", "output_buffer", "output_grad_buffer"
            for name, value in zip(names, values, strict=True):
                tables[name][stage, i] = value
            tables["is_first"][stage, i] = fresh[unit] == m
    return MergeTable(**{name: read_only(table) for name, table in tables.items()})


def _merge_ticks(
    blank: _TableShape, decoder: BackboneTicks, pairs: MergeTable, module: ModuleStages
) -> dict[str, Table]:
    """First pair and number of pairs that enter before a tick, and that leave in one."""
    runs: dict[tuple[int, int], list[int]] = {}
    for stage, row in enumerate(pairs.target.tolist()):
        for number, m in enumerate(row):
            if m >= 0:
                runs.setdefault((m, stage), []).append(number)
    values = [(*place, numbers[0], len(numbers)) for place, numbers in runs.items()]
    microbatch, stages, first, count = np.array(values, np.intp).reshape(-1, 4).T
    entry, leave = decoder.forward[microbatch, 0, 0], decoder.backward[microbatch, 0, 0]
    trained = np.full(len(microbatch), module.trains)
    return {
        "merge_first": blank.table(entry, stages, first),
        "merge_count": blank.table(entry, stages, count),
        "return_first": blank.table(leave, stages, first, trained),
        "return_count": blank.table(leave, stages, count, trained),
    }


def _encoder_forward(
    blank: _TableShape, ticks: SourceTicks, slots: _SourceSlots, local: Ints
) -> ForwardTable:
    place = partial(blank.table, ticks.forward, ticks.stage)
    row, chunk = (_positions_along(ticks.forward.shape, axis) for axis in (0, 1))
    return ForwardTable(
        place(ticks.numbers[row]),
        place(chunk),
        place(local[row]),
        place(slots.inputs.slot),
        place(slots.saved.slot),
        place(slots.output_buffer.slot),
    )


def _encoder_backward(
    blank: _TableShape, ticks: SourceTicks, slots: _SourceSlots, local: Ints, remat: Remat
) -> BackwardTable:
    place = partial(blank.table, ticks.backward, ticks.stage, where=ticks.backward >= 0)
    row, chunk = (_positions_along(ticks.backward.shape, axis) for axis in (0, 1))
    return BackwardTable(
        place(row),
        place(chunk),
        place(local[row]),
        place(np.where(remat == "full", slots.inputs.slot, -1)),
        place(slots.saved.slot),
        # A chunk has one of the two.
        place(np.maximum(slots.output_grad_buffer.slot, slots.gradients.slot)),
    )


def _chunk_moves(blank: _TableShape, ticks: SourceTicks, slots: _SourceSlots) -> dict[str, Table]:
    """Values that pass from chunk to chunk."""
    written = np.roll(ticks.forward, 1, axis=1)
    returned = np.roll(ticks.backward, -1, axis=1)
    from_here = ticks.stage == np.roll(ticks.stage, 1, axis=1)
    to_here = ticks.stage == np.roll(ticks.stage, -1, axis=1)
    inputs, gradients = slots.inputs.slot, slots.gradients.slot
    table, stage = blank.table, ticks.stage
    inner, upper = inputs >= 0, gradients >= 0
    return {
        "keep_input": table(written, stage, inputs, where=inner & from_here),
        "receive_input": table(written, stage, inputs, where=inner & ~from_here),
        "keep_gradient": table(returned, stage, gradients, where=upper & to_here),
        "receive_gradient": table(returned, stage, gradients, where=upper & ~to_here),
    }
