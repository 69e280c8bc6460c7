"""The processes of a run, wherever they have gone: a variable that all inherit marks them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Name of the variable.
MARK = "MLLM_JAX_CHAOS"
#: A variable that only training processes have, and what they start not.
_TRAINING = b"MLLM_JAX_SUPERVISED="
#: Seconds within which a process that was stopped must stand.
_STANDS = 10.0


@dataclass(frozen=True)
class HostProcess:
    """A process that lives.

    Attributes:
        pid: its id.
        parent: id of its parent.
        training: whether it is a training process.
    """

    pid: int
    parent: int
    training: bool

    def __str__(self) -> str:
        words = (
            _read_file(f"/proc/{self.pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
        )
        return f"process {self.pid} (parent {self.parent}): {words[:200].strip() or 'gone by now'}"


def list_processes(mark: str) -> list[HostProcess]:
    """All processes with this value of the variable; those that have ended are left out."""
    variable = f"{MARK}={mark}".encode()
    return [process for pid in _list_pids() if (process := _read_process(pid, variable))]


def list_descendants(pid: int, every: Iterable[HostProcess]) -> list[HostProcess]:
    """The descendants of a process among `every`."""
    children = [process for process in every if process.parent == pid]
    return children + [other for child in children for other in list_descendants(child.pid, every)]


def list_orphans(mark: str, supervisors: Sequence[int]) -> list[HostProcess]:
    """Processes of a run that do not descend from one of its supervisors."""
    every = list_processes(mark)
    tended = {
        descendant.pid for pid in supervisors for descendant in list_descendants(pid, every)
    } | {*supervisors}
    return [process for process in every if process.pid not in tended]


def send_signal(number: int, processes: Iterable[int]) -> None:
    """Send a signal to processes that may have ended."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stop_process(pid: int) -> None:
    """Stop a process, and wait until none of its threads moves; it may have ended."""
    send_signal(signal.SIGSTOP, [pid])
    until = time.monotonic() + _STANDS
    while any(_is_running(task) for task in Path(f"/proc/{pid}/task").glob("*")):
        if time.monotonic() > until:
            raise TimeoutError(f"process {pid} does not stop within {_STANDS:g} s")
        time.sleep(0.001)


def kill_all(mark: str) -> None:
    """Kill what is left of a run."""
    send_signal(signal.SIGKILL, [process.pid for process in list_processes(mark)])


def _list_pids() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _read_process(pid: int, variable: bytes) -> HostProcess | None:
    variables = _read_file(f"/proc/{pid}/environ").split(b"\0")
    if variable not in variables:
        return None
    fields = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields or fields[0] == b"Z":
        return None
    return HostProcess(pid, int(fields[1]), any(text.startswith(_TRAINING) for text in variables))


def _is_running(task: Path) -> bool:
    """Whether a thread is neither stopped nor at its end."""
    fields = _read_file(f"{task}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in b"TtZX"


def _read_file(path: str) -> bytes:
    """What a file of the kernel says; nothing of a process that has ended."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
