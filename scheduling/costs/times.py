"""Seconds of the tasks of a step on one kind of hardware.

A task is a run of segments: compute, then a collective of the tensor group that needs its result
and that the next segment waits for. Beside other tasks a device computes while a collective is
under way; alone it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from scheduling.schedules.costs import EncoderCosts, TaskCosts, named_cost
from scheduling.schedules.task_kinds import EB, EF, TaskKind
from scheduling.schedules.tasks import Task


@dataclass(frozen=True)
class Segment:
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

    segments: tuple[Segment, ...] = ()

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
        """Seconds of the task with nothing beside it."""
        return self.compute + self.collective


@dataclass(frozen=True)
class StepTimes:
    """Times of all that a pipelined step does; a `Costs` for `scheduling.simulate.timeline`.

    Attributes:
        forward, backward: times of one virtual chunk of the decoder on one microbatch, the backward
            with its recomputation.
        encoders: `(kind, module, part)` of an encoder's piece to its time.
        head: time of head, loss and embedding of one microbatch, on every stage at the same time.
        send: seconds of moving activations and gradients between stages at a stage sync.
        deliver: seconds of handing a microbatch's inputs to the first stage, in the same stage
            sync.
        gather, scatter: seconds of the collectives over data-parallel ranks at the step's ends.
        update: seconds of the optimizer.
        more: times of further kinds of tasks of the decoder, by the names of their costs: of one
            chunk on one microbatch.
    """

    forward: TaskTime
    backward: TaskTime
    encoders: Mapping[tuple[TaskKind, str, int], TaskTime]
    head: TaskTime
    send: float = 0.0
    deliver: float = 0.0
    gather: float = 0.0
    scatter: float = 0.0
    update: float = 0.0
    more: Mapping[str, TaskTime] = field(default_factory=dict)

    def time(self, task: Task) -> TaskTime:
        """The time of `task`.

        Raises:
            KeyError: for a task of an encoder that is not in `encoders`.
            ScheduleError: for a task of the decoder of a kind whose time is not given.
        """
        kind = task.kind
        if kind.encoder:
            return self.encoders[kind, task.module, task.part]
        return named_cost(self._by_name, kind)

    @cached_property
    def _by_name(self) -> dict[str, TaskTime]:
        return {"forward": self.forward, "backward": self.backward, **self.more}

    def cost_of(self, task: Task) -> float:
        """Seconds of `task` with nothing beside it."""
        return self.time(task).seconds

    @property
    def shared(self) -> float:
        """Seconds of the head phase."""
        return self.head.seconds

    @property
    def costs(self) -> TaskCosts:
        """Costs by which encoders are placed: seconds of tasks with nothing beside them."""
        modules = {module for _, module, _ in self.encoders}
        return TaskCosts(
            self.forward.seconds,
            self.backward.seconds,
            self.shared,
            {module: self._encoder(module) for module in sorted(modules)},
            self.gather,
            self.scatter,
            {name: time.seconds for name, time in self.more.items()},
        )

    def _encoder(self, module: str) -> EncoderCosts:
        def pieces(kind: TaskKind) -> tuple[float, ...]:
            own = [n for k, name, n in self.encoders if k is EF and name == module]
            none = TaskTime()
            return tuple(
                self.encoders.get((kind, module, piece), none).seconds for piece in sorted(own)
            )

        kinds = {kind for kind, name, _ in self.encoders if name == module}
        more = {kind.cost: pieces(kind) for kind in kinds - {EF, EB}}
        return EncoderCosts(pieces(EF), pieces(EB), more)
