"""Folders of `data.cache`, which keep what can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.folders import may_pass
from data.sample import AwayError, DataError


@contextmanager
def in_cache(folder: Path) -> Iterator[None]:
    """Context that reads or writes a folder of `data.cache`.

    Raises:
        DataError: instead of an OSError. AwayError: it may pass, as a full disk does.
    """
    try:
        yield
    except OSError as error:
        kind = AwayError if may_pass(error) else DataError
        raise kind(f"data.cache: cannot write {folder}: {error}") from error
