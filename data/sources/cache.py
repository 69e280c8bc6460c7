"""Folders of `data.cache`, which keep what can be made again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from data.folders import drop_superseded, may_pass
from data.sample import DataError, UnreachableError

#: Folders of a kind that are kept of each source, those that were used last.
KEPT = 4


def keep_last(folder: Path, prefix: str, lock_name: str) -> None:
    """Note that a folder of a source is used, and remove older ones of its kind next to it.

    Those that a process uses stay.

    Args:
        folder: the folder.
        prefix: begin of the names of folders of the kind.
        lock_name: name of the file in each that its users lock.
    """
    with suppress(OSError):
        os.utime(folder)
    drop_superseded(folder, f"{prefix}*", lock_name, KEPT)


def home_of(cache: Path, names: Sequence[str]) -> Path:
    """The folder for what is derived from the source of such files, or of such a name."""
    return cache / f"source-{hashlib.sha256(repr([*names]).encode()).hexdigest()[:16]}"


def unwritable_error(reason: str, error: OSError) -> DataError:
    """The error of an unwritable folder; UnreachableError if that may pass, as of a full disk."""
    return UnreachableError(reason) if may_pass(error) else DataError(reason)


@contextmanager
def in_cache(folder: Path) -> Iterator[None]:
    """Context that reads or writes a folder of `data.cache`.

    Raises:
        DataError: instead of an OSError, as of `unwritable_error`.
    """
    try:
        yield
    except OSError as error:
        raise unwritable_error(f"data.cache: cannot write {folder}: {error}", error) from error
