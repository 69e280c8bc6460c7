"""Writing safetensors files in any order of tensors: headers first, then each tensor in its place.

Layers are stacked here and apart in released files. So all layers of a parameter are written
while it is in memory, into all files that have one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.dtype_ranges import convert_values, count_underflows
from mllm_jax.hf_format.files import INDEX, SINGLE, STORED, StoredTensor

#: Bytes of a file above which another one is begun.
FILE_BYTES = 5 * 10**9
#: Headers end at multiples of so many bytes.
_ALIGNED = 8

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TensorDraft:
    """Files whose tensors are being written.

    Attributes:
        places: place of each tensor.
    """

    places: Mapping[str, StoredTensor]

    @classmethod
    def create_files(
        cls,
        folder: Path,
        tensors: Mapping[str, tuple[Shape, str]],
        most: int = FILE_BYTES,
        single: str = SINGLE,
    ) -> TensorDraft:
        """Files for all tensors, with an index if there is more than one.

        Args:
            folder: existing folder for the files.
            tensors: shape and type, as safetensors names it, by name.
            most: bytes of a file; a larger tensor has a separate file.
            single: name of the file, if there is only one.

        Raises:
            OSError: the files cannot be written.
        """
        groups = _group_by_file(tensors, most)
        count, places = len(groups), dict[str, StoredTensor]()
        for number, group in enumerate(groups, 1):
            name = single if count == 1 else f"model-{number:05}-of-{count:05}.safetensors"
            places |= _create_file(
                folder / name, {tensor_name: tensors[tensor_name] for tensor_name in group}
            )
        if count > 1:
            _write_index(folder / INDEX, places)
        return cls(MappingProxyType(places))

    def write_tensor(self, name: str, tensor: NDArray[Any]) -> int:
        """Write one tensor, rounded to its type.

        Returns:
            How many of its values are too small for the type, and became zero.

        Raises:
            RangeError: a value is infinite, no number, or too large for the type.
        """
        rounded = convert_values(name, tensor, STORED[self.places[name].dtype])
        self.copy_tensor(name, rounded)
        return count_underflows(tensor, rounded)

    def copy_tensor(self, name: str, tensor: NDArray[Any]) -> None:
        """Write one tensor that has its type, whatever its values are."""
        place = self.places[name]
        assert tensor.shape == place.shape, name
        target = np.memmap(place.path, STORED[place.dtype], "r+", place.offset, place.shape)
        target[...] = tensor
        target.flush()


def _count_bytes(shape: Shape, dtype: str) -> int:
    return math.prod(shape) * STORED[dtype].itemsize


def _group_by_file(tensors: Mapping[str, tuple[Shape, str]], most: int) -> list[list[str]]:
    """Names by file, in their order."""
    groups: list[list[str]] = [[]]
    total = 0
    for name, spec in tensors.items():
        size = _count_bytes(*spec)
        if groups[-1] and total + size > most:
            groups.append([])
            total = 0
        groups[-1].append(name)
        total += size
    return groups


def _create_file(path: Path, tensors: Mapping[str, tuple[Shape, str]]) -> dict[str, StoredTensor]:
    """A file of zeros with its header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offsets, end = dict[str, int](), 0
    for name, (shape, dtype) in tensors.items():
        offsets[name], start = end, end
        end += _count_bytes(shape, dtype)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    first = 8 + len(text)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(first + end)
    return {
        name: StoredTensor(path, first + offsets[name], shape, dtype)
        for name, (shape, dtype) in tensors.items()
    }


def _write_index(path: Path, places: Mapping[str, StoredTensor]) -> None:
    total = sum(_count_bytes(place.shape, place.dtype) for place in places.values())
    files = {name: place.path.name for name, place in places.items()}
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": files}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
