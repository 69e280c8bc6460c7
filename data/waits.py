"""What this process and its workers wait for at places that may be out of reach.

Whoever watches a training sees that it waits for its data. Whether a place is still asked for them,
and for how long it may be, only the reader knows, often a worker process::

    worker 0 --> | a slot for each worker, |
    worker 1 --> | in a file in memory     | --> current(), in the process that trains
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

#: Key of the configuration that names the place of the data.
SOURCE = "data.source"
#: Seconds after which a call counts as one that waits; `run.hang_seconds` is at least 3.
SHOWN = 1.0
#: Bytes of what a worker reports, most waits that it reports, and characters of a place.
SLOT, TOLD, PLACE = 4096, 8, 200
#: Name of the file in memory.
_NAME = "waits"


@dataclass(frozen=True)
class RetriedCall:
    """A call that is tried again until the place answers.

    Attributes:
        key: key of the configuration that names the place.
        place: the place, for messages.
        since: time of its begin, by the machine's monotonic clock, which all processes share.
        seconds: how long it is tried again.
    """

    key: str
    place: str
    since: float
    seconds: float


class Table:
    """What the workers of a loader wait for; a file in memory, of which nothing is left.

    Attributes:
        path: where workers find it.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create(_NAME)
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"
        _tables.append(self)

    def close(self) -> None:
        """Remove it, once all workers have ended; idempotent."""
        if self in _tables:
            _tables.remove(self)
            os.close(self._file)

    def waits(self) -> Iterator[RetriedCall]:
        """The waits of all workers."""
        for slot in range(os.fstat(self._file).st_size // SLOT):
            text = os.pread(self._file, SLOT, slot * SLOT).rstrip(b"\0 ")
            try:
                calls = json.loads(text or b"[]")
            except ValueError:  # it is being replaced, and is whole at the next look
                continue
            yield from (RetriedCall(**fields) for fields in calls)


_lock = threading.Lock()
_own: dict[int, RetriedCall] = {}
_tables: list[Table] = []
_slot: tuple[int, int] | None = None


def tell_in(path: str, worker: int) -> None:
    """Tell of the waits of this process, a worker, in the table of another process from now on.

    Args:
        path: of the table.
        worker: number of the worker.
    """
    global _slot
    file = os.open(path, os.O_RDWR)
    assert str(Path(f"/proc/self/fd/{file}").readlink()).startswith(f"/memfd:{_NAME}"), path
    _slot = file, worker
    _report_waits()


@contextmanager
def waiting(key: str, place: str, seconds: float) -> Iterator[None]:
    """Context of a call that is tried again for so long; arguments as of `RetriedCall`."""
    wait = RetriedCall(key, place[:PLACE], time.monotonic(), seconds)
    with _lock:
        _own[id(wait)] = wait
        _report_waits()
    try:
        yield
    finally:
        with _lock:
            del _own[id(wait)]
            _report_waits()


def current(key: str) -> RetriedCall | None:
    """The oldest call to a place of `key` that waits, of this process and its workers, if any."""
    shown = time.monotonic() - SHOWN
    calls = [*list(_own.values()), *(wait for table in list(_tables) for wait in table.waits())]
    late = [wait for wait in calls if wait.key == key and wait.since < shown and wait.seconds]
    return min(late, key=lambda wait: wait.since, default=None)


def _report_waits() -> None:
    if _slot is None:
        return
    file, worker = _slot
    text = json.dumps([asdict(wait) for wait in list(_own.values())[:TOLD]], ensure_ascii=False)
    os.pwrite(file, text.encode()[:SLOT].ljust(SLOT), worker * SLOT)
