"""The record of this attempt in the folder of the run: its time by kind."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.supervised.process import attempt_number, supervisor_settings
from mllm_jax.supervise.attempts import TimeSpent, newest_attempt, write_attempt
from mllm_jax.train.listeners.goodput.ledger import TimeLedger

logger = logging.getLogger(__name__)


class TimeRecord:
    """Writes the record on process 0; a failed write does not end the run.

    A supervisor counts its attempts from their begin, and so do their records. Without one there is
    a record from the first step on: who looks at a run that has ended changes nothing of it.

    Args:
        ledger: the seconds so far.
        folder: folder of the run.

    Attributes:
        trained: whether a step was taken in this attempt.
        effective: see `TimeSpent`.
    """

    trained = False
    effective: float | None = None

    def __init__(self, ledger: TimeLedger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self._number = attempt_number() or newest_attempt(folder) + 1
        self._written, self._failed = 0.0, False

    @property
    def age_seconds(self) -> float:
        """Seconds since it was written."""
        return time.perf_counter() - self._written

    def note_time(self, kind: str, now: str) -> None:
        """Record the kind of the time since the last call, and of the time from now on."""
        self.ledger.note_time(kind, now)
        self.write_record()

    def write_record(self) -> None:
        """Write the record."""
        self._written = time.perf_counter()
        if not is_primary() or not (self.trained or supervisor_settings()):
            return
        ledger = self.ledger
        seconds, now = dict(ledger.seconds), ledger.now
        try:
            write_attempt(
                self.folder, TimeSpent(self._number, ledger.began, seconds, now, self.effective)
            )
        except OSError as error:
            if not self._failed:
                logger.warning("the record of this attempt cannot be written: %s", error)
            self._failed = True
