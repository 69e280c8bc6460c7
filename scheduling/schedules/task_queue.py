"""Tasks that wait to be placed into a schedule, the rules by which they are, and placed tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np

from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.task_kinds import TaskKind
from scheduling.schedules.tasks import Feed, ModuleStages, Task

#: Differences below this share of a chunk are rounding errors.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class PlacementRules:
    """Where the tasks of a queue may be placed.

    Attributes:
        slots: whether chunks may use idle slots in the backbone's ticks.
        rounds: where rounds run: `overlapped` in the ticks of backbone tasks, in `separate` ticks
            between them, or after all of them, at the `end`.
        max_waiting: most microbatches that may be ready and not begun: of the backbone in
            `of_placement`, of the module in a placement. With 0 all chunks run as soon as they are
            ready.
        eager: whether a stage runs its chunks regardless of the other stages.
        stretch: whether idle slots may be shorter than a chunk.
        ends: whether to use the time of gathering parameters and scattering gradients.
        thorough: whether to try all placements, and not the most promising one alone.
        in_turn: whether microbatches are assigned to the encoder pipelines in turn.
    """

    slots: bool
    rounds: Literal["overlapped", "separate", "end"]
    max_waiting: float
    eager: bool = False
    stretch: bool = True
    ends: bool = False
    thorough: bool = True
    in_turn: bool = False

    @classmethod
    def of_placement(
        cls, placement: str, fill: Collection[str], max_waiting: int | None, stages: int
    ) -> PlacementRules:
        if placement == "first_stage":
            return cls(slots=False, rounds="overlapped", max_waiting=1, eager=True)
        if placement == "prologue":
            return cls(slots=False, rounds="end", max_waiting=inf, ends="data" in fill)
        rounds: Literal["overlapped", "separate"] = "overlapped" if "tensor" in fill else "separate"
        waiting = 2 * stages if max_waiting is None else max_waiting
        return cls("pipeline" in fill, rounds, waiting, ends="data" in fill)


@dataclass(frozen=True)
class TaskQueue:
    """The tasks of one kind of one encoder, in the order in which they are placed.

    Attributes:
        module, feed: how the module's work is divided, and what its microbatches feed.
        kind: kind of the tasks.
        chunks: chunks of a microbatch, in the order of placement.
        costs, stages: cost and encoder stage of each of `chunks`.
        reverse: whether placement goes from the last tick to the first.
        prefetch: whether the tasks are for the next step.
    """

    module: ModuleStages
    feed: Feed
    kind: TaskKind
    chunks: tuple[int, ...]
    costs: tuple[float, ...]
    stages: tuple[int, ...]
    reverse: bool
    prefetch: bool

    @classmethod
    def of_module(
        cls,
        module: ModuleStages,
        feed: Feed,
        kind: TaskKind,
        costs: TaskCosts,
        prefetch: bool = False,
    ) -> TaskQueue:
        order = module.chunks_with(kind)
        chunks = tuple(order if prefetch else reversed(order))
        return cls(
            module,
            feed,
            kind,
            chunks,
            tuple(costs.cost_of(Task(kind, module.name, 0, chunk)) for chunk in chunks),
            tuple(module.stage_of(chunk) for chunk in chunks),
            reverse=kind.forward and not prefetch,
            prefetch=prefetch,
        )

    @property
    def moves_between_stages(self) -> bool:
        """Whether chunks move between stages."""
        return self.module.stages > 1

    @cached_property
    def chunks_by_stage(self) -> dict[int, int]:
        """Number of chunks of a microbatch by encoder stage, in the order of placement."""
        return {place: self.stages.count(place) for place in dict.fromkeys(self.stages)}

    def mean_costs(self, stages: int) -> np.ndarray:
        """`[stages]`: mean cost of the chunks of a backbone stage, infinite if it runs none."""
        mean = np.full(self.module.stages, inf)
        for place in self.chunks_by_stage:
            mean[place] = np.mean(self.costs, where=np.array(self.stages) == place)
        return np.tile(mean, stages // self.module.stages)

    def round_share(self, stages: int) -> float:
        """Share of a round that one chunk is: 1 / number of backbone stages that run chunks."""
        return self.module.stages / (len(self.chunks_by_stage) * stages)


@dataclass(frozen=True, eq=False)
class PlacedTasks:
    """Tasks of a queue in a table.

    Attributes:
        queue: the queue of the tasks.
        positions: `[tasks, 2]`: tick and stage of each task.
        tasks: `[tasks, 2]`: microbatch and chunk of each task.
    """

    queue: TaskQueue
    positions: np.ndarray
    tasks: np.ndarray

    @property
    def task_costs(self) -> np.ndarray:
        """`[tasks]`: cost of each task."""
        cost = dict(zip(self.queue.chunks, self.queue.costs, strict=True))
        return np.array([cost[chunk] for chunk in self.tasks[:, 1].tolist()])

    def with_ticks(self, ticks: np.ndarray) -> PlacedTasks:
        """A copy in a table in which tick i has become `ticks[i]`."""
        tick, stage = self.positions.T
        return replace(self, positions=np.stack([ticks[tick], stage], axis=1))
