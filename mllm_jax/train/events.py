"""Events of training, which the trainer sends to listeners.

For every step, in this order; `read` stands for two events, a `Phase` at its start and one at its
end, and `d` is how many steps may run while a later one is dispatched::

    StepStarted n -> read n -> agree n -> place n -> wait n - d -> dispatch n -> StepEnded n
      before dispatch, where it is due:  check n
      then agree n, and where it is due:  copy n,  save n,  evaluate n

Before the end of a step that is reported, copied, saved or evaluated, or that is the first one of a
process, the trainer waits for all that run: ``... -> dispatch n -> wait n -> StepEnded n``. While a
phase lasts this process does nothing else. Listeners are called by the trainer itself, in the order
of their list, and should return soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsFloat

from data.loading.loader import Microbatch

#: Names of phases, as profiles show them.
PhaseName = Literal[
    "read", "agree", "place", "wait", "check", "dispatch", "copy", "save", "evaluate"
]


@dataclass(frozen=True)
class StepStarted:
    """A step is about to be taken.

    Attributes:
        step: number of the step, from 1.
    """

    step: int


@dataclass(frozen=True)
class Phase:
    """The start or the end of a phase of training.

    | phase | work | result |
    |---|---|---|
    | read | the batch of the step is waited for | its microbatches, with the rows of this process |
    | agree | the slowest process is waited for: before a step for what no process can learn from,
      after it, where it is time to, for whether to stop | |
    | place | the batch becomes arrays, and their copies to the devices begin | `PlacedBatch` |
    | wait | the devices finish the step | |
    | check | replicas are compared | |
    | dispatch | the step is handed to the devices; a step of a new shape is compiled | |
    | copy | a snapshot of the state after the step is copied into the memory of the hosts | |
    | save | the last save is waited for, and the state is copied, as files are written later | |
    | evaluate | held-out samples are evaluated | as of `LossEvaluator` |

    Attributes:
        name: name of the phase.
        step: number of the step that it belongs to.
        seconds: seconds that this process has spent on it; None at its start.
        result: what it has given, at its end.
    """

    name: PhaseName
    step: int
    seconds: float | None = None
    result: Any = None

    @property
    def is_over(self) -> bool:
        """Whether this is the end of the phase."""
        return self.seconds is not None


@dataclass(frozen=True)
class StepEnded:
    """A step is dispatched, and the next one may begin; the devices may still be working on it.

    Attributes:
        step: number of the step.
        seconds: seconds since the end of the step before, evaluations left out.
        microbatches: microbatches of the step, with the rows of this process.
        results: results of the step: `loss`, `grad_norm`, `part_norms` by part of the model,
            `learning_rate`, `targets`, `aux`, the auxiliary losses by name, `loads` of experts,
            `[layers, experts]` or None, and `trust_ratios` of LAMB by name, or None; they may be on
            the devices, so that whoever takes the value of one waits for the step.
        learning_rate: learning rate of the step, likewise.
        skipped: samples refused so far in the run.
    """

    step: int
    seconds: float
    microbatches: Sequence[Microbatch]
    results: Mapping[str, Any]
    learning_rate: SupportsFloat
    skipped: int = 0

    @property
    def loss(self) -> SupportsFloat:
        """Loss of the step, see `StepRecord`."""
        return self.results["loss"]

    @property
    def targets(self) -> SupportsFloat:
        """Number of target tokens."""
        return self.results["targets"]

    @property
    def aux(self) -> Mapping[str, SupportsFloat]:
        """Auxiliary losses, see `StepRecord`."""
        return self.results["aux"]

    @property
    def trust_ratios(self) -> Mapping[str, SupportsFloat]:
        """Trust ratios, see `StepRecord`."""
        return self.results["trust_ratios"] or {}

    @property
    def expert_loads(self) -> Any:
        """Loads of experts, see `StepRecord`."""
        return self.results["loads"]

    @property
    def part_norms(self) -> Mapping[str, SupportsFloat]:
        """Norms of the gradients by part of the model."""
        return self.results.get("part_norms", {})

    @property
    def gradient_norm(self) -> SupportsFloat:
        """Global norm before clipping."""
        return self.results["grad_norm"]


Event = StepStarted | Phase | StepEnded
Listener = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Listen to no event."""
    del event


class StepStopwatch:
    """Measures time from its creation."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start, without those that are left out."""
        return time.perf_counter() - self._start

    def leave_out(self, seconds: float) -> None:
        """Leave `seconds` out of the measured time."""
        self._start += seconds
