"""Folders of `data.cache`, which keep what can be made again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from data.folders import may_pass
from data.sample import AwayError, DataError


def home_of(cache: Path, names: Sequence[str]) -> Path:
    """The folder for what is derived from the source of such files, or of such a name."""
    return cache / f"source-{hashlib.sha256(repr([*names]).encode()).hexdigest()[:16]}"


def unwritable(told: str, error: OSError) -> DataError:
    """The error of a folder that takes no files; AwayError if that may pass, as of a full disk."""
    return AwayError(told) if may_pass(error) else DataError(told)


@contextmanager
def in_cache(folder: Path) -> Iterator[None]:
    """Context that reads or writes a folder of `data.cache`.

    Raises:
        DataError: instead of an OSError, as of `unwritable`.
    """
    try:
        yield
    except OSError as error:
        raise unwritable(f"data.cache: cannot write {folder}: {error}", error) from error
