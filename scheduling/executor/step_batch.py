"""The batch of a step on the devices, in which the executor finds its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import jax

from scheduling.lowering.instructions import InstructionTable, TickRow
from scheduling.lowering.lowered import (
    BackwardTable,
    FeedTables,
    ForwardTable,
    MergeSlots,
    ModuleTables,
    SharedEndsTable,
    WeightsTable,
)
from sharding.exchange import RouteArrays

RowsT = TypeVar("RowsT")

#: Instructions of a step, and what the executor reads of them in a tick.
INSTRUCTIONS = (
    InstructionTable,
    TickRow,
    ModuleTables,
    ForwardTable,
    BackwardTable,
    WeightsTable,
    SharedEndsTable,
    FeedTables,
    MergeSlots,
)
for kind in INSTRUCTIONS:
    jax.tree_util.register_dataclass(kind)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepBatch(Generic[RowsT]):
    """The arrays of a step; also their shapes, or their shardings.

    Attributes:
        rows: rows of each module by name, `[microbatches, rows, ...]`. In a pipeline those of
            modules that feed the backbone are `[pipelines * slots, rows, ...]`, microbatch by
            microbatch on the stage that runs it.
        routes: by name, of every pair of a module's microbatch and one of the backbone's that it
            feeds, `[pairs, ...]`; nothing where media are in the rows of their samples.
        carried: outputs that the step before has computed for this one, by module that is
            prefetched, `[slots, rows, outputs / shards, width]`.
        schedule: what runs in which tick, `[stages, ...]`; None without stages.
        encoded: outputs of modules that other devices have encoded for a forward pass of the
            backbone, which has no rows of them, `[microbatches, rows, outputs / shards, width]`.
    """

    rows: Mapping[str, RowsT]
    routes: Mapping[str, RouteArrays] = field(default_factory=dict)
    carried: Mapping[str, Any] = field(default_factory=dict)
    schedule: InstructionTable | None = None
    encoded: Mapping[str, Any] = field(default_factory=dict)

    def with_carried(self, carried: Mapping[str, Any]) -> StepBatch[RowsT]:
        """The batch with outputs of the step before."""
        return replace(self, carried=dict(carried))

    def with_schedule(self, schedule: InstructionTable | None) -> StepBatch[RowsT]:
        """The batch of a step that runs another schedule."""
        return replace(self, schedule=schedule)
