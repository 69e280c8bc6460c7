"""The folder of a run: it takes files, and has room for them."""

from __future__ import annotations

import errno
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A run folder with less room than this is refused; checkpoints are checked by their size.
FREE_BYTES = 64 * 2**20


class RunError(RuntimeError):
    """A run that cannot start or cannot go on."""


class RoomError(RunError):
    """A disk that is full, until somebody makes room."""


def prepare_folder(folder: Path) -> None:
    """Make the run's folder and see that it takes files.

    Raises:
        RunError: the folder cannot be written. RoomError: the disk is full.
    """
    # Processes of several hosts may do that at once.
    probe = folder / f".writable-{os.getpid()}-{platform.node()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        kind = RoomError if error.errno == errno.ENOSPC else RunError
        raise kind(
            f"folder {folder} cannot be written: {error.strerror}; choose another run.directory "
            "(or --output, for a trace)"
        ) from error
    check_room(folder, 0)


@contextmanager
def made_folder(folder: Path, keep: str) -> Iterator[None]:
    """Context in which `folder` is there; an error removes a new one that nothing was written to.

    Args:
        keep: name of a file in it that counts as nothing.

    Raises:
        RunError: as of `prepare_folder`.
    """
    new = not folder.exists()
    prepare_folder(folder)
    try:
        yield
    except BaseException:
        if new and {path.name for path in folder.iterdir()} <= {keep}:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def check_room(folder: Path, needed_bytes: int) -> None:
    """See that there is room for `needed_bytes` of checkpoints, and for logs.

    Raises:
        RoomError: there is not.
    """
    free = shutil.disk_usage(folder).free
    needed = FREE_BYTES + needed_bytes
    if free < needed:
        raise RoomError(
            f"run folder {folder}: {free / 2**20:.0f} MiB are free, checkpoints and logs need "
            f"{needed / 2**20:.0f} MiB; free some space or choose another run.directory"
        )
