"""What the training loop tells, as it happens, to whoever listens.

For every step, in this order; `ahead` is how many steps may run while a later one is dispatched::

    Reading n -> Read n -> Placed n -> Done n - ahead -> Dispatched n -> Taken n
      then, where it is due:  Saving n -> Saved n,  Evaluating n -> Evaluated n

An event that ends something has its `seconds`, in which this process did nothing else. Listeners
are called by the loop itself, in the order of their list, and should return soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

from data.loading.loader import Step


@dataclass(frozen=True)
class Event:
    """Something that happens in the loop.

    Attributes:
        step: number of the step that it belongs to, from 1.
    """

    step: int


@dataclass(frozen=True)
class Timed(Event):
    """Something that is over.

    Attributes:
        seconds: that this process has spent on it.
    """

    seconds: float


class Reading(Event):
    """The loop begins to wait for the batch of the step."""


@dataclass(frozen=True)
class Read(Timed):
    """The loader has given the batch of the step.

    Attributes:
        microbatches: of the step, with the rows of this process.
    """

    microbatches: Sequence[Step]


class Placed(Timed):
    """The host has made arrays of the batch and has begun to copy them to its devices."""


class Done(Timed):
    """The devices have taken the step; `seconds` is how long the host waited for that."""


class Dispatched(Timed):
    """The step is given to the devices; a step of a new shape has been compiled in that time."""


@dataclass(frozen=True)
class Taken(Timed):
    """The loop is through with dispatching the step; the devices may be working on it.

    Attributes:
        seconds: since the step before was taken, evaluations left out.
        microbatches: of the step, with the rows of this process.
        scalars: the step's results: `loss`, `grad_norm`, `targets`; they may be on the devices.
        learning_rate: of the step.
        skipped: samples refused so far in the run.
    """

    microbatches: Sequence[Step]
    scalars: Mapping[str, SupportsFloat]
    learning_rate: float
    skipped: int = 0

    @property
    def loss(self) -> SupportsFloat:
        """Mean loss of the step's target tokens; whoever takes its value waits for the step."""
        return self.scalars["loss"]

    @property
    def gradient_norm(self) -> SupportsFloat:
        """Global norm before clipping; whoever takes its value waits for the step."""
        return self.scalars["grad_norm"]


class Saving(Event):
    """A checkpoint of the state after the step is about to be saved, and the run's progress."""


class Saved(Timed):
    """The state is copied, files are written behind; of the last save, they are on disk."""


class Evaluating(Event):
    """The state after the step is about to be evaluated."""


@dataclass(frozen=True)
class Evaluated(Timed):
    """Held-out samples have been evaluated.

    Attributes:
        result: as of `Evaluator`.
    """

    result: Mapping[str, Any]


Listener = Callable[[Event], None]


def nobody(event: Event) -> None:
    """Listens to nothing."""
    del event


class Stopwatch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """What has passed, but for what is left out."""
        return time.perf_counter() - self._began

    def leave_out(self, seconds: float) -> None:
        """Do not count as many of those that have passed."""
        self._began += seconds
