"""Elements of worker processes in shared memory, under names that say whose they are.

    /dev/shm/mllm-jax-<run>-<pid>-<start>-<loader>-<worker>-<random>    an element on its way
                                                  -semaphores           names of semaphores

What a process leaves behind that is killed with all of its workers, the next start of its run
removes (`remove_left`). A process that ends in any other way leaves nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import secrets
from contextlib import suppress
from itertools import count
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
_BEGIN, _LIST = "mllm-jax", "semaphores"
_NAME = re.compile(rf"{_BEGIN}-[0-9a-z]+-(\d+)-(\d+)-\d+-.+")
_SEMAPHORE = re.compile(r"sem\.mp-\w+")
_loaders = count()
_run = "none"

#: The name of an element's shared memory, or "", its pickle, and the bytes of its arrays, or sizes.
Packed = tuple[str, bytes, list[bytes] | list[int]]


def owner_of(folder: Path) -> str:
    """The owner of what a run in a folder has in shared memory."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def own_for(run: str) -> None:
    """Let loaders that this process makes from now on be those of a run, see `owner_of`."""
    global _run
    _run = run


def prefix() -> str:
    """What the names of one loader of this process begin with."""
    return f"{_BEGIN}-{_run}-{os.getpid()}-{_started(os.getpid())}-{next(_loaders)}-"


def pack(begin: str, element: Any) -> Packed:
    """An element for the process that takes it, its arrays in shared memory.

    Args:
        begin: `prefix` of the loader.
    """
    arrays: list[pickle.PickleBuffer] = []
    text = pickle.dumps(element, protocol=5, buffer_callback=arrays.append)
    views = [own.raw() for own in arrays]
    places, size = _places([own.nbytes for own in views])
    if size < SMALL:
        return "", text, [bytes(own) for own in views]
    name = f"{begin}{os.getpid()}-{secrets.token_hex(8)}"
    memory = SharedMemory(name=name, create=True, size=size)
    assert memory.buf is not None
    for place, view in zip(places, views, strict=True):
        memory.buf[place : place + view.nbytes] = view
    memory.close()
    return name, text, [own.nbytes for own in views]


def unpack(packed: Packed) -> Any:
    """The element, whose arrays are of this process; its shared memory is removed."""
    name, text, arrays = packed
    if not name:
        return pickle.loads(
            text, buffers=[np.frombuffer(bytearray(own), np.uint8) for own in arrays]
        )
    sizes = [int(own) for own in arrays]
    memory = SharedMemory(name=name)
    assert memory.buf is not None
    try:
        copies = [
            np.array(np.frombuffer(memory.buf, np.uint8, size, place))
            for size, place in zip(sizes, _places(sizes)[0], strict=True)
        ]
    finally:
        memory.close()
        memory.unlink()
    return pickle.loads(text, buffers=copies)


def _places(sizes: list[int]) -> tuple[list[int], int]:
    """Where arrays of these sizes begin, and the bytes of all."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end = -(-(end + size) // _ALIGNED) * _ALIGNED
    return places, end


def remove_own(begin: str) -> None:
    """Remove what the workers of a loader have made, and nobody has taken, once they have ended."""
    for path in FOLDER.glob(f"{begin}*"):
        if path.name == f"{begin}{_LIST}":
            path.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError):  # Python's tracker of resources has removed it
            memory = SharedMemory(name=path.name)
            memory.close()
            memory.unlink()


def list_semaphores(begin: str) -> None:
    """Keep the names of this process' semaphores, for a start that finds them left behind.

    A semaphore is made under another name and linked to its own, so that memory is mapped from a
    file of the first name: the files are the same.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    lines = [line.split() for line in maps.read_text().splitlines() if f"{FOLDER}/sem." in line]
    mapped = {int(line[4]) for line in lines}
    with suppress(OSError):  # without room nothing else could be made, either
        names = [own.name for own in FOLDER.glob("sem.mp-*") if _inode(own) in mapped]
        (FOLDER / f"{begin}{_LIST}").write_text("\n".join(sorted(names)))


def _inode(path: Path) -> int | None:
    with suppress(FileNotFoundError):  # it has just been removed
        return path.stat().st_ino
    return None


def remove_left(run: str) -> None:
    """Remove what processes of a run have left that live no more; who calls has the run's lock."""
    bytes_, files = 0, 0
    for path in FOLDER.glob(f"{_BEGIN}-{run}-*"):
        owner = _NAME.fullmatch(path.name)
        if owner is None or _started(int(owner[1])) == owner[2]:
            continue
        left = [path]
        with suppress(OSError):  # it is another user's, or gone
            if path.name.endswith(_LIST):
                left += [FOLDER / own for own in _SEMAPHORE.findall(path.read_text())]
            for own in left:
                size = own.stat().st_size if own.exists() else 0
                own.unlink(missing_ok=True)
                bytes_, files = bytes_ + size, files + 1
    if files:
        logger.info(
            "%d files (%.1f MiB) that an earlier start of the run has left in %s are removed",
            *(files, bytes_ / 2**20, FOLDER),
        )


def _started(pid: int) -> str:
    """When a process was started, in ticks since the machine's start; empty if it is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
