"""SIGUSR2 as a request for a profile of the next steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self

#: The signal; SIGUSR1 is the supervisor's (`supervised/process.py`).
PROFILE = signal.SIGUSR2


class Asked:
    """Context in which the signal is noted, or has no effect.

    Elsewhere than in the main thread, signals are left to whoever has it.

    Args:
        heeded: whether the signal is noted.
    """

    def __init__(self, heeded: bool) -> None:
        self._heeded, self._came = heeded, threading.Event()
        self._here = threading.current_thread() is threading.main_thread()
        self._before: object = signal.SIG_DFL

    def taken(self) -> bool:
        """Whether the signal has come since this was asked last."""
        came = self._came.is_set()
        self._came.clear()
        return came

    def __enter__(self) -> Self:
        if self._here:
            handler = self._note if self._heeded else signal.SIG_IGN
            self._before = signal.signal(PROFILE, handler)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._here:
            signal.signal(PROFILE, self._before)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.set()
