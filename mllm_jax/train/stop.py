"""SIGINT and SIGTERM as a request to stop after the running step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

import jax
import numpy as np
from jax.experimental import multihost_utils

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Context in which the first signal sets a flag; the second acts as it always does."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, object] = {}

    def requested(self) -> bool:
        """Whether any process was asked to stop; all processes must call this at the same step."""
        asked = self._asked.is_set()
        if jax.process_count() == 1:
            return asked
        return bool(np.any(multihost_utils.process_allgather(np.array(asked))))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
