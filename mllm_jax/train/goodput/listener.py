"""The listener that keeps the ledger, records it, and sums up the goodput of the run."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.supervised.process import attempt
from mllm_jax.supervise.attempts import Spent, goodput, newest, read, told, write
from mllm_jax.train.events import (
    Checked,
    Copied,
    Dispatched,
    Done,
    Evaluated,
    Event,
    Read,
    Reading,
    Saved,
)
from mllm_jax.train.goodput.ledger import COMPILED, HIT, MISS, Ledger, programs
from mllm_jax.train.state.progress import Progress

logger = logging.getLogger(__name__)

#: Seconds between two records, but for those behind a save.
EVERY = 5.0


class Goodput:
    """Listens: every event ends a piece of time.

    Args:
        ledger: the seconds so far.
        folder: folder of the run.
        progress: progress of the run, whose `effective` is updated.
    """

    def __init__(self, ledger: Ledger, folder: Path, progress: Progress) -> None:
        self._ledger, self._folder, self._progress = ledger, folder, progress
        self._before, self._first, self._read = progress.effective, True, False
        self._programs, self._compiled = programs(), programs()[COMPILED]
        self._number = attempt() or newest(folder) + 1
        self._written, self._failed = 0.0, False

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._ledger.spend(self._kind(event))
        self._progress.effective = self._before + self._ledger.seconds["step"]
        if self._first and isinstance(event, Done):
            self._first = False
            if is_primary():
                logger.info("%s", self._first_step())
        late = time.perf_counter() - self._written > EVERY
        if isinstance(event, Saved) or (late and not self._first):
            self._record()

    def summary(self) -> dict[str, Any] | None:
        """The goodput of the run, on process 0; None if nothing of it is known."""
        if not is_primary():
            return None
        if not self._first:
            self._record()
        try:
            spent, watched = read(self._folder)
        except (ValueError, OSError) as error:  # which must not end a run that is done
            logger.warning("the goodput of the run is not known: %s", error)
            return None
        if not spent:
            return None
        found = goodput(spent, watched, self._progress.effective)
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

    def _first_step(self) -> str:
        """`the first step ends 9.8 s after the start: start 3.1, ...; 30 of 31 programs ...`"""
        total = sum(self._ledger.seconds.values())
        phases = ", ".join(f"{kind} {own:.1f}" for kind, own in self._ledger.seconds.items())
        hits, misses = self._programs[HIT], self._programs[MISS]
        return (
            f"the first step ends {total:.1f} s after the start: {phases}; {hits} of "
            f"{hits + misses} programs were found compiled (run.compilation_cache)"
        )

    def _record(self) -> None:
        """Write the record, on process 0; a disk that takes none ends no run."""
        self._written = time.perf_counter()
        if not is_primary():
            return
        ledger = self._ledger
        try:
            write(self._folder, Spent(self._number, ledger.began, dict(ledger.seconds)))
        except OSError as error:
            if not self._failed:
                logger.warning("the record of this attempt cannot be written: %s", error)
            self._failed = True
