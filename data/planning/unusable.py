"""Samples of a source that no step will hold, found from measured lengths alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.faults import SampleFault
from data.planning.lengths import LengthTable, MediaLengths
from data.planning.packing import Capacity
from data.planning.problem import Ints
from data.rows.spec import MediaRowSpec
from data.sample import SampleError
from data.sources.source import Source

#: Most samples that a message names.
NAMED = 3


def unusable_samples(lengths: LengthTable, capacity: Capacity, rows: int) -> dict[int, SampleFault]:
    """Why samples cannot be used, or do not fit in a row, by index and in its order.

    Args:
        lengths: lengths of all samples.
        capacity: capacity of a row.
        rows: number of rows over which text and media of a sample may be spread
            (`DataConfig.rows_apart`).
    """
    faults = dict(lengths.unusable)
    for index in np.flatnonzero(_may_not_fit(lengths, capacity)).tolist():
        sample = lengths[index]
        bucket = sample if isinstance(sample, SampleFault) else capacity.by_bucket(sample)
        misfit = bucket if isinstance(bucket, SampleFault) else capacity.misfit(bucket, rows)
        if misfit is not None:
            faults[index] = misfit
    return dict(sorted(faults.items()))


def refuse(source: Source, faults: Mapping[int, SampleFault]) -> None:
    """Raise SampleError for the first of the unusable samples, with the names of some others.

    Raises:
        SampleError: there is an unusable sample.
    """
    if not faults:
        return
    (first, fault), *others_found = faults.items()
    others = (
        f" ({len(others_found)} more: {names(source, [i for i, _ in others_found])})"
        if others_found
        else ""
    )
    raise SampleError(source.name(first), SampleFault(fault.kind, f"{fault}{others}"))


def names(source: Source, indices: list[int]) -> str:
    """The first few names of samples, and a note if there are more."""
    more = ", ..." if len(indices) > NAMED else ""
    return ", ".join(map(source.name, indices[:NAMED])) + more


def _may_not_fit(lengths: LengthTable, capacity: Capacity) -> NDArray[np.bool_]:
    """`[samples]`: whether a sample may be too long for one row; true for all that are."""
    most = capacity.limit(capacity.text.positions_budget)
    most = most if capacity.longest is None else min(most, capacity.longest)
    above = np.asarray(lengths.tokens) > most
    for spec in capacity.media:
        media, name = lengths.media[spec.module], spec.name
        counts, positions = _count_taken(media, spec)
        above |= counts > capacity.limit(spec.segments_resource)
        above |= positions > capacity.limit(name)
        for axis, key in enumerate(spec.budgets[axis] for axis in spec.axes):
            above |= _count_entries(media, spec, axis) > capacity.limit(key)
    return above


def _count_taken(media: MediaLengths, spec: MediaRowSpec) -> tuple[Ints, Ints]:
    """`[samples]`, media of each sample that a bucket takes, and positions of a row for them."""
    reduction, lengths = spec.reduction, np.asarray(media.lengths, np.int64)
    spans, bucket = -(-lengths // reduction) * reduction, spec.bucket
    here = np.ones(len(lengths), bool) if bucket is None else bucket.takes(lengths)
    return _by_sample(here, media.offsets), _by_sample(np.where(here, spans, 0), media.offsets)


def _count_entries(media: MediaLengths, spec: MediaRowSpec, axis: int) -> Ints:
    """`[samples]`, entries of the media of a bucket on one of its further axes."""
    assert media.entries is not None
    lengths = np.asarray(media.lengths, np.int64)
    is_here = np.ones(len(lengths), bool) if spec.bucket is None else spec.bucket.takes(lengths)
    return _by_sample(np.where(is_here, media.entries[:, axis], 0), media.offsets)


def _by_sample(values: NDArray[Any], offsets: NDArray[np.integer]) -> Ints:
    """Sums over the media of each sample."""
    ends = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(ends[offsets[1:]] - ends[offsets[:-1]], np.int64)
