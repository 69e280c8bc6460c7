"""One run in one folder: a lock that goes with its process, however that ends."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mllm_jax.runtime.records import (
    INT,
    TEXT,
    RecordDamageError,
    RecordSchema,
    read_record,
    record_line,
)

logger = logging.getLogger(__name__)

#: Name of the lock in the folder of a run; the file stays there, and names its last holder.
NAME = ".lock"
#: Name of the lock of the supervisor that leads; those of other processes have their numbers after
#: it. A supervisor has it in pauses, too, in which no process of the run has the lock above.
SUPERVISOR = ".supervisor"
#: Seconds in which somebody who only looks at a lock lets it go.
GLANCE = 0.2
#: Seconds between two looks at a lock that is waited for.
_AGAIN = 0.1
#: Variable that names the JobSet of a pod.
JOBSET = "MLLM_JAX_JOBSET"


#: The form of what a holder writes.
_HOLDER = RecordSchema({"pid": INT, "host": TEXT, "since": TEXT, "job": (str, type(None))}, {})


class LockedError(RuntimeError):
    """The folder belongs to a run that is going on."""


class LockHeldError(LockedError):
    """No other job has the folder: a later start of this job may find that it is free.

    A file system that hosts share may keep the lock of a host that is gone until its lease ends.
    """


def cluster_job() -> str | None:
    """The job of a cluster that this process is part of; None: of no job."""
    if number := os.environ.get("SLURM_JOB_ID"):
        return f"job {number} of Slurm"
    name = os.environ.get(JOBSET)
    return f"JobSet {name}" if name else None


@contextmanager
def run_lock(folder: Path, name: str = NAME, patience: float = GLANCE) -> Iterator[None]:
    """Keep other runs out of `folder` within the context; only the primary process asks for it.

    The lock is the operating system's (`flock`): it needs no cleaning up after `kill -9`, and on a
    file system that hosts share, it holds between them.

    Args:
        folder: folder of the run.
        name: name of the lock's file.
        patience: seconds to wait for another process that has it, unless it is of another job.

    Raises:
        LockedError: another process has it; the message says which, and since when.
        LockHeldError: likewise, in a job, and the process is of no other job.
    """
    with (folder / name).open("a+") as file:
        try:
            _acquire_lock(folder, file, patience)
        except BlockingIOError:
            raise _in_use(
                folder, file, LockedError if _is_of_another_job(file) else LockHeldError
            ) from None
        except OSError as error:
            logger.warning(
                "run folder %s takes no locks (%s): see that no second run writes there",
                folder,
                error.strerror,
            )
        _write_holder(file)
        yield


def check_unlocked(folder: Path, name: str = NAME) -> None:
    """Check that no process has the lock of `folder`, without taking it.

    Args:
        folder, name: as of `run_lock`.

    Raises:
        LockedError: a process has it; the message says which, and since when.
    """
    try:
        with (folder / name).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _in_use(folder, file, LockedError) from None
            except OSError as error:
                logger.warning("run folder %s takes no locks (%s)", folder, error.strerror)
    except FileNotFoundError:
        return


def check_unsupervised(folder: Path) -> None:
    """Check that no supervisor keeps the run of `folder` going.

    Raises:
        LockedError: as of `check_unlocked`.
    """
    for path in sorted(folder.glob(f"{SUPERVISOR}*")):
        check_unlocked(folder, path.name)


def _in_use(folder: Path, file: IO[str], kind: type[LockedError]) -> LockedError:
    return kind(
        f"run folder {folder} is in use by {_describe_holder(file)}; wait until it ends, stop it, "
        "or choose another run.name"
    )


def _acquire_lock(folder: Path, file: IO[str], patience: float) -> None:
    """Take the lock, or raise BlockingIOError once the time is over."""
    begin, warned = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begin
            if waited >= patience or (
                waited >= GLANCE and cluster_job() and _is_of_another_job(file)
            ):
                raise
        if waited >= GLANCE and not warned:
            logger.warning(
                "run folder %s is in use by %s: it is waited for, %.3g s at most",
                folder,
                _describe_holder(file),
                patience,
            )
            warned = True
        time.sleep(_AGAIN)


def _write_holder(file: IO[str]) -> None:
    """Write who has the lock; it holds on a full disk, too, where nothing can be written."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    holder |= {"job": cluster_job()}
    try:
        os.truncate(file.fileno(), 0)
        os.write(file.fileno(), record_line(holder).encode())
    except OSError as error:
        logger.warning("%s cannot name its holder: %s", file.name, error)


def _is_of_another_job(file: IO[str]) -> bool:
    """Whether the holder is of another job, or this process of none."""
    job, holder = cluster_job(), _read_holder(file)
    return job is None or holder.get("job") not in (None, job)


def _describe_holder(file: IO[str]) -> str:
    """The process that has signed the lock, which a process does soon after taking it."""
    holder = _read_holder(file)
    if not holder:
        return "another process"
    job = f" in {holder['job']}" if holder["job"] else ""
    return f"process {holder['pid']} on {holder['host']}{job} since {holder['since']}"


def _read_holder(file: IO[str]) -> dict[str, Any]:
    """The record of the lock's holder; nothing if it is missing or damaged."""
    try:
        return read_record(Path(file.name), _HOLDER)
    except (RecordDamageError, OSError):
        return {}
