"""Length buckets: which media of an encoder are packed, distributed and encoded by themselves.

Samples are read and measured by encoder. Where a step is planned, each medium goes to the bucket
that takes media of its length; packing and balancing then treat a bucket like an encoder::

    by encoder    vision  64 900 32
    by bucket       short   64 32     numbers 0 2
                  long    900       numbers 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from data.rows.spec import RowSpec
from data.sample import Lengths

T = TypeVar("T")


def by_bucket(lengths: Lengths, specs: Sequence[RowSpec]) -> Lengths:
    """Lengths of a sample by bucket, from those by encoder.

    Args:
        lengths: measured lengths of a sample.
        specs: row specs of all buckets; each medium goes through one of them.
    """
    if all(spec.bucket is None for spec in specs):
        return lengths
    numbers = {spec.name: _media_of_bucket(lengths, spec) for spec in specs}
    used = [spec for spec in specs if numbers[spec.name]]

    def values_by_bucket(values: Mapping[str, tuple[T, ...]]) -> dict[str, tuple[T, ...]]:
        return {
            m.name: tuple(values[m.module][number] for number in numbers[m.name])
            for m in used
            if m.module in values
        }

    own_numbers = {m.name: numbers[m.name] for m in used}
    return Lengths(values_by_bucket(lengths.modules), values_by_bucket(lengths.starts), own_numbers)


def by_module(lengths: Lengths, specs: Iterable[RowSpec]) -> Lengths:
    """The inverse of `by_bucket`."""
    if not lengths.numbers:
        return lengths
    buckets: dict[str, list[str]] = {}
    for spec in specs:
        if spec.name in lengths.numbers:
            buckets.setdefault(spec.module, []).append(spec.name)

    def values_by_encoder(values: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        return {
            encoder: _in_order(names, values, lengths.numbers)
            for encoder, names in buckets.items()
            if names[0] in values
        }

    return Lengths(values_by_encoder(lengths.modules), values_by_encoder(lengths.starts))


def number_of(lengths: Lengths, bucket: str, number: int) -> int:
    """The number of a medium of a bucket among all those of its encoder."""
    return lengths.numbers[bucket][number] if lengths.numbers else number


def _media_of_bucket(lengths: Lengths, spec: RowSpec) -> tuple[int, ...]:
    """Which media of its encoder a bucket takes."""
    counts, bucket = lengths.counts(spec.module), spec.bucket
    if bucket is None:
        return tuple(range(len(counts)))
    return tuple(np.flatnonzero(bucket.takes(counts)).tolist())


def _in_order(
    names: Sequence[str],
    values: Mapping[str, tuple[Any, ...]],
    numbers: Mapping[str, tuple[int, ...]],
) -> tuple[Any, ...]:
    """Values of the media of one encoder, in the order of their numbers."""
    pairs = (pair for name in names for pair in zip(numbers[name], values[name], strict=True))
    return tuple(value for _, value in sorted(pairs, key=lambda pair: pair[0]))
