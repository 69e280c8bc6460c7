"""Samples of a source that no step will hold, found from measured lengths alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from data.faults import Fault
from data.kinds.modality import Modality
from data.planning.lengths import LengthTable, MediaLengths
from data.planning.packing import Capacity
from data.sample import SampleError
from data.sources.source import Source

#: Samples that a message names.
NAMED = 3


def unusable_samples(lengths: LengthTable, capacity: Capacity, rows: int) -> dict[int, Fault]:
    """Why samples cannot be used, or do not fit in a row, by index and in its order.

    Args:
        lengths: of all samples.
        capacity: of a row.
        rows: over which the text and media of a sample may lie (`DataConfig.rows_apart`).
    """
    found = dict(lengths.unusable)
    for index in np.flatnonzero(_doubtful(lengths, capacity)).tolist():
        own = lengths[index]
        misfit = own if isinstance(own, Fault) else capacity.misfit(own, rows)
        if misfit is not None:
            found[index] = misfit
    return dict(sorted(found.items()))


def refuse(source: Source, found: Mapping[int, Fault]) -> None:
    """Raise for the first of unusable samples, with the names of some others.

    Raises:
        SampleError: there is one.
    """
    if not found:
        return
    (first, fault), *rest = found.items()
    others = f" ({len(rest)} more: {names(source, [i for i, _ in rest])})" if rest else ""
    raise SampleError(source.name(first), Fault(fault.kind, f"{fault}{others}"))


def names(source: Source, indices: list[int]) -> str:
    """The first few names of samples, and that there are more."""
    more = ", ..." if len(indices) > NAMED else ""
    return ", ".join(map(source.name, indices[:NAMED])) + more


def _doubtful(lengths: LengthTable, capacity: Capacity) -> NDArray[np.bool_]:
    """`[samples]`, those that are too long if all their media go to one row, and maybe others."""
    above = np.asarray(lengths.tokens) > capacity.limit("tokens")
    for modality in capacity.modalities:
        own, name = lengths.media[modality.name], modality.name
        above |= np.diff(own.offsets) > capacity.limit(f"{name} segments")
        above |= _positions(own, modality) > capacity.limit(name)
    return above


def _positions(own: MediaLengths, modality: Modality) -> NDArray[np.int64]:
    """`[samples]`, positions of a row that the media of each sample take together."""
    reduction = modality.reduction
    spans = -(-np.asarray(own.lengths, np.int64) // reduction) * reduction
    ends = np.concatenate([[0], np.cumsum(spans)])
    return ends[own.offsets[1:]] - ends[own.offsets[:-1]]
