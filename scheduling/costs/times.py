"""What the tasks of a step take on one kind of hardware, in seconds.

A task is a run of segments: compute, then a collective of the tensor group that needs its result
and that the next segment waits for. Beside other tasks a device computes while a collective is
under way; alone it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduling.schedules.costs import EncoderCosts, TaskCosts
from scheduling.schedules.schedule import Kind, Task


@dataclass(frozen=True)
class Segment:
    """Compute, then a collective that waits for it.

    Attributes:
        compute: seconds of the device's compute units.
        collective: seconds of its links, thereafter.
    """

    compute: float
    collective: float = 0.0


@dataclass(frozen=True)
class TaskTime:
    """A task as the device runs it.

    Attributes:
        segments: one after the other; a layer has several.
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
        forward, backward: of one virtual chunk of the decoder on one microbatch, the backward with
            its recomputation.
        encoders: `(kind, module, part)` of an encoder's piece to its time, kind `EF` or `EB`.
        head: head, loss and embedding of one microbatch, on every stage at the same time.
        send: moving activations and gradients between stages at a meeting.
        deliver: handing the inputs of a microbatch to the first stage, in the same meeting.
        gather, scatter: collectives over data-parallel ranks at the step's start and end.
        update: the optimizer.
    """

    forward: TaskTime
    backward: TaskTime
    encoders: Mapping[tuple[Kind, str, int], TaskTime]
    head: TaskTime
    send: float = 0.0
    deliver: float = 0.0
    gather: float = 0.0
    scatter: float = 0.0
    update: float = 0.0

    def time(self, task: Task) -> TaskTime:
        """The time of `task`."""
        if task.kind == "F":
            return self.forward
        if task.kind == "B":
            return self.backward
        return self.encoders[task.kind, task.module, task.part]

    def of(self, task: Task) -> float:
        """Seconds of `task` with nothing beside it."""
        return self.time(task).seconds

    @property
    def shared(self) -> float:
        """Seconds of the head phase."""
        return self.head.seconds

    @property
    def costs(self) -> TaskCosts:
        """What places encoders: seconds of tasks with nothing beside them."""
        modules = {module for _, module, _ in self.encoders}
        return TaskCosts(
            self.forward.seconds,
            self.backward.seconds,
            self.shared,
            {module: self._encoder(module) for module in sorted(modules)},
            self.gather,
            self.scatter,
        )

    def _encoder(self, module: str) -> EncoderCosts:
        def pieces(kind: Kind) -> tuple[float, ...]:
            own = [n for k, name, n in self.encoders if (k, name) == ("EF", module)]
            none = TaskTime()
            return tuple(
                self.encoders.get((kind, module, piece), none).seconds for piece in sorted(own)
            )

        return EncoderCosts(pieces("EF"), pieces("EB"))
