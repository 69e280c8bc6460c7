"""The listener that keeps the ledger, records it, and sums up the goodput of the run."""

from __future__ import annotations

import logging
from typing import Any

from mllm_jax.runtime.devices import is_primary
from mllm_jax.supervise.attempts import goodput, read, told
from mllm_jax.train.events import (
    Checked,
    Copied,
    Copying,
    Dispatched,
    Done,
    Evaluated,
    Evaluating,
    Event,
    Read,
    Reading,
    Saved,
    Saving,
)
from mllm_jax.train.listeners.goodput.ledger import COMPILED, HIT, MISS, programs
from mllm_jax.train.listeners.goodput.record import Record
from mllm_jax.train.state.progress import Progress

logger = logging.getLogger(__name__)

#: Seconds between two records, but for those behind a save and before an evaluation.
EVERY = 5.0


class Goodput:
    """Listens: every event ends a piece of time.

    Args:
        record: record of this attempt.
        progress: progress of the run, whose `effective` is updated.
    """

    def __init__(self, record: Record, progress: Progress) -> None:
        self._record, self._ledger, self._progress = record, record.ledger, progress
        self._before, self._read = progress.effective, False
        self._programs, self._compiled = programs(), programs()[COMPILED]

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._ledger.spend(self._kind(event), self._now(event))
        effective = self._before + self._ledger.seconds["step"]
        self._progress.effective = self._record.effective = effective
        if not self._record.trained and isinstance(event, Done):
            self._record.trained = True
            if is_primary():
                logger.info("%s", self._first_step())
        if isinstance(event, Saved | Evaluating) or self._record.age > EVERY:
            self._record.write()

    def summary(self) -> dict[str, Any] | None:
        """The goodput of the run, on process 0; None if nothing of it is known."""
        if not is_primary():
            return None
        self._record.write()
        try:
            kept = read(self._record.folder)
        except OSError as error:  # which must not end a run that is done
            logger.warning("the goodput of the run is not known: %s", error)
            return None
        for damage in kept.damage.values():
            logger.warning("%s", damage)
        if not kept.spent:
            return None
        found = goodput(kept.spent, kept.watched, self._progress.effective, [*kept.damage])
        logger.info("%s", told(found))
        return found

    def _kind(self, event: Event) -> str:
        """What has ended with the event."""
        match event:
            case Reading() if not self._read:
                self._read = True
                return "data"
            case Reading() if self._ledger.shared:
                return "elsewhere"
            case Read():
                return "wait"
            case Copied() | Saved():
                return "save"
            case Evaluated():
                return "evaluate"
            case Checked():
                return "check"
            case Dispatched():
                before, self._compiled = self._compiled, self._programs[COMPILED]
                return "compile" if self._compiled > before else "step"
        return "step"

    def _now(self, event: Event) -> str:
        """What has begun with the event: what is a step, only its end tells."""
        match event:
            case Copying() | Saving():
                return "save"
            case Evaluating():
                return "evaluate"
        return "step" if self._record.trained else "compile"

    def _first_step(self) -> str:
        """`the first step ends 9.8 s after the start: start 3.1, ...; 30 of 31 programs ...`"""
        total = sum(self._ledger.seconds.values())
        phases = ", ".join(f"{kind} {own:.1f}" for kind, own in self._ledger.seconds.items())
        hits, misses = self._programs[HIT], self._programs[MISS]
        return (
            f"the first step ends {total:.1f} s after the start: {phases}; {hits} of "
            f"{hits + misses} programs were found compiled (run.compilation_cache)"
        )
