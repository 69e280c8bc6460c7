"""The processes of a session, and the shared memory that they leave when they are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TRACKER = b"multiprocessing.resource_tracker"
#: Where shared memory has names, and how those begin that Python gives.
_SHARED, _NAMES = Path("/dev/shm"), "psm_"
#: Most seconds until processes that were asked to stop have stopped.
_STOPPING = 0.2


class ProcessSession:
    """A process and all that it has started.

    Args:
        number: id of the session, which is that of its first process.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._segments = set[Path]()

    def living_processes(self) -> list[int]:
        """Ids of the processes that live."""
        members = []
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                fields = _status_fields(path.name)
                if fields and fields[0] != b"Z" and int(fields[3]) == self._number:
                    members.append(int(path.name))
        return members

    def kill_processes(self) -> None:
        """Kill all processes but trackers of shared memory.

        Trackers remove what was registered with them once its processes are killed; then they end,
        too. A process that is killed while it makes a segment may not have registered it yet:
        `end` sees to those. One that runs could start another meanwhile, so all
        are stopped first.
        """
        killed = [
            n for n in self.living_processes() if _TRACKER not in _read_file(f"/proc/{n}/cmdline")
        ]
        for process in killed:
            _send_signal(process, signal.SIGSTOP)
        until = time.monotonic() + _STOPPING
        while any(map(_is_running, killed)) and time.monotonic() < until:
            time.sleep(0.001)
        for process in killed:
            self._segments.update(_open_segments(process))
            _send_signal(process, signal.SIGKILL)

    def end_session(self) -> None:
        """Kill what is left, trackers too, and remove segments of processes that were killed."""
        with suppress(ProcessLookupError):
            os.killpg(self._number, signal.SIGKILL)
        for segment in self._segments:
            segment.unlink(missing_ok=True)


def _open_segments(process: int) -> Iterator[Path]:
    """Segments of shared memory that a process has open."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):
                path = link.readlink()
                if path.parent == _SHARED and path.name.startswith(_NAMES):
                    yield path


def _is_running(process: int) -> bool:
    """Whether a process is there, and neither stopped nor at its end."""
    fields = _status_fields(process)
    return bool(fields) and fields[0] not in (b"T", b"t", b"Z", b"X")


def _status_fields(process: int | str) -> list[bytes]:
    """What the kernel says of a process, from its state on; nothing of one that has ended."""
    return _read_file(f"/proc/{process}/stat").rpartition(b")")[2].split()


def _read_file(path: str) -> bytes:
    """What a file of the kernel says; nothing of a process that has ended."""
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _send_signal(process: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
