"""SIGINT and SIGTERM: every command ends with the code of an interruption and says what is saved.

Python runs the handler of a signal between two of its own instructions, so never while XLA compiles
for a minute. A process that is interrupted there is ended by a thread of this module; nothing is
lost by that, as a training loop that has something to save sets handlers of its own (`StopSignal`).

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

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.part import leave_process, peers
from mllm_jax.runtime.supervised.process import supervised

SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Seconds within which Python has to come to a handler.
PATIENCE = 2.0

#: Seconds after which a signal is sent once more whose exception was dropped.
AGAIN = 0.1

_standing = ""


def stands(text: str) -> None:
    """Set the text that follows `interrupted` from now on, e.g. which step is saved."""
    global _standing
    _standing = text


def standing() -> str:
    """The present text of an interruption."""
    return f"interrupted{_standing}"


class Interruptible:
    """Context in which the signals raise KeyboardInterrupt or, if Python is kept busy, end all."""

    def __init__(self) -> None:
        self._handled, self._raised = 0, False
        self._here = threading.current_thread() is threading.main_thread()
        self._before: dict[int, object] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        stands("")
        if self._here:
            receive, self._send = socket.socketpair()
            self._send.setblocking(False)
            self._fd = signal.set_wakeup_fd(self._send.fileno(), warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, self._raise) for number in SIGNALS}
            threading.Thread(target=self._watch, args=(receive,), daemon=True).start()
            self._hook, sys.unraisablehook = sys.unraisablehook, self._dropped
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._here:
            sys.unraisablehook = self._hook
            signal.set_wakeup_fd(self._fd)
            self._send.close()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self._handled += 1
        if self._raised and supervised():
            return
        self._raised = True
        raise KeyboardInterrupt

    def _dropped(self, error: sys.UnraisableHookArgs) -> None:
        """Python has dropped an exception: a handler's comes again, others are told as usual."""
        if error.exc_type is not KeyboardInterrupt:
            self._hook(error)
            return
        self._raised = False
        again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def _watch(self, receive: socket.socket) -> None:
        came = 0
        with receive:
            while numbers := receive.recv(1):
                came += numbers[0] in SIGNALS
                if not self._comes_to(came):
                    sys.stderr.write(standing() + "\n")
                    peers().leave(Exit.INTERRUPTED, "interrupted")
                    leave_process(Exit.INTERRUPTED)

    def _comes_to(self, signals: int) -> bool:
        """Whether Python handles that many of them in time."""
        deadline = time.monotonic() + PATIENCE
        while self._handled < signals and time.monotonic() < deadline:
            time.sleep(0.05)
        return self._handled >= signals
