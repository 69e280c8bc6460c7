"""SIGUSR2 as a request for a profile of the next steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self

#: The signal; SIGUSR1 is the supervisor's (`supervised/process.py`).
PROFILE = signal.SIGUSR2


class ProfileRequest:
    """Context in which the signal is recorded, or has no effect.

    Elsewhere than in the main thread, signals are left to whoever has it.

    Args:
        enabled: whether the signal is recorded.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled, self._received = enabled, threading.Event()
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._previous_handler: object = signal.SIG_DFL

    def consume(self) -> bool:
        """Return whether the signal has come since the last call."""
        received = self._received.is_set()
        self._received.clear()
        return received

    def __enter__(self) -> Self:
        if self._in_main_thread:
            handler = self._record_signal if self._enabled else signal.SIG_IGN
            self._previous_handler = signal.signal(PROFILE, handler)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._in_main_thread:
            signal.signal(PROFILE, self._previous_handler)  # type: ignore[arg-type]

    def _record_signal(self, number: int, frame: FrameType | None) -> None:
        self._received.set()
