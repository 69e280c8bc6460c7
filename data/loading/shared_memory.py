"""Elements of worker processes in shared memory, under names that say whose they are.

    /dev/shm/mllm-jax-<run>-<pid>-<start>-<loader>-<worker>-<random>    an element on its way
                                                  -lock                 names of semaphores

A loader has its lock (`flock`) for as long as its process lives, which holds between containers
that share the memory and number processes by themselves. What a process leaves that is
killed with all of its workers, the next start of its run removes (`remove_left`), and what is of no
run, `none`, the next loader with workers of any process. A process that ends in any other way
leaves nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import pickle
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np

logger = logging.getLogger(__name__)

#: Where the system shows shared memory and semaphores that have names.
FOLDER = Path("/dev/shm")
#: Bytes of arrays below which an element goes through the queue alone.
SMALL = 2**16
#: Bytes that arrays begin at multiples of.
_ALIGNED = 64
_BEGIN, _LOCK = "mllm-jax", "lock"
_NAME = re.compile(rf"({_BEGIN}-[0-9a-z]+-(\d+)-(\d+)-[0-9a-f]{{8}}-).+")
#: Semaphores of Python, which have names of loky's once a library has loaded that.
_SEMAPHORE = re.compile(r"sem\.(?:mp|loky)-[\w-]+")
#: The owner of what is of no run.
NO_RUN = "none"
_run = NO_RUN

#: The name of an element's shared memory, or "", its pickle, and the bytes of its arrays, or sizes.
Packed = tuple[str, bytes, list[bytes] | list[int]]


def owner_of(folder: Path) -> str:
    """The owner of what a run in a folder has in shared memory."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


@contextmanager
def loaders_of_run(run: str) -> Iterator[None]:
    """Context in which loaders that this process makes are those of a run, see `owner_of`."""
    global _run
    before, _run = _run, run
    try:
        yield
    finally:
        _run = before


def name_prefix() -> str:
    """What the names of one loader of this process begin with."""
    return f"{_BEGIN}-{_run}-{os.getpid()}-{_start_time(os.getpid())}-{secrets.token_hex(4)}-"


def pack_element(begin: str, element: Any) -> Packed:
    """An element for the process that takes it, its arrays in shared memory.

    Args:
        begin: `name_prefix` of the loader.
    """
    arrays: list[pickle.PickleBuffer] = []
    text = pickle.dumps(element, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    places, size = _array_places([view.nbytes for view in views])
    if size < SMALL:
        return "", text, [bytes(view) for view in views]
    name = f"{begin}{os.getpid()}-{secrets.token_hex(8)}"
    memory = SharedMemory(name=name, create=True, size=size)
    assert memory.buf is not None
    for place, view in zip(places, views, strict=True):
        memory.buf[place : place + view.nbytes] = view
    memory.close()
    return name, text, [view.nbytes for view in views]


def unpack_element(packed: Packed) -> Any:
    """The element, whose arrays are of this process; its shared memory is removed."""
    name, text, arrays = packed
    if not name:
        return pickle.loads(
            text, buffers=[np.frombuffer(bytearray(array), np.uint8) for array in arrays]
        )
    sizes = [int(size) for size in arrays]
    memory = SharedMemory(name=name)
    assert memory.buf is not None
    try:
        copies = [
            np.array(np.frombuffer(memory.buf, np.uint8, size, place))
            for size, place in zip(sizes, _array_places(sizes)[0], strict=True)
        ]
    finally:
        memory.close()
        memory.unlink()
    return pickle.loads(text, buffers=copies)


def _array_places(sizes: list[int]) -> tuple[list[int], int]:
    """Where arrays of these sizes begin, and the bytes of all."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end = -(-(end + size) // _ALIGNED) * _ALIGNED
    return places, end


class LoaderLock:
    """The lock of a loader, which shows other processes that its process lives; close it.

    Attributes:
        begin: `name_prefix` of the loader.
    """

    def __init__(self) -> None:
        remove_left(NO_RUN)
        self.begin = name_prefix()
        self._path = FOLDER / f"{self.begin}{_LOCK}"
        self._file: int | None = None
        with suppress(OSError):  # there is no such folder, or no room in it
            self._file = self._lock_file()

    def _lock_file(self) -> int:
        """The locked file; another process may remove one before it is locked."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            if _inode_of(self._path) == os.fstat(file).st_ino:
                return file
            os.close(file)

    def list_semaphores(self) -> None:
        """Keep the names of this process' semaphores, for a start that finds them left over.

        A semaphore is made under another name and linked to its own, so that memory is mapped from
        a file of the first name: the files are the same.
        """
        maps = Path("/proc/self/maps")
        if not maps.exists() or self._file is None:
            return
        lines = [line.split() for line in maps.read_text().splitlines() if f"{FOLDER}/sem." in line]
        mapped = {int(line[4]) for line in lines}
        with suppress(OSError):  # without room nothing else could be made, either
            every = (file for file in FOLDER.glob("sem.*") if _SEMAPHORE.fullmatch(file.name))
            names = [file.name for file in every if _inode_of(file) in mapped]
            text = "\n".join(sorted(names)).encode()
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))

    def remove_elements(self) -> None:
        """Remove what the workers have made, and nobody has taken, once they have ended."""
        for path in FOLDER.glob(f"{self.begin}*"):
            if path == self._path:
                continue
            with suppress(FileNotFoundError):  # Python's tracker of resources has removed it
                memory = SharedMemory(name=path.name)
                memory.close()
                memory.unlink()

    def close(self) -> None:
        """Remove all of it; idempotent."""
        self.remove_elements()
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _inode_of(path: Path) -> int | None:
    with suppress(FileNotFoundError):  # it has just been removed
        return path.stat().st_ino
    return None


def remove_left(run: str) -> None:
    """Remove what processes of a run, or of none, have left that live no more.

    Who calls for a run has the run's lock.
    """
    bytes_, files = 0, 0
    for begin in sorted(
        {match[1] for path in FOLDER.glob(f"{_BEGIN}-{run}-*") if (match := _match_name(path))}
    ):
        with _check_gone(begin, run) as gone, suppress(OSError):  # it is another user's, or gone
            for path in _files_left(begin) if gone else ():
                size = path.stat().st_size if path.exists() else 0
                path.unlink(missing_ok=True)
                bytes_, files = bytes_ + size, files + 1
    if files:
        logger.info(
            "%d files (%.1f MiB) that %s has left in %s are removed",
            files,
            bytes_ / 2**20,
            "an earlier command" if run == NO_RUN else "an earlier start of the run",
            FOLDER,
        )


def _match_name(path: Path) -> re.Match[str] | None:
    """The parts of a name that a loader has given."""
    return _NAME.fullmatch(path.name)


@contextmanager
def _check_gone(begin: str, run: str) -> Iterator[bool]:
    """Context in which it is known whether the process of a loader is gone.

    Its number says nothing of a process in another container, but the lock does. Who has the run's
    lock knows that of a run without it, too.
    """
    path = FOLDER / f"{begin}{_LOCK}"
    owner, file = _match_name(path), None
    assert owner is not None, "names that `remove_left` has found"
    gone = _start_time(int(owner[2])) != owner[3]
    try:
        if gone:
            file = os.open(path, os.O_RDONLY)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        gone = run != NO_RUN
    except OSError:  # somebody has the lock, or it is another user's
        gone = False
    try:
        yield gone
    finally:
        if file is not None:
            os.close(file)


def _files_left(begin: str) -> list[Path]:
    """What a loader has left, its lock at the end."""
    lock = FOLDER / f"{begin}{_LOCK}"
    names = _SEMAPHORE.findall(lock.read_text()) if lock.exists() else []
    elements = [path for path in FOLDER.glob(f"{begin}*") if path != lock]
    return [*elements, *(FOLDER / name for name in names), *([lock] if lock.exists() else [])]


def _start_time(pid: int) -> str:
    """When a process was started, in ticks since the machine's start; empty if it is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
