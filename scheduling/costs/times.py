"""Seconds of the tasks of a step on one kind of hardware.

A task is a run of segments: compute, then a collective of the tensor group that needs its result
and that the next segment waits for. Beside other tasks a device computes while a collective is
under way; alone it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.schedules.costs import ChunkCosts, TaskCosts, named_cost
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import Task


@dataclass(frozen=True)
class TaskSegment:
    """Compute, then a collective that waits for it.

    Attributes:
        compute: seconds of the device's compute units.
        collective: seconds of the device's links, thereafter.
    """

    compute: float
    collective: float = 0.0


@dataclass(frozen=True)
class TaskTime:
    """A task as the device runs it.

    Attributes:
        segments: segments of the task in order; a layer has several.
    """

    segments: tuple[TaskSegment, ...] = ()

    @cached_property
    def compute(self) -> float:
        """Seconds of compute."""
        return sum(segment.compute for segment in self.segments)

    @cached_property
    def collective(self) -> float:
        """Seconds of collectives."""
        return sum(segment.collective for segment in self.segments)

    @property
    def seconds(self) -> float:
        """Seconds of the task alone."""
        return self.compute + self.collective


@dataclass(frozen=True)
class StepTimes:
    """Times of all that a pipelined step does; a `TaskSeconds` for `scheduling.simulate.timeline`.

    Attributes:
        forward, backward: times of one chunk of the backbone on one microbatch, the backward
            with its recomputation.
        sources: `(kind, module, chunk)` of a module that feeds the backbone to the task's time.
        head: time of head and loss of one microbatch, on every stage at the same time.
        send: seconds of moving activations and gradients between stages at a stage sync.
        embed: seconds of embedding a microbatch for the first stage, with the outputs of its
            sources, in the same stage sync.
        gather, scatter: seconds of the collectives over data-parallel ranks at the step's ends.
        update: seconds of the optimizer.
        more: times of further kinds of tasks of the backbone, by the names of their costs: of one
            chunk on one microbatch.
    """

    forward: TaskTime
    backward: TaskTime
    sources: Mapping[tuple[TaskKind, str, int], TaskTime]
    head: TaskTime
    send: float = 0.0
    embed: float = 0.0
    gather: float = 0.0
    scatter: float = 0.0
    update: float = 0.0
    more: Mapping[str, TaskTime] = field(default_factory=dict)

    def time_of(self, task: Task) -> TaskTime:
        """The time of `task`; a module that is not in `sources` is the backbone.

        Raises:
            KeyError: for a task of a source of a kind, or of a chunk, whose time is not given.
            ScheduleError: for a task of the backbone of a kind whose time is not given.
        """
        if task.module in self.modules:
            return self.sources[task.kind, task.module, task.chunk]
        return named_cost(self._by_name, task.kind)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules that feed the backbone."""
        return tuple(sorted({module for _, module, _ in self.sources}))

    @cached_property
    def _by_name(self) -> dict[str, TaskTime]:
        return {"forward": self.forward, "backward": self.backward, **self.more}

    def cost_of(self, task: Task) -> float:
        """Seconds of `task` alone."""
        return self.time_of(task).seconds

    @property
    def shared(self) -> float:
        """Seconds of the head phase."""
        return self.head.seconds

    @property
    def costs(self) -> TaskCosts:
        """Costs by which modules are placed: seconds of tasks alone."""
        return TaskCosts(
            self.forward.seconds,
            self.backward.seconds,
            self.shared,
            {module: self._chunk_costs(module) for module in self.modules},
            self.gather,
            self.scatter,
            {name: time.seconds for name, time in self.more.items()},
        )

    def _chunk_costs(self, module: str) -> ChunkCosts:
        def by_chunk(kind: TaskKind) -> tuple[float, ...]:
            chunks = sorted(n for k, name, n in self.sources if k is F and name == module)
            none = TaskTime()
            return tuple(self.sources.get((kind, module, n), none).seconds for n in chunks)

        kinds = {kind for kind, name, _ in self.sources if name == module}
        more = {kind.cost: by_chunk(kind) for kind in kinds - {F, B}}
        return ChunkCosts(by_chunk(F), by_chunk(B), more)
