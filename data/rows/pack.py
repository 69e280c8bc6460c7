"""Rows of an encoder: the one definition of how a batch holds media, and of how they are sent.

    inputs       [rows, positions, features]     float32
    segment_ids  [rows, positions]               int32, see below
    ...          as `Modality.arrays` says: [rows, positions, ...], or [rows, outputs, ...]

Each medium is a segment, numbered from 1 in its row, or several (tiles of an image); 0 is padding.
Negative ids mark positions after a medium, which convolutions read and which have no output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from data.rows.spec import Modality, shapes, sizes
from data.sample import Medium, Size

Rows = dict[str, NDArray[Any]]
Words = NDArray[np.int32]
WORD = 4  # bytes

#: Arrays of the decoder's rows, `[rows, tokens]`, and their types; padding is zero in all.
DECODER: Mapping[str, DTypeLike] = {
    "tokens": np.int32,
    "targets": np.int32,
    "loss_weight": np.float32,
    "segment_ids": np.int32,
    "positions": np.int32,
}


def empty_decoder(shape: tuple[int, int], encoders: Sequence[str]) -> dict[str, Any]:
    """Rows of the decoder, `[rows, tokens]`, without a sample; at no token does an output land."""
    media = {name: np.full(shape, -1, np.int32) for name in encoders}
    return {name: np.zeros(shape, dtype) for name, dtype in DECODER.items()} | {"media": media}


def row_shapes(
    modality: Modality, rows: int, positions: int
) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
    """Shape and type of every array of `rows` rows with so many input positions."""
    outputs = positions // modality.reduction
    found: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
        name: ((rows, outputs if array.per == "output" else positions, *array.shape), array.dtype)
        for name, array in modality.arrays.items()
    }
    return found | {"segment_ids": ((rows, positions), np.int32)}


def empty_rows(modality: Modality, rows: int, positions: int) -> Rows:
    """Rows without a medium."""
    return {
        name: np.zeros(shape, dtype)
        for name, (shape, dtype) in row_shapes(modality, rows, positions).items()
    }


def write_medium(
    rows: Rows, modality: Modality, row: int, start: int, segment: int, medium: Medium
) -> None:
    """Write a medium into a row, from input position `start` on.

    Args:
        rows: arrays as from `empty_rows`.
        segment: number of the medium, or of the first of its parts.

    Raises:
        ValueError: the medium does not have the arrays of the modality.
    """
    arrays, count = medium.arrays, len(medium.inputs)
    if arrays.keys() != modality.arrays.keys():
        raise ValueError(
            f"{modality.name}: a medium has the arrays {', '.join(arrays)}; its encoder takes "
            f"{', '.join(modality.arrays)}"
        )
    span, first = slice(start, start + count), start // modality.reduction
    for name, array in modality.arrays.items():
        own = arrays[name]
        if array.per == "output":
            rows[name][row, first : first + len(own)] = own + first if array.is_place else own
        else:
            rows[name][row, span] = own
    parts = modality.segments(count)
    ids = segment + np.arange(parts, dtype=np.int32)
    rows["segment_ids"][row, span] = np.repeat(ids, count // parts)
    if modality.behind:
        behind = start + max(1, count - modality.behind)
        rows["segment_ids"][row, behind : start + count] *= -1


def read_medium(
    rows: Rows, modality: Modality, row: int, start: int, inputs: int, grid: Size
) -> Medium:
    """The medium of `inputs` positions in a row; the inverse of `write_medium`.

    Args:
        start: input position at which it begins.
        grid: see `Lengths.grids`.
    """
    first, found = start // modality.reduction, {}
    for name, (array, shape) in shapes(modality, inputs, grid).items():
        if array.per == "medium":
            found[name] = rows[name][row, start]
        else:
            begin = first if array.per == "output" else start
            own = rows[name][row, begin : begin + shape[0]]
            found[name] = own - first if array.is_place else own
    gridded = grid if modality.is_gridded else None
    return Medium(found.pop("inputs"), found.pop("positions"), found, gridded)


# ---- from host to host ---------------------------------------------------------------------------


def medium_words(modality: Modality, medium: Medium) -> Words:
    """A medium in words of four bytes."""
    arrays = medium.arrays
    own = (np.asarray(arrays[name], array.dtype) for name, array in modality.arrays.items())
    return np.concatenate([array.ravel().view(np.int32) for array in own])


def words_of(modality: Modality, inputs: int, grid: Size) -> int:
    """Words of a medium."""
    return sum(sizes(modality, inputs, grid))


def medium_of(modality: Modality, words: Words, inputs: int, grid: Size) -> Medium:
    """The inverse of `medium_words`."""
    cuts = np.cumsum(sizes(modality, inputs, grid))[:-1]
    parts = zip(shapes(modality, inputs, grid).items(), np.split(words, cuts), strict=True)
    found = {name: own.view(array.dtype).reshape(shape) for (name, (array, shape)), own in parts}
    own_grid = grid if modality.is_gridded else None
    return Medium(found.pop("inputs"), found.pop("positions"), found, own_grid)
