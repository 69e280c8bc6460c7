"""The places where the records of files begin, found once and mapped by every process.

An index is a few arrays in a folder `index-<fingerprint>`, whose name is a fingerprint of the files
that it is of: of other files, or files that have changed, there is none yet. Each source has a
folder of its own for the last few of its indexes; older ones that no process uses are removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.folders import FolderLock, drop_damaged, put_folder
from data.sample import DataError
from data.sources.cache import in_cache, keep_last

_VERSION = 2  # of what indexes hold
_PREFIX = "index-"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """The arrays of an index, mapped; pickled, it is the name of its folder.

    lock: keeps the folder from being removed as long as the index is there.
    """

    folder: Path
    arrays: Arrays
    lock: FolderLock = field(repr=False)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __reduce__(self) -> tuple[object, ...]:
        return _load_index, (self.folder, tuple(self.arrays))


def open_index(
    home: Path, what: str, names: Sequence[str], build: Callable[[], Arrays]
) -> RecordIndex:
    """The index of `what`; built now, and then kept, if there is none yet.

    One whose files are damaged is built again.

    Args:
        home: folder for what is kept of the source, as of `home_of`.
        what: fingerprint of the files and of the way they are indexed.
        names: names of the arrays.
        build: makes the arrays.

    Raises:
        DataError: the index cannot be built, kept or read.
    """
    name = hashlib.sha256(f"{_VERSION} {what}".encode()).hexdigest()[:16]
    folder = home / f"{_PREFIX}{name}"
    with in_cache(folder):
        drop_damaged(folder, "places of records")
    if not folder.is_dir():
        arrays = build()
        with in_cache(folder):
            put_folder(folder, lambda draft: _write_arrays(draft, arrays), seal=True)
    index = _load_index(folder, tuple(names))
    keep_last(folder, _PREFIX, _array_file(names[0]))
    return index


def _write_arrays(folder: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        np.save(folder / _array_file(name), array, allow_pickle=False)


def _array_file(name: str) -> str:
    """The file of an array."""
    return f"{name}.npy"


def _load_index(folder: Path, names: Sequence[str]) -> RecordIndex:
    try:
        lock = FolderLock(folder / _array_file(names[0]))
        return RecordIndex(
            folder, {name: _map_array(folder / _array_file(name)) for name in names}, lock
        )
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"the index in {folder} is damaged: {error}; delete it") from error


def _map_array(path: Path) -> NDArray[Any]:
    # Nothing can be mapped of an empty array.
    array: NDArray[Any] = (
        np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
    )
    return array
