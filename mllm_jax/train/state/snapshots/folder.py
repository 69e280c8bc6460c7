"""The folder of a run's snapshots on a machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.runtime.folder import RunError

#: Folder of files in memory.
MEMORY = Path("/dev/shm")
#: Characters of the digest that tells runs of one name apart.
_DIGEST = 8


def folder_of(config: ExperimentConfig) -> Path | None:
    """The folder, which need not be there; None where the run takes no snapshots.

    It is named after the run and the place of its folder, so that runs never meet there.

    Raises:
        RunError: it is there, and others than this user can put files into it.
    """
    settings = config.checkpoint
    if not settings.enabled or settings.local_every is None:
        return None
    base = Path(settings.local_folder)
    if settings.local_folder == "auto":
        base = MEMORY / f"mllm_jax-{os.getuid()}"
    where = hashlib.sha256(str(config.run.path.absolute()).encode()).hexdigest()[:_DIGEST]
    folder = base / f"{config.run.name}-{where}"
    for there in (base, folder):
        if there.exists() and there != Path(settings.local_folder):
            _check_own(there)
    return folder


def make_folder(folder: Path) -> None:
    """Make the folder for this user alone.

    Raises:
        OSError: there is no place for it.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove the folder, and the one above it if nothing else is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # it is not empty, or not there
        folder.parent.rmdir()


def _check_own(folder: Path) -> None:
    """Check that nobody else can put files there.

    Raises:
        RunError: somebody can.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise RunError(
            f"folder {folder} for snapshots belongs to user {status.st_uid} or can be written by "
            "others; remove it, or choose another checkpoint.local_folder"
        )
