"""Events of the training loop, which it sends to listeners.

For every step, in this order; `ahead` is how many steps may run while a later one is dispatched::

    Reading n -> Read n -> Agreed n -> Placed n -> Done n - ahead -> Dispatched n -> Taken n
      before Dispatched, where it is due:  Checked n
      then Agreed n, and where it is due:  Copying n -> Copied n,  Saving n -> Saved n,
                                           Evaluating n -> Evaluated n

Before a step is Taken that is reported, copied, saved or evaluated, or that is the first one of a
process, the loop waits for all that run: ``... -> Dispatched n -> Done n -> Taken n``. An event
that ends something has its `seconds`, in which this process did nothing else. Listeners are called
by the loop itself, in the order of their list, and should return soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

from data.loading.loader import Microbatch


@dataclass(frozen=True)
class Event:
    """An event of the loop.

    Attributes:
        step: number of the step that it belongs to, from 1.
    """

    step: int


@dataclass(frozen=True)
class Timed(Event):
    """The end of something that took time.

    Attributes:
        seconds: seconds that this process has spent on it.
    """

    seconds: float


class Reading(Event):
    """The loop begins to wait for the batch of the step."""


@dataclass(frozen=True)
class Read(Timed):
    """The loader has given the batch of the step.

    Attributes:
        microbatches: microbatches of the step, with the rows of this process.
    """

    microbatches: Sequence[Microbatch]


@dataclass(frozen=True)
class Placed(Timed):
    """The host has made arrays of the batch and has begun to copy them to its devices.

    Attributes:
        units: by encoder, how many independent microbatches the step runs; empty if there are none.
        spilled: see `PlacedSchedule.fallback_reason`.
    """

    units: Mapping[str, int] = field(default_factory=dict)
    spilled: str = ""


class Checked(Timed):
    """Replicas have been compared, and have made the same bits."""


class Done(Timed):
    """The devices have taken the step; `seconds` is how long the host waited for that."""


class Dispatched(Timed):
    """The step is given to the devices; a step of a new shape has been compiled in that time."""


@dataclass(frozen=True)
class Taken(Timed):
    """The loop is through with dispatching the step; the devices may be working on it.

    Attributes:
        seconds: since the step before was taken, evaluations left out.
        microbatches: microbatches of the step, with the rows of this process.
        scalars: the step's results: `loss`, `grad_norm`, `part_norms` by part of the model,
            `learning_rate`, `targets`, `aux`, the auxiliary losses by name, `loads` of experts,
            `[layers, experts]` or None, and `trust_ratios` of LAMB by name, or None; they may be on
            the devices.
        learning_rate: learning rate of the step; whoever takes its value waits for the step.
        skipped: samples refused so far in the run.
    """

    microbatches: Sequence[Microbatch]
    scalars: Mapping[str, Any]
    learning_rate: SupportsFloat
    skipped: int = 0

    @property
    def loss(self) -> SupportsFloat:
        """Loss of the step, see `StepRecord`; whoever takes its value waits for the step."""
        return self.scalars["loss"]

    @property
    def aux(self) -> Mapping[str, SupportsFloat]:
        """Auxiliary losses, see `StepRecord`; whoever takes a value waits for the step."""
        return self.scalars["aux"]

    @property
    def trust_ratios(self) -> Mapping[str, SupportsFloat]:
        """Trust ratios, see `StepRecord`; whoever takes a value waits for the step."""
        return self.scalars["trust_ratios"] or {}

    @property
    def expert_loads(self) -> Any:
        """Loads of experts, see `StepRecord`; whoever takes a value waits for the step."""
        return self.scalars["loads"]

    @property
    def part_norms(self) -> Mapping[str, SupportsFloat]:
        """Norms of the gradients by part of the model; whoever takes a value waits for the step."""
        return self.scalars.get("part_norms", {})

    @property
    def gradient_norm(self) -> SupportsFloat:
        """Global norm before clipping; whoever takes its value waits for the step."""
        return self.scalars["grad_norm"]


class Agreed(Timed):
    """The processes have agreed: before a step on samples that none of them learns from, as one
    could not read them; behind it, where it was time to, on whether to stop.

    `seconds` is how long this process waited for the slowest one.
    """


class Copying(Event):
    """A snapshot of the state after the step is about to be taken into the memory of the hosts."""


class Copied(Timed):
    """The state is copied; what else belongs to the snapshot is done beside training."""


class Saving(Event):
    """A checkpoint of the state after the step is about to be saved, and the run's progress."""


class Saved(Timed):
    """The state is copied, files are written in the background; those of the last save are done."""


class Evaluating(Event):
    """The state after the step is about to be evaluated."""


@dataclass(frozen=True)
class Evaluated(Timed):
    """Held-out samples have been evaluated.

    Attributes:
        result: result as of `Evaluator`.
    """

    result: Mapping[str, Any]


Listener = Callable[[Event], None]


def nobody(event: Event) -> None:
    """A listener that ignores all events."""
    del event


class Stopwatch:
    """Measures time from its creation."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start, without those that are left out."""
        return time.perf_counter() - self._began

    def leave_out(self, seconds: float) -> None:
        """Leave `seconds` out of the measured time."""
        self._began += seconds
