"""The places where the records of files begin, found once and mapped by every process.

An index is a few arrays in a folder `index-<fingerprint>`, whose name is a fingerprint of the files
that it is of: of other files, or files that have changed, there is none yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.folders import drop_damaged, put_folder
from data.sample import DataError
from data.sources.kept import in_cache

_VERSION = 2  # of what indexes hold
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Index:
    """The arrays of an index, mapped; pickled, it is the name of its folder."""

    folder: Path
    arrays: Arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __reduce__(self) -> tuple[object, ...]:
        return _load, (self.folder, tuple(self.arrays))


def open_index(cache: Path, what: str, names: Sequence[str], build: Callable[[], Arrays]) -> Index:
    """The index of `what`; built now, and then kept, if there is none yet.

    One whose files are damaged is built again.

    Args:
        cache: folder that indexes are kept in.
        what: fingerprint of the files and of the way they are indexed.
        names: names of the arrays.
        build: makes the arrays.

    Raises:
        DataError: the index cannot be built, kept or read.
    """
    name = hashlib.sha256(f"{_VERSION} {what}".encode()).hexdigest()[:16]
    folder = cache / f"index-{name}"
    with in_cache(folder):
        drop_damaged(folder, "places of records")
    if not folder.is_dir():
        arrays = build()
        with in_cache(folder):
            put_folder(folder, lambda draft: _write(draft, arrays), seal=True)
    return _load(folder, tuple(names))


def _write(folder: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def _load(folder: Path, names: Sequence[str]) -> Index:
    try:
        return Index(folder, {name: _mapped(folder / f"{name}.npy") for name in names})
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"the index in {folder} is damaged: {error}; delete it") from error


def _mapped(path: Path) -> NDArray[Any]:
    # Nothing can be mapped of an empty array.
    array: NDArray[Any] = (
        np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
    )
    return array
