"""Heartbeats of a training process, in a file that its supervisor has created.

The file is in memory and as long as it will ever be (`LENGTH`), so neither a full disk nor a
network file system that hangs can keep a process from writing it, or its supervisor from reading
it. Both have it open, and it is gone when both have ended. Times are of the
machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass

#: Bytes of the file: one JSON object and blanks.
LENGTH = 4096
#: Times that the file is read while it is being replaced.
_READS = 10
#: Most characters of an event in a message.
_SHOWN = 500


@dataclass(frozen=True)
class Heartbeat:
    """A heartbeat: the activity of a training process at one time.

    Attributes:
        attempt: number of the attempt that the process belongs to.
        pid: id of the process.
        step: newest step that the process has taken; 0 before its first.
        event: last event of the process.
        since: time of the event.
        limited: whether the present activity should not take long.
        waiting: whether the process only waits for others.
        time: time of this heartbeat.
        allowed: seconds for which a place that holds it up now is tried again; 0 without one.
        waits: begins and ends of waits for all processes, see `Peers.waits`.
    """

    attempt: int
    pid: int
    step: int
    event: str
    since: float
    limited: bool
    waiting: bool
    time: float
    allowed: float = 0.0
    waits: int = 0


def create_heartbeat_file() -> int:
    """The descriptor of a new file."""
    file = os.memfd_create("beats")
    os.ftruncate(file, LENGTH)
    return file


def write_heartbeat(file: int, beat: Heartbeat) -> None:
    """Replace the heartbeat in the file."""
    content = asdict(beat) | {"event": beat.event[:_SHOWN]}
    os.pwrite(file, json.dumps(content).encode().ljust(LENGTH), 0)


def read_heartbeat(file: int) -> Heartbeat | None:
    """The newest heartbeat; None before the first one."""
    for _ in range(_READS - 1):
        with suppress(ValueError):  # it was being replaced
            return _read_heartbeat(file)
    return _read_heartbeat(file)


def _read_heartbeat(file: int) -> Heartbeat | None:
    text = os.pread(file, LENGTH, 0).rstrip(b"\0")
    return Heartbeat(**json.loads(text)) if text else None
