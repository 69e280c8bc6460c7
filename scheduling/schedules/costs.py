"""What the tasks of a pipeline schedule cost, in one unit that who makes the costs chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.schedules.schedule import Task


@dataclass(frozen=True)
class EncoderCosts:
    """What the pieces of one encoder cost for one microbatch, in the unit of `TaskCosts`.

    Attributes:
        forward: by piece.
        backward: by piece, with recomputation if there is any; 0 where a piece has no backward.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]


@dataclass(frozen=True)
class TaskCosts:
    """What the tasks of a pipeline cost, in seconds or in FLOPs: only ratios matter.

    Attributes:
        forward: one chunk of the decoder on one microbatch.
        backward: likewise, with recomputation if there is any.
        shared: head and embedding of one microbatch, on each stage.
        encoders: by name.
        gather, scatter: before the decoder's first task, while its parameters are gathered, and
            after its last, while its gradients are scattered: devices are free that long.
    """

    forward: float
    backward: float
    shared: float = 0.0
    encoders: Mapping[str, EncoderCosts] = field(default_factory=dict)
    gather: float = 0.0
    scatter: float = 0.0

    def of(self, task: Task) -> float:
        """What `task` costs on its stage, without `shared`.

        Raises:
            KeyError: for a task of an encoder that is not in `encoders`.
        """
        if task.kind in ("F", "B"):
            return self.forward if task.kind == "F" else self.backward
        encoder = self.encoders[task.module]
        return (encoder.forward if task.kind == "EF" else encoder.backward)[task.part]
