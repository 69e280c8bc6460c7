"""The part that this process has in a run: alone, or as one of several processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mllm_jax.runtime.exits import Exit


class JoinError(RuntimeError):
    """Processes that were started in ways that do not fit together."""


class PeerError(RuntimeError):
    """An error of another process, which is gone or never came."""


class Peers:
    """A process that is alone; `mllm_jax.runtime.peers` has one among others."""

    index = 0
    count = 1

    def gather(self, name: str, value: Any) -> list[Any]:
        """Every process's value for `name`, in their order; all must call in the same order.

        Args:
            value: JSON.
        """
        del name
        return [value]

    def note(self, event: str, *, limited: bool = True) -> None:
        """Note the present activity of this process; with `limited` it should not take long."""

    @contextmanager
    def doing(self, event: str, *, limited: bool) -> Iterator[None]:
        """Note an activity of this process within the context; then the earlier one continues."""
        yield

    @contextmanager
    def meeting(self, what: str) -> Iterator[None]:
        """Context of a collective of JAX's on the host: a wait that is too long ends the process.

        Args:
            what: is done together, for the message.
        """
        yield

    @contextmanager
    def waiting(self, what: str, *, limited: bool = True) -> Iterator[None]:
        """Context of a wait for work of all processes: a wait that is too long ends the process.

        Args:
            what: is waited for, for the message.
            limited: whether no process should then be at what may take long, such as compiling.
        """
        yield

    def leave(self, code: int, reason: str = "") -> None:
        """Tell the others that this process ends, and with `code` other than 0, why."""


_current: Peers = Peers()


def peers() -> Peers:
    """The processes of this run, as `take_part` was told last."""
    return _current


def take_part(part: Peers) -> None:
    """Let `peers` return `part` from now on."""
    global _current
    _current = part


def waiting(what: str, *, limited: bool = True) -> AbstractContextManager[None]:
    """`Peers.waiting` of the processes of this run."""
    return peers().waiting(what, limited=limited)


@contextmanager
def deadline(seconds: float | None, why: str | Callable[[], str]) -> Iterator[None]:
    """Context for a wait that heeds no signal: the process ends if the wait takes too long.

    Args:
        seconds: the longest wait; None: any.
        why: message of the process's end, whose code is that of a lost process; or what makes it
            once the time is over.
    """
    if seconds is None:
        yield
        return

    def end() -> None:
        end_process(Exit.LOST_PEER, why if isinstance(why, str) else why())

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def end_process(code: int, why: str) -> None:
    """End this process from any thread, whatever the others are stuck in."""
    sys.stderr.write(f"error: {why}\n")
    leave_process(code)


def leave_process(code: int) -> None:
    """End this process at once: JAX would wait for processes that do not come any more."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
