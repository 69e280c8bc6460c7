"""Instructions: a lowered schedule as arguments of a compiled step, and the view of a tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np

from scheduling.lowering.lowered import (
    Entry,
    FeedTables,
    LoweredFeed,
    LoweredSchedule,
    MergeSlots,
    ModuleTables,
    Table,
)
from scheduling.lowering.trees import Path, map_leaves


@dataclass(frozen=True)
class InstructionTable:
    """A lowered schedule as arguments of a compiled step, int32.

    After the row of the first microbatch that enters the backbone comes a row for every tick, and
    room for more.

    Attributes:
        by_stage: rows of each stage, `[stages, 1 + ticks, entries]`.
        joint: rows that all stages share, `[1 + ticks, entries]`.
        phases: the ticks at which phases start, and the number of ticks, `[4]`.
        merges: slots of the pairs of every feed, with room for more, `[stages, pairs]`.
    """

    by_stage: Table
    joint: Table
    phases: Table
    merges: tuple[MergeSlots[Table], ...]


@dataclass(frozen=True)
class TickRow(Generic[Entry]):
    """What an `InstructionTable` says of a tick, or of several.

    Attributes:
        modules: entries of the modules' tables, by name.
        feeds: entries of the feeds' tables, in the schedule's order.
        runs: by kind of fused task, whether it runs (0 or 1).
        tick: number of the tick.
        syncs: whether the stages meet at its end (0 or 1).
    """

    modules: Mapping[str, ModuleTables[Entry]]
    feeds: tuple[FeedTables[Entry], ...]
    runs: Mapping[str, Entry]
    tick: Entry
    syncs: Entry


#: Tables of what enters the backbone, which stand in the rows of the stage syncs before.
ENTRY_TABLES = ("merge_first", "merge_count", "embed_microbatch", "embed_input")


def pad_slots(feed: LoweredFeed, pairs: int) -> MergeSlots[Table]:
    """The slots of a feed's pairs, with room for `pairs` pairs on a stage."""
    more = ((0, 0), (0, pairs - feed.merges.count))

    def pad_table(path: Path, rows: Table) -> Table:
        del path
        return np.pad(rows, more, constant_values=-1)

    slots: MergeSlots[Table] = map_leaves(pad_table, feed.merges.slots)
    return slots


def move_to_syncs(table: Table, program: LoweredSchedule) -> Table:
    """Entries of microbatches that enter the backbone, in the rows of the stage syncs before."""
    last = program.schedule.last_sync
    ends = program.backbone.tables.ends
    assert ends is not None  # as of every backbone that is lowered
    entries = np.flatnonzero((ends.embed_microbatch >= 0) & (last >= 0))
    moved = np.full_like(table, -1)
    moved[last[entries]] = table[entries]
    return moved
