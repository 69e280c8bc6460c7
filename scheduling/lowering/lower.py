"""Schedules lowered to tables.

A value that waits for a later tick lies in a slot of a buffer, on the stage that will read it.
Slots are assigned by the left-edge algorithm (Hashimoto and Stevens, DAC 1971): in the order in
which values are written, each takes the lowest free slot. For intervals that is optimal: a buffer
has as many slots as values are alive at once, so its size does not grow with the microbatches.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from scheduling.lowering.lowered import (
    EXECUTABLE_KINDS,
    BackwardTable,
    BufferSizes,
    FeedTables,
    ForwardTable,
    Ints,
    LoweredFeed,
    LoweredModule,
    LoweredSchedule,
    MergeSlots,
    MergeTable,
    ModuleTables,
    Remat,
    SharedEndsTable,
    Table,
    WeightsTable,
    read_only,
)
from scheduling.lowering.ticks import ModuleTicks
from scheduling.schedules.check import check_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import W
from scheduling.schedules.tasks import Feed


def lower_schedule(
    schedule: Schedule, remat: Remat, remats: Mapping[str, Remat] | None = None
) -> LoweredSchedule:
    """Turn a schedule into tables, with a slot for every value that waits.

    Takes a fifth of a second for 16 stages, 8 chunks and 512 microbatches.

    Args:
        schedule: the schedule.
        remat: values that forwards keep for backwards.
        remats: the same of modules that differ in it from the backbone, by name.

    Raises:
        ScheduleError: `schedule` breaks a rule of `check_schedule` or holds a kind of task that the
            executor has no function for, a module has shared ends that may have none, or a
            `remat` is unknown.
    """
    remats = remats or {}
    for policy in (remat, *remats.values()):
        if policy not in get_args(Remat):
            valid = ", ".join(get_args(Remat))
            raise ScheduleError(f"remat: {policy!r} is unknown; valid: {valid}")
    check_schedule(schedule)
    _refuse_without_tables(schedule)
    _refuse_other_ends(schedule)
    _refuse_other_feeds(schedule)
    ticks = {module.name: ModuleTicks.of_module(schedule, module) for module in schedule.modules}
    shape = _TableShape(len(schedule.ticks), schedule.stages)
    slots = {
        name: _ModuleSlots.of_module(
            stages, _fed_ticks(schedule.feeds_of(name), ticks), remats.get(name, remat)
        )
        for name, stages in ticks.items()
    }
    modules = {
        name: _lower_module(shape, stages, slots[name], remats.get(name, remat))
        for name, stages in ticks.items()
    }
    feeds = (_lower_feed(shape, feed, ticks, slots[feed.source]) for feed in schedule.feeds)
    return LoweredSchedule(schedule, modules, tuple(feeds))


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


def _refuse_other_feeds(schedule: Schedule) -> None:
    """Raise ScheduleError for feeds that the executor has no function for."""
    shared = [module.name for module in schedule.modules if module.shared_ends]
    for module in schedule.sources:
        targets = [feed.target for feed in schedule.feeds_of(module.name)]
        if len(targets) > 1 or not {*targets} <= {*shared}:
            raise ScheduleError(
                f"the executor merges outputs of a module into one other, whose ends stages share, "
                f"so that feeds of {module.name!r} into {', '.join(targets)} are scheduled and "
                f"simulated only; valid: one feed, into {', '.join(shared)}"
            )


def _refuse_other_ends(schedule: Schedule) -> None:
    """Raise ScheduleError if another module than the backbone has shared ends, or that has none."""
    for module in schedule.modules:
        valid = module is schedule.backbone
        if module.shared_ends != valid:
            raise ScheduleError(
                f"module {module.name!r}: shared_ends {module.shared_ends} is not executed; valid: "
                f"{valid}, as stages share the ends of the backbone and of no other module"
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


@dataclass(frozen=True)
class _FedTicks:
    """For each of a module's microbatches, ticks of those that it feeds, `[microbatches]`.

    Attributes:
        entered: tick in which the last of them no longer needs the output: after the stage sync
            that reads it, so that values of that tick may take its slot.
        left: tick at whose end the first of them returns its input's gradient.
    """

    entered: Ints
    left: Ints


def _fed_ticks(feeds: Sequence[Feed], ticks: Mapping[str, ModuleTicks]) -> _FedTicks | None:
    """The ticks of what a module feeds by the one feed that it has; None without a feed."""
    if not feeds:
        return None
    (feed,) = feeds
    target = ticks[feed.target]
    return _FedTicks(
        feed.reduce_consumers(target.entry + 1, np.maximum),
        feed.reduce_consumers(target.backward[:, 0], np.minimum),
    )


@dataclass(frozen=True)
class _ModuleSlots:
    """Slots of a module's values, `[microbatches, chunks]`.

    Output and output-gradient buffers hold one value per microbatch: the column of the last chunk,
    -1 elsewhere.
    """

    inputs: _BufferSlots
    saved: _BufferSlots
    gradients: _BufferSlots
    operands: _BufferSlots
    output_buffer: _BufferSlots
    output_grad_buffer: _BufferSlots

    @classmethod
    def of_module(cls, ticks: ModuleTicks, fed: _FedTicks | None, remat: Remat) -> _ModuleSlots:
        """The slots of a module that feeds others, or none."""
        forward, backward, trained = ticks.forward, ticks.backward, ticks.backward >= 0
        shared, full = ticks.module.shared_ends, remat == "full"
        inputs_written, gradients_written = _write_ticks(ticks)
        first, last = (_chunk_mask(forward.shape, chunk) for chunk in (0, -1))
        assign = partial(_assign_slots, ticks.stage)
        deferred = backward if ticks.weights is None else ticks.weights
        return cls(
            inputs=assign(
                inputs_written, np.where(trained & full, backward, forward), ~first | shared
            ),
            saved=assign(forward, backward, trained & (not full)),
            gradients=assign(gradients_written, backward, trained & (~last | shared)),
            operands=assign(backward, deferred, trained & (ticks.weights is not None)),
            output_buffer=_output_slots(ticks, fed),
            output_grad_buffer=assign(
                _of_last_chunk(forward, None if fed is None else fed.left),
                backward,
                trained & last & (fed is not None),
            ),
        )

    @property
    def sizes(self) -> BufferSizes:
        """Slots of every buffer."""
        return BufferSizes(**{field.name: getattr(self, field.name).size for field in fields(self)})


def _write_ticks(ticks: ModuleTicks) -> tuple[Ints, Ints]:
    """Ticks at whose end the inputs of chunks and the gradients of their outputs are written."""
    inputs, gradients = np.roll(ticks.forward, 1, axis=1), np.roll(ticks.backward, -1, axis=1)
    if ticks.module.shared_ends:
        inputs[:, 0], gradients[:, -1] = ticks.entry, ticks.forward[:, -1]
    return inputs, gradients


def _output_slots(ticks: ModuleTicks, fed: _FedTicks | None) -> _BufferSlots:
    """Slots of outputs that wait from the tick of the last chunk until they have entered.

    Microbatches of the next step are numbered from 0 on their stage, which is their place in their
    pipeline's batch: they are its first.
    """
    local, last = _positions_of_owner(ticks.owners), _chunk_mask(ticks.forward.shape, -1)
    prefetched = np.arange(len(local)) < ticks.module.prefetch
    reserved = dict(Counter(ticks.stage[prefetched, -1].tolist()))
    waiting = last & ~prefetched[:, None] & (fed is not None)
    read = _of_last_chunk(ticks.forward, None if fed is None else fed.entered)
    slots = _assign_slots(ticks.stage, ticks.forward, read, waiting, reserved)
    slots.slot[prefetched, -1] = local[prefetched]
    return slots


def _of_last_chunk(like: Ints, values: Ints | None) -> Ints:
    """`values` `[microbatches]` for the last chunk, and -1 elsewhere."""
    table = np.full_like(like, -1)
    if values is not None:
        table[:, -1] = values
    return table


def _chunk_mask(shape: tuple[int, ...], chunk: int) -> NDArray[np.bool_]:
    """True for one chunk of every microbatch."""
    mask = np.zeros(shape, bool)
    mask[:, chunk] = True
    return mask


def _positions_of_owner(owners: Ints) -> Ints:
    """Position of every microbatch among those with the same owner."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    positions = np.empty_like(owners)
    positions[order] = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions


# ---- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TableShape:
    """Makes tables of one shape."""

    ticks: int
    stages: int

    def make_table(
        self, tick: Ints, stage: Ints, value: Ints, where: NDArray[np.bool_] | None = None
    ) -> Table:
        """A table with `value` at `[tick, stage]` for the entries in `where`; all of one shape."""
        chosen = np.ones(tick.shape, bool) if where is None else where
        table = np.full((self.ticks, self.stages), -1, np.int32)
        table[tick[chosen], stage[chosen]] = value[chosen]
        return read_only(table)

    def make_column(self, tick: Ints, value: Ints) -> Table:
        """A column with `value` at `[tick]`."""
        column = np.full(self.ticks, -1, np.int32)
        column[tick] = value
        return read_only(column)


def _lower_module(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots, remat: Remat
) -> LoweredModule:
    local = _positions_of_owner(ticks.owners)
    return LoweredModule(
        stages=ticks.module,
        remat=remat,
        sizes=slots.sizes,
        tables=ModuleTables(
            forward=_forward_table(shape, ticks, slots, local),
            backward=_backward_table(shape, ticks, slots, local, remat),
            weights=_weights_table(shape, ticks, slots, local),
            ends=_shared_ends_table(shape, ticks, slots) if ticks.module.shared_ends else None,
            **_chunk_moves(shape, ticks, slots),
        ),
        owners=read_only(ticks.owners),
        local=read_only(local),
        slots=max(local.tolist(), default=-1) + 1,
        prefetch_slot=read_only(local[: ticks.module.prefetch]),
    )


def _forward_table(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots, local: Ints
) -> ForwardTable[Table]:
    place = partial(shape.make_table, ticks.forward, ticks.stage)
    row, chunk = _rows_and_chunks(ticks.forward)
    shared = ticks.module.shared_ends
    return ForwardTable(
        place(ticks.numbers[row]),
        place(chunk),
        None if shared else place(local[row]),
        place(slots.inputs.slot),
        place(slots.saved.slot),
        None if shared else place(slots.output_buffer.slot),
    )


def _backward_table(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots, local: Ints, remat: Remat
) -> BackwardTable[Table]:
    place = partial(shape.make_table, ticks.backward, ticks.stage, where=ticks.backward >= 0)
    row, chunk = _rows_and_chunks(ticks.backward)
    return BackwardTable(
        place(row),
        place(chunk),
        None if ticks.module.shared_ends else place(local[row]),
        place(np.where(remat == "full", slots.inputs.slot, -1)),
        place(slots.saved.slot),
        # A chunk has one of the two.
        place(np.maximum(slots.output_grad_buffer.slot, slots.gradients.slot)),
    )


def _weights_table(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots, local: Ints
) -> WeightsTable[Table] | None:
    """The table of weight gradients; None if they are not split from backwards."""
    if ticks.weights is None:
        return None
    place = partial(shape.make_table, ticks.weights, ticks.stage, where=ticks.weights >= 0)
    row, chunk = _rows_and_chunks(ticks.weights)
    return WeightsTable(
        place(row),
        place(chunk),
        None if ticks.module.shared_ends else place(local[row]),
        place(slots.operands.slot),
        shape.make_table(ticks.backward, ticks.stage, slots.operands.slot, ticks.backward >= 0),
    )


def _rows_and_chunks(like: Ints) -> tuple[Ints, Ints]:
    """Row and chunk of every entry `[microbatches, chunks]`."""
    rows, chunks = np.indices(like.shape)
    return np.asarray(rows), np.asarray(chunks)


def _shared_ends_table(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots
) -> SharedEndsTable[Table]:
    """Values that enter a module and leave it where all stages take part."""
    first, last = ticks.forward[:, 0], ticks.forward[:, -1]
    numbers = np.arange(len(first))
    return SharedEndsTable(
        embed_microbatch=shape.make_column(first, numbers),
        embed_input=shape.make_column(first, slots.inputs.slot[:, 0]),
        head_microbatch=shape.make_column(last, numbers),
        head_gradient=shape.make_column(last, slots.gradients.slot[:, -1]),
        return_microbatch=shape.make_column(ticks.backward[:, 0], numbers),
    )


def _chunk_moves(
    shape: _TableShape, ticks: ModuleTicks, slots: _ModuleSlots
) -> dict[str, Table | None]:
    """Values that pass from chunk to chunk."""
    written, returned = _write_ticks(ticks)
    from_here = ticks.stage == np.roll(ticks.stage, 1, axis=1)
    to_here = ticks.stage == np.roll(ticks.stage, -1, axis=1)
    inputs, gradients = slots.inputs.slot, slots.gradients.slot
    inner = (inputs >= 0) & ~_chunk_mask(inputs.shape, 0)
    upper = (gradients >= 0) & ~_chunk_mask(inputs.shape, -1)
    keeps, sends = ticks.module.keeps_activations, ticks.module.sends_activations
    table, stage = shape.make_table, ticks.stage
    return {
        "keep_input": table(written, stage, inputs, inner & from_here) if keeps else None,
        "receive_input": table(written, stage, inputs, inner & ~from_here) if sends else None,
        "keep_gradient": table(returned, stage, gradients, upper & to_here) if keeps else None,
        "receive_gradient": table(returned, stage, gradients, upper & ~to_here) if sends else None,
    }


# ---- feeds ---------------------------------------------------------------------------------------


def _lower_feed(
    shape: _TableShape, feed: Feed, ticks: Mapping[str, ModuleTicks], slots: _ModuleSlots
) -> LoweredFeed:
    source, target = ticks[feed.source], ticks[feed.target]
    merges = _merge_table(feed, source, target, slots, shape.stages)
    tables = _merge_ticks(shape, target, merges, source.module.trains)
    return LoweredFeed(feed, merges, tables)


def _merge_table(
    feed: Feed, source: ModuleTicks, target: ModuleTicks, slots: _ModuleSlots, stages: int
) -> MergeTable:
    """Pairs of a source and a target microbatch by stage, in the order in which they enter."""
    entry, leave = target.forward[:, 0], target.backward[:, 0]
    sources, targets = feed.microbatch_pairs(len(entry))
    order = np.lexsort((sources, entry[targets], source.stage[sources, -1]))
    sources, targets = sources[order], targets[order]
    # The pair of each source whose target is the first to return a gradient.
    leaving = np.lexsort((targets, leave[targets], sources))
    _, firsts = np.unique(sources[leaving], return_index=True)
    is_first = np.zeros(len(sources), np.intp)
    is_first[leaving[firsts]] = 1
    pairs_of_stage = np.bincount(source.stage[sources, -1], minlength=stages)
    in_table = np.arange(pairs_of_stage.max(initial=0)) < pairs_of_stage[:, None]

    def tabulate(values: Ints) -> Table:
        table = np.full(in_table.shape, -1)
        table[in_table] = values
        return read_only(table)

    slots_of_pairs = MergeSlots(
        output_buffer=tabulate(slots.output_buffer.slot[sources, -1]),
        output_grad_buffer=tabulate(slots.output_grad_buffer.slot[sources, -1]),
        is_first=tabulate(is_first),
    )
    return MergeTable(tabulate(sources), tabulate(targets), slots_of_pairs)


def _merge_ticks(
    shape: _TableShape, target: ModuleTicks, merges: MergeTable, trains: bool
) -> FeedTables[Table]:
    """First pair and number of pairs that enter before a tick, and that leave in one."""
    runs: dict[tuple[int, int], list[int]] = {}
    for stage, row in enumerate(merges.target.tolist()):
        for number, m in enumerate(row):
            if m >= 0:
                runs.setdefault((m, stage), []).append(number)
    values = [(*place, numbers[0], len(numbers)) for place, numbers in runs.items()]
    microbatch, stages, first, count = np.array(values, np.intp).reshape(-1, 4).T
    entry, leave = target.forward[microbatch, 0], target.backward[microbatch, 0]
    trained = np.full(len(microbatch), trains)
    return FeedTables(
        merge_first=shape.make_table(entry, stages, first),
        merge_count=shape.make_table(entry, stages, count),
        return_first=shape.make_table(leave, stages, first, trained),
        return_count=shape.make_table(leave, stages, count, trained),
    )
