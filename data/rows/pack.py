"""Rows of modules: the one definition of how a batch holds samples and media, and sends media.

`data.batch.ModuleRows` has the arrays; those of an encoder are listed by `RowSpec.arrays`, with an
entry for each position, `[rows, positions, ...]`, or for each output, `[rows, outputs, ...]`. Each
medium is a segment, numbered from 1 in its row, or several (tiles of an image); 0 is padding.
Negative ids mark positions after a medium, which convolutions read and which have no output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from data.batch import ModuleRows, NextTokenTargets
from data.rows.spec import RowSpec, shapes, sizes
from data.sample import Grid, ProcessedMedium

Words = NDArray[np.int32]
WORD = 4  # bytes

#: Fields of `ModuleRows` that every encoder has; what else it has is in `ModuleRows.arrays`.
_FIELDS = ("inputs", "segment_ids", "positions")


def empty_like(rows: ModuleRows) -> ModuleRows:
    """Rows of the same shapes, without a sample or a medium."""
    arrays = {name: np.zeros_like(array) for name, array in by_name(rows).items()}
    merges = {name: np.full_like(array, -1) for name, array in rows.merges.items()}
    targets = {
        name: NextTokenTargets(np.zeros_like(own.labels), np.zeros_like(own.weights))
        for name, own in rows.targets.items()
    }
    return replace(of_names(arrays), merges=merges, targets=targets)


def by_name(rows: ModuleRows) -> dict[str, NDArray[Any]]:
    """The arrays of an encoder's rows by the names of `RowSpec.arrays`, and the `segment_ids`."""
    return {name: getattr(rows, name) for name in _FIELDS} | dict(rows.arrays)


def of_names(arrays: Mapping[str, Any]) -> ModuleRows:
    """The inverse of `by_name`; what is in the place of the arrays is up to the caller."""
    more = {name: array for name, array in arrays.items() if name not in _FIELDS}
    inputs, segment_ids, positions = (arrays[name] for name in _FIELDS)
    return ModuleRows(inputs, segment_ids, positions, arrays=more)


def row_shapes(
    spec: RowSpec, rows: int, positions: int
) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
    """Shape and type of every array of `rows` rows with so many input positions."""
    outputs = positions // spec.reduction
    found: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
        name: ((rows, outputs if array.axis == "output" else positions, *array.shape), array.dtype)
        for name, array in spec.arrays.items()
    }
    return found | {"segment_ids": ((rows, positions), np.int32)}


def empty_rows(spec: RowSpec, rows: int, positions: int) -> ModuleRows:
    """Rows without a medium."""
    shapes_of = row_shapes(spec, rows, positions)
    return of_names({name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes_of.items()})


def write_medium(
    rows: ModuleRows, spec: RowSpec, row: int, start: int, segment: int, medium: ProcessedMedium
) -> None:
    """Write a medium into a row, from input position `start` on.

    Args:
        rows: arrays as from `empty_rows`.
        segment: number of the medium, or of the first of its parts.

    Raises:
        ValueError: the medium does not have the arrays of the spec.
    """
    arrays, count = medium.arrays, len(medium.inputs)
    if arrays.keys() != spec.arrays.keys():
        raise ValueError(
            f"{spec.name}: a medium has the arrays {', '.join(arrays)}; its encoder takes "
            f"{', '.join(spec.arrays)}"
        )
    starts = {"position": start, "output": start // spec.reduction}
    span, written = slice(start, start + count), by_name(rows)
    for name, array in spec.arrays.items():
        values = arrays[name] if array.offset is None else arrays[name] + starts[array.offset]
        first = starts["output"]
        place = slice(first, first + len(values)) if array.axis == "output" else span
        written[name][row, place] = values
    parts = spec.segments(count)
    ids = segment + np.arange(parts, dtype=np.int32)
    rows.segment_ids[row, span] = np.repeat(ids, count // parts)
    if spec.behind:
        behind = start + max(1, count - spec.behind)
        rows.segment_ids[row, behind : start + count] *= -1


def read_medium(
    rows: ModuleRows, spec: RowSpec, row: int, start: int, inputs: int, grid: Grid
) -> ProcessedMedium:
    """The medium of `inputs` positions in a row; the inverse of `write_medium`.

    Args:
        start: input position at which it begins.
        grid: see `Lengths.grids`.
    """
    starts = {"position": start, "output": start // spec.reduction}
    found, arrays = {}, by_name(rows)
    for name, (array, shape) in shapes(spec, inputs, grid).items():
        if array.axis == "medium":
            values = arrays[name][row, start]
        else:
            values = arrays[name][row, starts[array.axis] :][: shape[0]]
        found[name] = values if array.offset is None else values - starts[array.offset]
    gridded = grid if spec.is_gridded else None
    return ProcessedMedium(found.pop("inputs"), found.pop("positions"), found, gridded)


# ---- from host to host ---------------------------------------------------------------------------


def medium_words(spec: RowSpec, medium: ProcessedMedium) -> Words:
    """A medium in words of four bytes."""
    arrays = medium.arrays
    own = (np.asarray(arrays[name], array.dtype) for name, array in spec.arrays.items())
    return np.concatenate([array.ravel().view(np.int32) for array in own])


def words_of(spec: RowSpec, inputs: int, grid: Grid) -> int:
    """Words of a medium."""
    return sum(sizes(spec, inputs, grid))


def medium_of(spec: RowSpec, words: Words, inputs: int, grid: Grid) -> ProcessedMedium:
    """The inverse of `medium_words`."""
    cuts = np.cumsum(sizes(spec, inputs, grid))[:-1]
    parts = zip(shapes(spec, inputs, grid).items(), np.split(words, cuts), strict=True)
    found = {name: own.view(array.dtype).reshape(shape) for (name, (array, shape)), own in parts}
    own_grid = grid if spec.is_gridded else None
    return ProcessedMedium(found.pop("inputs"), found.pop("positions"), found, own_grid)
