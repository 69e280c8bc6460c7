"""Folders that exist completely or not at all, and what can be made again if a disk damages it."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

#: Errors of a file system that is full, or does not answer.
_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN}
)
#: File of a sealed folder: the CRC-32 of every other one.
SEAL = "checksums.json"
_BLOCK = 1 << 20  # bytes that are read at once


def may_pass(error: OSError) -> bool:
    """Whether a file system that has failed so may take files later, as when it is full."""
    return error.errno in _PASSING


def put_folder(
    folder: Path, write: Callable[[Path], None], *, replace: bool = False, seal: bool = False
) -> None:
    """Make `folder` with the contents that `write` puts into the folder given to it.

    It is written under another name and then renamed, so that a reader sees the whole folder or
    none, and nothing is left if `write` fails. If several processes make the same folder at
    once, the first one wins. With `replace` the folder may exist already; processes that have
    mapped its files keep them. With `seal` its files get checksums, for `drop_damaged`.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = "draft-", "old-"
    draft, old = (Path(tempfile.mkdtemp(prefix=name, dir=folder.parent)) for name in names)
    try:
        write(draft)
        if seal:
            (draft / SEAL).write_text(json.dumps(_read_checksums(draft)))
        draft.chmod(0o755)
        try:
            if replace and folder.is_dir():
                folder.rename(old)
            draft.rename(folder)
        except OSError:
            # Another process may have put the same contents there first.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


class FolderLock:
    """A file that is open and locked for as long as this lives, so that `in_use` knows of it.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.release = weakref.finalize(self, os.close, descriptor)
        with suppress(OSError):  # the file system knows no locks; `in_use` then says so, too
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def in_use(path: Path) -> bool:
    """Whether a process has a `FolderLock` of a file; true if that cannot be known."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def drop_superseded(folder: Path, pattern: str, lock_name: str, count: int) -> None:
    """Remove the folders next to `folder` that were not used for longest and that nobody uses now.

    Args:
        folder: a folder that stays.
        pattern: names of the folders of which some are removed.
        lock_name: name of the file in each that its users hold.
        count: number of folders that stay, by the times of their last use.
    """
    with suppress(OSError):  # another process removes them, or the disk does not answer
        every = sorted(folder.parent.glob(pattern), key=lambda path: -path.stat().st_mtime)
        for old in every[count:]:
            if old != folder and not in_use(old / lock_name):
                shutil.rmtree(old, ignore_errors=True)


def drop_damaged(folder: Path, what: str) -> None:
    """Remove a sealed folder whose files are not those that were written; a warning says so.

    Args:
        folder: a folder of what can be made again; it need not be there.
        what: what it holds, for the warning.

    Raises:
        OSError: the folder cannot be read or removed.
    """
    with suppress(FileNotFoundError):  # it is not there, or another process removes it
        if not (damage := _find_damage(folder)):
            return
        logger.warning("%s in %s are damaged and are made again: %s", what, folder, damage)
        gone = Path(tempfile.mkdtemp(prefix="old-", dir=folder.parent))
        try:
            folder.rename(gone)
        finally:
            shutil.rmtree(gone, ignore_errors=True)


def _find_damage(folder: Path) -> str:
    """What is not as it was written; empty if all is."""
    present = _read_checksums(folder)
    seal = folder / SEAL
    if not seal.is_file():
        return f"there is no {SEAL}"
    try:
        written = json.loads(seal.read_bytes())
    except ValueError as error:
        return f"{SEAL} is no JSON: {error}"
    if not isinstance(written, dict):
        return f"{SEAL} is no object"
    changed = sorted(name for name, checksum in written.items() if present.get(name) != checksum)
    return f"{', '.join(changed)} missing or not as written" if changed else ""


def _read_checksums(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SEAL)
    return {path.name: _checksum_of(path) for path in files}


def _checksum_of(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value
