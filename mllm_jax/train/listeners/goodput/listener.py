"""The listener that keeps the ledger, records it, and sums up the goodput of the run."""

from __future__ import annotations

import logging
from typing import Any

from mllm_jax.runtime.devices import is_primary
from mllm_jax.supervise.attempts import compute_goodput, goodput_line, read_attempts
from mllm_jax.train.events import Event, Phase, StepStarted
from mllm_jax.train.listeners.goodput.ledger import COMPILED, HIT, MISS, count_programs
from mllm_jax.train.listeners.goodput.record import TimeRecord
from mllm_jax.train.state.progress import Progress

logger = logging.getLogger(__name__)

#: Seconds between two records, but for those after a save and before an evaluation.
EVERY = 5.0
#: What the time of a phase goes into, where that is not the step.
_KINDS = {
    "read": "wait",
    "copy": "save",
    "save": "save",
    "evaluate": "evaluate",
    "check": "check",
}


class GoodputListener:
    """Records the time of this process by kind: every event ends an interval.

    Args:
        record: record of this attempt.
        progress: progress of the run, whose `effective` is updated.
    """

    def __init__(self, record: TimeRecord, progress: Progress) -> None:
        self._record, self._ledger, self._progress = record, record.ledger, progress
        self._effective_before, self._has_started = progress.effective, False
        self._programs = count_programs()
        self._compiled = self._programs[COMPILED]

    def __call__(self, event: Event) -> None:
        """Note the time since the last event."""
        self._ledger.note_time(self._kind_before(event), self._kind_after(event))
        effective = self._effective_before + self._ledger.seconds["step"]
        self._progress.effective = self._record.effective = effective
        match event:
            case Phase("wait") if event.is_over and not self._record.trained:
                self._record.trained = True
                if is_primary():
                    logger.info("%s", self._describe_start())
        if self._record.age_seconds > EVERY or _is_recorded(event):
            self._record.write_record()

    def make_summary(self) -> dict[str, Any] | None:
        """The goodput of the run, on process 0; None if it is unknown."""
        if not is_primary():
            return None
        self._record.write_record()
        try:
            attempts = read_attempts(self._record.folder)
        except OSError as error:  # which must not end a run that is done
            logger.warning("the goodput of the run is not known: %s", error)
            return None
        for damage in attempts.damage.values():
            logger.warning("%s", damage)
        if not attempts.times_spent:
            return None
        damaged, effective = [*attempts.damage], self._progress.effective
        summary = compute_goodput(attempts.times_spent, attempts.watched, effective, damaged)
        logger.info("%s", goodput_line(summary))
        return summary

    def _kind_before(self, event: Event) -> str:
        """The kind of the time before the event."""
        match event:
            case StepStarted() if not self._has_started:
                self._has_started = True
                return "data"
            case StepStarted() if self._ledger.shared:
                return "elsewhere"
            case Phase(name) if event.is_over and name in _KINDS:
                return _KINDS[name]
            case Phase("dispatch") if event.is_over:
                before, self._compiled = self._compiled, self._programs[COMPILED]
                return "compile" if self._compiled > before else "step"
        return "step"

    def _kind_after(self, event: Event) -> str:
        """The kind of the time after the event, as far as it is known before the time ends."""
        match event:
            case Phase("copy" | "save", seconds=None):
                return "save"
            case Phase("evaluate", seconds=None):
                return "evaluate"
        return "step" if self._record.trained else "compile"

    def _describe_start(self) -> str:
        """`the first step ends 9.8 s after the start: start 3.1, ...; 30 of 31 programs ...`"""
        total = sum(self._ledger.seconds.values())
        seconds = self._ledger.seconds.items()
        phases = ", ".join(f"{kind} {value:.1f}" for kind, value in seconds)
        hits, misses = self._programs[HIT], self._programs[MISS]
        return (
            f"the first step ends {total:.1f} s after the start: {phases}; {hits} of "
            f"{hits + misses} programs were compiled already (run.compilation_cache)"
        )


def _is_recorded(event: Event) -> bool:
    """Whether the record is written at once: after a save, and before an evaluation."""
    match event:
        case Phase("save"):
            return event.is_over
        case Phase("evaluate"):
            return not event.is_over
    return False
