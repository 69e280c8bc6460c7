"""A process whose main thread is stopped while its other threads go on, as if it hung (ptrace(2)).

The thread that traces a process must stay, and must take the news of its end before its parent gets
it; so each process that is held has a thread here.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from concurrent.futures import Future
from contextlib import suppress

#: Requests of `ptrace`, from <linux/ptrace.h>, and the option of `waitpid` for any kind of process.
_SEIZE, _INTERRUPT, _WALL = 0x4206, 0x4207, 0x40000000


def hold_thread(pid: int) -> None:
    """Hold the main thread of a process for as long as that process lives, or this one.

    Raises:
        OSError: the process has ended, or may not be traced.
    """
    result: Future[None] = Future()
    threading.Thread(
        target=_trace_thread, args=(pid, result), name=f"holds {pid}", daemon=True
    ).start()
    result.result()


def probe_hold() -> str:
    """Why no process can be held here; empty if it can."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            hold_thread(child.pid)
        except OSError as error:
            return str(error)
        finally:
            child.kill()
    return ""


def _trace_thread(pid: int, result: Future[None]) -> None:
    try:
        _call_ptrace(_SEIZE, pid)
        _call_ptrace(_INTERRUPT, pid)
        ended = _await_end(pid)
    except OSError as error:
        result.set_exception(error)
        return
    result.set_result(None)
    with suppress(ChildProcessError):  # it was a child of ours, and was waited for elsewhere
        while not ended:
            ended = _await_end(pid)


def _call_ptrace(request: int, pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(request, pid, None, None) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace: {os.strerror(ctypes.get_errno())}")


def _await_end(pid: int) -> bool:
    """Wait for news of a process that is traced; whether it has ended."""
    _, status = os.waitpid(pid, _WALL)
    return os.WIFEXITED(status) or os.WIFSIGNALED(status)
