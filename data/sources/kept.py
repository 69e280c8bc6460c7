"""Folders of `data.cache`, which keep what can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.sample import DataError


@contextmanager
def in_cache(folder: Path) -> Iterator[None]:
    """Context that reads or writes a folder of `data.cache`.

    Raises:
        DataError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"data.cache: cannot write {folder}: {error}") from error
