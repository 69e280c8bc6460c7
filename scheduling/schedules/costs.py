"""Costs of the tasks of a pipeline schedule, in one unit that callers choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import TaskKind
from scheduling.schedules.tasks import Task

Cost = TypeVar("Cost")


@dataclass(frozen=True)
class ChunkCosts:
    """Costs of the chunks of one module for one microbatch, in the unit of `TaskCosts`.

    Attributes:
        forward: cost of the forward by chunk.
        backward: cost of the backward by chunk, with recomputation if there is any; 0 where a chunk
            has no backward.
        more: costs of further kinds of tasks, by the names of the costs: by chunk.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    more: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def of_kind(self, kind: TaskKind) -> tuple[float, ...]:
        """Costs of the tasks of a kind, by chunk.

        Raises:
            ScheduleError: for a kind whose cost is not given.
        """
        return named_cost(self._by_name, kind)

    @cached_property
    def _by_name(self) -> dict[str, tuple[float, ...]]:
        return {"forward": self.forward, "backward": self.backward, **self.more}


@dataclass(frozen=True)
class TaskCosts:
    """Costs of the tasks of a pipeline, in seconds or in FLOPs: only ratios matter.

    Attributes:
        forward: cost of one chunk of the backbone on one microbatch, the same for all chunks.
        backward: cost of its backward, with recomputation if there is any.
        shared: cost of head and embedding of one microbatch, on each stage.
        sources: costs of the modules that feed the backbone, by name.
        gather, scatter: time in which devices are free before the backbone's first task, while its
            parameters are gathered, and after its last, while its gradients are scattered.
        more: costs of further kinds of tasks of the backbone, by the names of the costs: of one
            chunk on one microbatch.
    """

    forward: float
    backward: float
    shared: float = 0.0
    sources: Mapping[str, ChunkCosts] = field(default_factory=dict)
    gather: float = 0.0
    scatter: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)

    def cost_of(self, task: Task) -> float:
        """The cost of `task` on its stage, without `shared`.

        A module that is not in `sources` is the backbone.

        Raises:
            ScheduleError: the cost of the task's kind is not given.
        """
        if task.module in self.sources:
            return self.sources[task.module].of_kind(task.kind)[task.chunk]
        return self.of_kind(task.kind)

    def of_kind(self, kind: TaskKind) -> float:
        """The cost of a task of a kind of the backbone.

        Raises:
            ScheduleError: for a kind whose cost is not given.
        """
        return named_cost(self._by_name, kind)

    @cached_property
    def _by_name(self) -> dict[str, float]:
        return {"forward": self.forward, "backward": self.backward, **self.more}

    def divided_by(self, rate: float) -> TaskCosts:
        """All costs over `rate`: seconds, if the costs are FLOPs and the rate FLOP/s."""

        def by_chunk(costs: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(cost / rate for cost in costs)

        sources = {
            name: ChunkCosts(
                by_chunk(costs.forward),
                by_chunk(costs.backward),
                {kind: by_chunk(costs) for kind, costs in costs.more.items()},
            )
            for name, costs in self.sources.items()
        }
        return TaskCosts(
            self.forward / rate,
            self.backward / rate,
            self.shared / rate,
            sources,
            self.gather / rate,
            self.scatter / rate,
            {name: cost / rate for name, cost in self.more.items()},
        )


def named_cost(costs: Mapping[str, Cost], kind: TaskKind) -> Cost:
    """The cost of a kind of task, of `costs` by name.

    Raises:
        ScheduleError: the cost is not given.
    """
    if kind.cost not in costs:
        raise ScheduleError(
            f"tasks of kind {kind} have no cost {kind.cost!r}; costs: {', '.join(costs)}"
        )
    return costs[kind.cost]
