"""SIGINT and SIGTERM as a request to stop after the running step."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self

from mllm_jax.runtime.collective import everywhere
from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.supervised.process import supervised


class StopSignal:
    """Context in which, from `listen` on, the first signal sets a flag; the second acts as before.

    Before the first step there is nothing to save, and signals end the run as they do elsewhere. A
    supervised process hears of one request twice where a cluster signals all processes of a job:
    its supervisor decides what is a second one (`mllm_jax.supervise.agent`), and ends it then.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, object] = {}
        self._fd = -1
        self._listening = False

    def requested(self) -> bool:
        """Whether any process was asked to stop; all processes must call this at the same step."""
        return not everywhere("no signal has come", not self._asked.is_set())

    def listen(self) -> None:
        """Catch signals from now on; without effect after the first time."""
        if self._listening:
            return
        self._listening = True
        if threading.current_thread() is threading.main_thread():
            # No other handler is told of the first signal, see `mllm_jax.runtime.interrupt`.
            self._fd = signal.set_wakeup_fd(-1)
            self._before = {number: signal.signal(number, self._ask) for number in SIGNALS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if supervised() is None or not self._asked.is_set():
            self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()
        if supervised() is None:
            self._restore()

    def _restore(self) -> None:
        if self._before:
            signal.set_wakeup_fd(self._fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}
