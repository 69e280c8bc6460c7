"""SIGINT and SIGTERM as a request to stop after the running step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

from mllm_jax.train.batch import everywhere

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Context in which the first signal sets a flag; the second acts as it always does."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, object] = {}

    def requested(self) -> bool:
        """Whether any process was asked to stop; all processes must call this at the same step."""
        return not everywhere(not self._asked.is_set())

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
