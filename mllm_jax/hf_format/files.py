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
#: Values of a chunk.
_CHUNK = 1 << 22


class PretrainedError(ValueError):
    """Released weights, or their configuration, that cannot be used."""


class OtherModulesError(PretrainedError):
    """A model of other modules than those of a release format."""


@dataclass(frozen=True)
class StoredTensor:
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

    def map_weights(self) -> NDArray:
        """Map the tensor; its values are read as they are used.

        Raises:
            PretrainedError: the tensor has a type that weights do not have.
        """
        return self._map_file(TYPES)

    def iterate_chunks(self) -> Iterator[NDArray]:
        """Iterate over the tensor's values in order, in chunks that take little memory.

        Raises:
            PretrainedError: as in `map_weights`.
        """
        flat = self.map_weights().reshape(-1)
        return (flat[at : at + _CHUNK] for at in range(0, flat.size, _CHUNK))

    def map_any_type(self) -> NDArray:
        """Map the tensor, whose type may be one that weights do not have.

        Raises:
            PretrainedError: the tensor has an unknown type.
        """
        return self._map_file(STORED)

    def _map_file(self, types: Mapping[str, np.dtype]) -> NDArray:
        if self.dtype not in types:
            raise PretrainedError(
                f"{self.path}: a tensor is of type {self.dtype}; valid: {', '.join(types)}"
            )
        return np.memmap(self.path, types[self.dtype], "r", self.offset, self.shape)


@dataclass(frozen=True)
class ReleasedTensors(Mapping[str, StoredTensor]):
    """All tensors of a folder by name."""

    folder: Path
    by_name: Mapping[str, StoredTensor]

    def __getitem__(self, name: str) -> StoredTensor:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """Files that hold them."""
        return tuple(sorted({stored.path for stored in self.by_name.values()}))


def equal_values(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two tensors have the same values."""
    chunks = zip(one.iterate_chunks(), other.iterate_chunks(), strict=True)
    return one.shape == other.shape and all(np.array_equal(*pair) for pair in chunks)


def open_tensors(folder: Path) -> ReleasedTensors:
    """The tensors of `model.safetensors`, or, without it, of all files that its index lists.

    Raises:
        PretrainedError: neither is there, or one is damaged, or leaves the folder, or they do not
            hold what the index says.
    """
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file():
        return ReleasedTensors(folder, MappingProxyType(read_tensors(single)))
    if not index.is_file():
        raise PretrainedError(
            f"{folder} holds neither {SINGLE} nor {INDEX}; only safetensors are read, so save the "
            "weights in that format"
        )
    return ReleasedTensors(folder, MappingProxyType(_read_files(folder, _read_index(index))))


def _read_index(index: Path) -> dict[str, str]:
    """Tensor to file, as the index says."""
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PretrainedError(f"{index} is no index of safetensors: {error!r}") from error
    if not isinstance(weight_map, dict) or not all(
        isinstance(file, str) for file in weight_map.values()
    ):
        raise PretrainedError(f"{index}: weight_map does not map tensors to files")
    return weight_map


def _read_files(folder: Path, files: Mapping[str, str]) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    for file in sorted(set(files.values())):
        if PurePosixPath(file).name != file or "\\" in file or not file.endswith(".safetensors"):
            raise PretrainedError(
                f"{folder / INDEX}: {file!r} is no name of a safetensors file in that folder"
            )
        in_file = read_tensors(folder / file)
        for name in in_file:
            _check_place(folder, name, file, files.get(name, file))
        tensors |= in_file
    differing = sorted(files.keys() ^ tensors.keys())
    if differing:
        raise PretrainedError(
            f"{folder / INDEX} and the files that it lists do not hold the same tensors: "
            f"{list_names(differing)}"
        )
    return tensors


def _check_place(folder: Path, name: str, file: str, listed: str) -> None:
    """Raise PretrainedError for a tensor in another file than the index says."""
    if file != listed:
        raise PretrainedError(
            f"{folder / file} holds {name}, which is in {listed} by {INDEX}; valid: every tensor "
            "once, in the file that the index names"
        )


def read_tensors(path: Path) -> dict[str, StoredTensor]:
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
        name: StoredTensor(
            path, 8 + length + entry["data_offsets"][0], tuple(entry["shape"]), entry["dtype"]
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }


def list_names(names: list[str], most: int = 8) -> str:
    """Join the first names, with the number of all others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
