"""Rows of modules: the one definition of how a batch holds samples and media, and sends media.

`data.batch.ModuleRows` has the arrays; those of media are listed by `RowSpec.arrays`, with an
entry for each position, `[rows, positions, ...]`, or for each output, `[rows, outputs, ...]`. Each
medium is a segment, numbered from 1 in its row, or several (tiles of an image); 0 is padding.
Negative ids mark positions after a medium, which convolutions read and which have no output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from data.batch import ModuleRows, NextTokenTargets, SampleTargets, Targets
from data.rows.spec import MediaRowSpec, RowSpec, medium_of_arrays, shapes, sizes
from data.sample import MediumLengths, ProcessedMedium

Words = NDArray[np.int32]
WORD = 4  # bytes

#: Fields that all `ModuleRows` of media have; what else there is, is in `ModuleRows.arrays`.
_FIELDS = ("inputs", "segment_ids", "positions")


def empty_like(rows: ModuleRows) -> ModuleRows:
    """Rows of the same shapes, without a sample or a medium."""
    arrays = {name: np.zeros_like(array) for name, array in by_name(rows).items()}
    merges = {name: np.full_like(array, -1) for name, array in rows.merges.items()}
    targets = {name: _empty_targets(values) for name, values in rows.targets.items()}
    index = None if rows.index is None else np.zeros_like(rows.index)
    return replace(of_names(arrays), index=index, merges=merges, targets=targets)


def _empty_targets(targets: Targets) -> Targets:
    """Targets of the same shapes, of no sample."""
    weights = np.zeros_like(targets.weights)
    if isinstance(targets, NextTokenTargets):
        return NextTokenTargets(np.zeros_like(targets.labels), weights)
    values = targets.values
    return SampleTargets(weights, None if values is None else np.zeros_like(values))


def by_name(rows: ModuleRows) -> dict[str, NDArray[Any]]:
    """The arrays of rows of media by the names of `RowSpec.arrays`, and the `segment_ids`."""
    return {name: getattr(rows, name) for name in _FIELDS} | dict(rows.arrays)


def of_names(arrays: Mapping[str, Any]) -> ModuleRows:
    """The inverse of `by_name`; what is in the place of the arrays is up to the caller."""
    more = {name: array for name, array in arrays.items() if name not in _FIELDS}
    inputs, segment_ids, positions = (arrays[name] for name in _FIELDS)
    return ModuleRows(inputs, segment_ids, positions, arrays=more)


def row_shapes(
    spec: RowSpec, rows: int, positions: int, entries: Sequence[int] = ()
) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
    """Shape and type of every array of `rows` rows with so many input positions.

    Args:
        entries: entries of a row on each further axis, in the order of `RowSpec.axes`.
    """
    lengths = {"position": positions, "medium": positions, "output": positions // spec.reduction}
    lengths |= dict(zip(spec.axes, entries, strict=True))
    shapes_of: dict[str, tuple[tuple[int, ...], DTypeLike]] = {
        name: ((rows, lengths[array.axis], *array.shape), array.dtype)
        for name, array in spec.arrays.items()
    }
    return shapes_of | {"segment_ids": ((rows, positions), np.int32)}


def empty_rows(spec: RowSpec, rows: int, positions: int, entries: Sequence[int] = ()) -> ModuleRows:
    """Rows without a medium; see `row_shapes`."""
    shapes_of = row_shapes(spec, rows, positions, entries)
    return of_names({name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes_of.items()})


def entries_of_row(spec: RowSpec, rows: ModuleRows) -> tuple[int, ...]:
    """Entries that a row holds on each further axis, in the order of `RowSpec.axes`."""
    arrays = by_name(rows)
    widths = {array.axis: arrays[name].shape[1] for name, array in spec.arrays.items()}
    return tuple(widths[axis] for axis in spec.axes)


def write_medium(
    rows: ModuleRows,
    spec: MediaRowSpec,
    row: int,
    start: int,
    segment: int,
    medium: ProcessedMedium,
    offsets: Sequence[int] = (),
) -> None:
    """Write a medium into a row, from input position `start` on.

    Args:
        rows: arrays as from `empty_rows`.
        segment: number of the medium, or of the first of its parts.
        offsets: first entry in the row on each further axis, in the order of `RowSpec.axes`.

    Raises:
        ValueError: the medium does not have the arrays of the spec.
    """
    arrays, count = medium.arrays, len(medium.inputs)
    if arrays.keys() != spec.arrays.keys():
        raise ValueError(
            f"{spec.name}: a medium has the arrays {', '.join(arrays)}; its encoder takes "
            f"{', '.join(spec.arrays)}"
        )
    span, written = slice(start, start + count), by_name(rows)
    firsts = _first_entries(spec, start, offsets)
    for name, array in spec.arrays.items():
        values = arrays[name] + firsts[array.offset] if array.offset else arrays[name]
        first = firsts[array.axis]
        place = span if array.axis == "medium" else slice(first, first + len(values))
        written[name][row, place] = values
    parts = spec.segments(count)
    ids = segment + np.arange(parts, dtype=np.int32)
    rows.segment_ids[row, span] = np.repeat(ids, count // parts)
    if spec.trailing:
        trailing = start + max(1, count - spec.trailing)
        rows.segment_ids[row, trailing : start + count] *= -1


def _first_entries(spec: RowSpec, start: int, offsets: Sequence[int]) -> dict[str, int]:
    """By axis, the first entry in its row of a medium that begins at input position `start`."""
    firsts = {"position": start, "medium": start, "output": start // spec.reduction}
    return firsts | dict(zip(spec.axes, offsets, strict=True))


def read_medium(
    rows: ModuleRows,
    spec: MediaRowSpec,
    row: int,
    start: int,
    lengths: MediumLengths,
    offsets: Sequence[int] = (),
) -> ProcessedMedium:
    """The medium of such lengths in a row; the inverse of `write_medium`.

    Args:
        start: input position at which it begins.
        offsets: as in `write_medium`.
    """
    firsts, values_of, arrays = _first_entries(spec, start, offsets), {}, by_name(rows)
    for name, (array, shape) in shapes(spec, lengths).items():
        first = firsts[array.axis]
        place = first if array.axis == "medium" else slice(first, first + shape[0])
        values = arrays[name][row, place]
        values_of[name] = values - firsts[array.offset] if array.offset else values
    return medium_of_arrays(values_of, lengths)


# ---- from host to host ---------------------------------------------------------------------------


def medium_words(spec: MediaRowSpec, medium: ProcessedMedium) -> Words:
    """A medium in words of four bytes."""
    arrays = medium.arrays
    ordered = (np.asarray(arrays[name], array.dtype) for name, array in spec.arrays.items())
    return np.concatenate([array.ravel().view(np.int32) for array in ordered])


def words_of(spec: MediaRowSpec, lengths: MediumLengths) -> int:
    """Words of a medium."""
    return sum(sizes(spec, lengths))


def medium_of(spec: MediaRowSpec, words: Words, lengths: MediumLengths) -> ProcessedMedium:
    """The inverse of `medium_words`."""
    ends = np.cumsum(sizes(spec, lengths))[:-1]
    parts = zip(shapes(spec, lengths).items(), np.split(words, ends), strict=True)
    values_of = {
        name: part.view(array.dtype).reshape(shape) for (name, (array, shape)), part in parts
    }
    return medium_of_arrays(values_of, lengths)
