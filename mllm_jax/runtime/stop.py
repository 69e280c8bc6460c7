"""SIGINT and SIGTERM as a request to stop after the running step."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Self

from mllm_jax.runtime.collective import true_on_all_processes
from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.runtime.supervised.process import supervisor_settings

#: Seconds after which processes agree anew on whether to stop; that takes milliseconds.
AGREE = 5.0


class StopSignal:
    """Context in which the first signal after `start_listening` sets a flag.

    The second signal acts as it did before the context.

    Before the first step there is nothing to save, and signals end the run as they do elsewhere. A
    supervised process hears of one request twice where a cluster signals all processes of a job:
    its supervisor decides what is a second one (`mllm_jax.supervise.agent`), and ends it then.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._previous_handlers: dict[int, object] = {}
        self._fd = -1
        self._listening = False
        self._agreed, self._next, self._since = 0, 0, time.monotonic()

    def agree_on_stop(self, step: int) -> bool:
        """Whether any process was asked to stop, where it is time to agree on that.

        A process alone knows after every step. Several agree after as many steps as `AGREE` seconds
        have, by the mean step since they last did, on the slowest of them: after every one of long
        steps, so that a signal is heeded within a step or so, and seldom enough not to hold up
        short ones.

        Args:
            step: step that was taken; all processes call this after every step.
        """
        if current_peers().count == 1:
            return self.is_requested()
        if step < self._next:
            return False
        now = time.monotonic()
        reports = current_peers().gather_values(
            "signals", [self._requested.is_set(), now - self._since]
        )
        seconds = max(passed for _, passed in reports) / max(1, step - self._agreed)
        self._agreed, self._since = step, now
        self._next = step + max(1, int(AGREE / max(seconds, 1e-3)))
        return any(requested for requested, _ in reports)

    def is_requested(self) -> bool:
        """Whether any process was asked to stop; all processes must call this at the same step."""
        return not true_on_all_processes("no signal has come", not self._requested.is_set())

    def start_listening(self) -> None:
        """Catch signals from now on; without effect after the first time."""
        if self._listening:
            return
        self._listening = True
        if threading.current_thread() is threading.main_thread():
            # No other handler sees the first signal, see `mllm_jax.runtime.interrupt`.
            self._fd = signal.set_wakeup_fd(-1)
            self._previous_handlers = {
                number: signal.signal(number, self._on_signal) for number in SIGNALS
            }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if supervisor_settings() is None or not self._requested.is_set():
            self._restore_handlers()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._requested.set()
        if supervisor_settings() is None:
            self._restore_handlers()

    def _restore_handlers(self) -> None:
        if self._previous_handlers:
            signal.set_wakeup_fd(self._fd)
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous_handlers = {}
