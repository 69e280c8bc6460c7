"""Tensors in safetensors files, single or sharded with an index; nothing is ever unpickled.

Tensors are views of mapped files: only the values that are used are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

#: Types of safetensors that weights have.
TYPES: Mapping[str, np.dtype] = MappingProxyType(
    {
        "F64": np.dtype(np.float64),
        "F32": np.dtype(np.float32),
        "F16": np.dtype(np.float16),
        "BF16": np.dtype(ml_dtypes.bfloat16),
    }
)


#: Types that tensors have which are only copied, such as the numbers of positions in CLIP.
STORED: Mapping[str, np.dtype] = MappingProxyType(
    {
        **TYPES,
        **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
        **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
        "BOOL": np.dtype(np.bool_),
    }
)
#: Values that are looked at together.
_CHUNK = 1 << 22


class PretrainedError(ValueError):
    """Released weights, or their configuration, that cannot be used."""


class OtherModulesError(PretrainedError):
    """A model of other modules than those of a released form."""


@dataclass(frozen=True)
class Stored:
    """The place of a tensor in a file.

    Attributes:
        path: path of the file.
        offset: offset of its first byte in the file.
        shape, dtype: shape of the tensor, and its type as safetensors names it.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self) -> NDArray:
        """The tensor, mapped and read as it is used.

        Raises:
            PretrainedError: the tensor has a type that weights do not have.
        """
        return self._mapped(TYPES)

    def chunks(self) -> Iterator[NDArray]:
        """The tensor's values in order, in parts that take little memory.

        Raises:
            PretrainedError: as in `view`.
        """
        flat = self.view().reshape(-1)
        return (flat[at : at + _CHUNK] for at in range(0, flat.size, _CHUNK))

    def copied(self) -> NDArray:
        """A view of the tensor, which unlike that of `view` may have a type that no weights have.

        Raises:
            PretrainedError: the tensor has an unknown type.
        """
        return self._mapped(STORED)

    def _mapped(self, types: Mapping[str, np.dtype]) -> NDArray:
        if self.dtype not in types:
            raise PretrainedError(
                f"{self.path}: a tensor is of type {self.dtype}; valid: {', '.join(types)}"
            )
        return np.memmap(self.path, types[self.dtype], "r", self.offset, self.shape)


@dataclass(frozen=True)
class Tensors(Mapping[str, Stored]):
    """All tensors of a folder by name."""

    folder: Path
    by_name: Mapping[str, Stored]

    def __getitem__(self, name: str) -> Stored:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """Files that hold them."""
        return tuple(sorted({stored.path for stored in self.by_name.values()}))


def equal(one: Stored, other: Stored) -> bool:
    """Whether two tensors hold the same values."""
    pairs = zip(one.chunks(), other.chunks(), strict=True)
    return one.shape == other.shape and all(np.array_equal(*pair) for pair in pairs)


def open_tensors(folder: Path) -> Tensors:
    """The tensors of `model.safetensors`, or, without it, of all files that its index lists.

    Raises:
        PretrainedError: neither is there, or one is damaged, or leaves the folder, or they do not
            hold what the index says.
    """
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file():
        return Tensors(folder, MappingProxyType(read_tensors(single)))
    if not index.is_file():
        raise PretrainedError(
            f"{folder} holds neither {SINGLE} nor {INDEX}; only safetensors are read, so save the "
            "weights in that format"
        )
    return Tensors(folder, MappingProxyType(_indexed(folder, _weight_map(index))))


def _weight_map(index: Path) -> dict[str, str]:
    """Tensor to file, as the index says."""
    try:
        found = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PretrainedError(f"{index} is no index of safetensors: {error!r}") from error
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise PretrainedError(f"{index}: weight_map does not map tensors to files")
    return found


def _indexed(folder: Path, files: Mapping[str, str]) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for file in sorted(set(files.values())):
        if PurePosixPath(file).name != file or "\\" in file or not file.endswith(".safetensors"):
            raise PretrainedError(
                f"{folder / INDEX}: {file!r} is no name of a safetensors file in that folder"
            )
        own = read_tensors(folder / file)
        for name in own:
            _check_place(folder, name, file, files.get(name, file))
        found |= own
    differing = sorted(files.keys() ^ found.keys())
    if differing:
        raise PretrainedError(
            f"{folder / INDEX} and the files that it lists do not hold the same tensors: "
            f"{listed(differing)}"
        )
    return found


def _check_place(folder: Path, name: str, file: str, listed: str) -> None:
    """Raise PretrainedError for a tensor in another file than the index says."""
    if file != listed:
        raise PretrainedError(
            f"{folder / file} holds {name}, which is in {listed} by {INDEX}; valid: every tensor "
            "once, in the file that the index names"
        )


def read_tensors(path: Path) -> dict[str, Stored]:
    """Places of the tensors of one file, by name.

    Raises:
        PretrainedError: the file is missing or damaged.
    """
    try:
        # The library refuses truncated files and headers that do not fit their files.
        with safe_open(path, framework="np"):
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (OSError, ValueError, SafetensorError) as error:
        raise PretrainedError(f"{path} is no whole safetensors file: {error}") from error
    return {
        name: Stored(path, 8 + length + own["data_offsets"][0], tuple(own["shape"]), own["dtype"])
        for name, own in header.items()
        if name != "__metadata__"
    }


def listed(names: list[str], most: int = 8) -> str:
    """The first names, and the number of all others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
