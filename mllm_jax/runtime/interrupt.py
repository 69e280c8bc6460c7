"""SIGINT and SIGTERM: every command ends with the code of an interruption and says what is saved.

Python runs the handler of a signal between two of its instructions, so never while XLA compiles
for a minute. A process that is interrupted there is ended by a thread of this module; nothing is
lost by that, as a training loop that has something to save sets other handlers (`StopSignal`).

A supervised process is interrupted once: see `StopSignal`.

Python drops what is raised in callbacks of its garbage collector and in `__del__`. A signal whose
handler ran there is sent once more.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Self

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.run_peers import current_peers, leave_process
from mllm_jax.runtime.supervised.process import supervisor_settings

SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Seconds within which Python has to come to a handler.
PATIENCE = 2.0

#: Seconds after which a signal is sent once more whose exception was dropped.
AGAIN = 0.1

_status = ""


def set_interrupt_status(text: str) -> None:
    """Set the text that follows `interrupted` from now on, e.g. which step is saved."""
    global _status
    _status = text


def interrupt_message() -> str:
    """Return the message of an interruption at this moment."""
    return f"interrupted{_status}"


class InterruptibleContext:
    """Context in which the signals raise KeyboardInterrupt or, if Python stays busy, end all."""

    def __init__(self) -> None:
        self._handled, self._raised = 0, False
        self._in_main_thread = threading.current_thread() is threading.main_thread()
        self._previous_handlers: dict[int, object] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        set_interrupt_status("")
        if self._in_main_thread:
            receive, self._send = socket.socketpair()
            self._send.setblocking(False)
            self._fd = signal.set_wakeup_fd(self._send.fileno(), warn_on_full_buffer=False)
            self._previous_handlers = {
                number: signal.signal(number, self._raise_interrupt) for number in SIGNALS
            }
            threading.Thread(target=self._watch_signals, args=(receive,), daemon=True).start()
            self._hook, sys.unraisablehook = sys.unraisablehook, self._on_dropped
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._in_main_thread:
            sys.unraisablehook = self._hook
            signal.set_wakeup_fd(self._fd)
            self._send.close()

    def _raise_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._handled += 1
        if self._raised and supervisor_settings():
            return
        self._raised = True
        raise KeyboardInterrupt

    def _on_dropped(self, error: sys.UnraisableHookArgs) -> None:
        """Python has dropped an exception: a handler's comes again, others are printed as usual."""
        if error.exc_type is not KeyboardInterrupt:
            self._hook(error)
            return
        self._raised = False
        again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def _watch_signals(self, receive: socket.socket) -> None:
        received = 0
        with receive:
            while numbers := receive.recv(1):
                received += numbers[0] in SIGNALS
                if not self._handles_in_time(received):
                    sys.stderr.write(interrupt_message() + "\n")
                    current_peers().leave_run(ExitCode.INTERRUPTED, "interrupted")
                    leave_process(ExitCode.INTERRUPTED)

    def _handles_in_time(self, signals: int) -> bool:
        """Whether Python handles that many of them in time."""
        deadline = time.monotonic() + PATIENCE
        while self._handled < signals and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._handled >= signals
