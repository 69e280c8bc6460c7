"""Where a step cuts between the short and the long media of an encoder: by cost, from lengths.

Of two buckets, the first encodes each medium whole on one rank, where a single long medium may keep
all other ranks waiting. The second splits a medium over a group of ranks, which then exchange heads
for positions in every layer. So the second bucket takes the long media, and every step cuts where
the heaviest ranks of both buckets together take the fewest seconds. Two ranks, a second for each
position and one for the exchange of 30::

    lengths             16 16 90
    all short           rank 0: 90    rank 1: 16 16                          90 s
    cut at 16           rank 0: 16    rank 1: 16     both: 90 / 2 + 3        64 s
    all long            both: 122 / 2 + 122 / 30                             65 s

`data.rows.spec.BucketCost` says what a medium costs in each bucket. Where rows are computed whole,
buckets cost by their rows: a short medium in a long row costs as much as the row. Rows of 24 and
of 96::

    cut at 16           a row for 16 16, one for 90
    all long            a row for 90, and a row of 96 for 16 16, which has no room next to 90

Every host finds the same cut: sums have one order, and of equal cuts the first in order counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.planning.balance import lpt
from data.planning.buckets import by_bucket, by_module
from data.planning.packing import Capacity, in_few_rows
from data.planning.problem import BalanceProblem, Ints
from data.rows.spec import BucketCost, RowSpec
from data.sample import Lengths

#: Steps that media need, a lower bound of the seconds of both buckets in a step, and the cut.
Candidate = tuple[float, float, int]


@dataclass(frozen=True)
class _Pair:
    """The buckets of an encoder that are cut by cost.

    Attributes:
        short, long: the bucket of short media, and that of long ones.
        most: the highest cut.
        costs: costs of both.
    """

    short: RowSpec
    long: RowSpec
    most: int
    costs: tuple[BucketCost, BucketCost]

    def seconds_with(self, lengths: Ints, most: int) -> float:
        """Seconds of both buckets, one after the other, under a cut of sorted lengths."""
        count = int(np.searchsorted(lengths, most, side="right"))
        short, long = self.costs
        return bucket_seconds(lengths[:count], short) + bucket_seconds(lengths[count:], long)


def choose_thresholds(
    samples: Sequence[Lengths], capacity: Capacity, rows: int, rows_of_sample: int = 1
) -> Capacity:
    """The capacity whose buckets by cost are cut for a step.

    The cut is made for the oldest samples whose text fills a step. Budgets of both buckets count
    first: a cut under which more media would wait for another step is not taken.

    Args:
        samples: lengths by bucket of the samples on offer, oldest first.
        capacity: capacity of a row, with its buckets at the highest cut.
        rows: number of rows of the step.
        rows_of_sample: number of rows over which text and media of a sample may lie.
    """
    oldest = samples[: _count_filling(samples, capacity, rows)]
    by_encoder = [by_module(lengths, capacity.specs) for lengths in oldest]

    def fits_rows(cut: Capacity) -> bool:
        """Whether no sample is too large for the rows of its buckets."""
        return not any(cut.misfit(cut.by_bucket(lengths), rows_of_sample) for lengths in by_encoder)

    for pair in _bucket_pairs(capacity):
        encoder = pair.short.module
        media = [n for lengths in by_encoder for n in lengths.counts(encoder)]
        lengths, best = np.sort(np.array(media, np.int64)), (np.inf, np.inf)
        for steps, bound, most in _candidate_thresholds(lengths, capacity, rows, pair):
            if (steps, bound) >= best:
                break
            seconds, cut = pair.seconds_with(lengths, most), cut_at(capacity, encoder, most)
            if (steps, seconds) < best and fits_rows(cut):
                best, capacity = (steps, seconds), cut
    return capacity


def relaid(samples: Sequence[Lengths], capacity: Capacity) -> list[Lengths]:
    """Lengths by the buckets of another cut, from those of any."""
    specs = capacity.specs
    return [by_bucket(by_module(lengths, specs), specs) for lengths in samples]


def has_thresholds(capacity: Capacity) -> bool:
    """Whether any encoder's buckets are cut by cost."""
    return any(True for _ in _bucket_pairs(capacity))


def bucket_seconds(lengths: Ints, cost: BucketCost) -> float:
    """Seconds of the heaviest group of devices of a bucket; none without media.

    Args:
        lengths: `[media]`: input positions of the bucket's media, which are distributed longest
            first; in as few rows as hold them, of which every group has as many, if rows are
            computed whole.
    """
    if not len(lengths):
        return 0.0
    if cost.row:
        # A medium above a row, which no cut that holds it has, counts as one.
        rows = in_few_rows(np.minimum(lengths, cost.row), cost.row, len(lengths))
        return cost.fixed + float(group_seconds(lengths, rows % cost.groups, rows, cost).max())
    group = lpt(BalanceProblem(lengths, cost.groups, cost))
    return cost.fixed + float(group_seconds(lengths, group, group, cost).max())


def group_seconds(lengths: Ints, groups: Ints, rows: Ints, cost: BucketCost) -> NDArray[np.float64]:
    """Seconds of every group of devices of a bucket without `fixed`, `[groups]`.

    Args:
        lengths: `[media]`: input positions of the bucket's media.
        groups, rows: `[media]`: the group that encodes each, and its row.
    """
    seconds = np.bincount(groups, cost.media_seconds(lengths), minlength=cost.groups)
    _, first = np.unique(rows, return_index=True)
    return seconds + np.bincount(groups[first], minlength=cost.groups) * cost.row_seconds


def cut_at(capacity: Capacity, encoder: str, most: int) -> Capacity:
    """The capacity with the buckets of an encoder cut above media of `most` positions."""

    def with_threshold(spec: RowSpec) -> RowSpec:
        bucket = spec.bucket
        if bucket is None or bucket.module != encoder:
            return spec
        cut = replace(bucket, above=most) if bucket.up_to is None else replace(bucket, up_to=most)
        return replace(spec, bucket=cut)

    return replace(capacity, specs=tuple(map(with_threshold, capacity.specs)))


def of_group(capacity: Capacity, count: int) -> Capacity:
    """The capacity whose buckets by cost have the devices of one of `count` groups of hosts."""

    def with_shared_devices(spec: RowSpec) -> RowSpec:
        bucket = spec.bucket
        if bucket is None or bucket.cost is None:
            return spec
        cost = replace(bucket.cost, groups=bucket.cost.groups // count)
        return replace(spec, bucket=replace(bucket, cost=cost))

    return replace(capacity, specs=tuple(map(with_shared_devices, capacity.specs)))


def _count_filling(samples: Sequence[Lengths], capacity: Capacity, rows: int) -> int:
    """Number of the oldest samples whose text fills so many rows; at least one."""
    ends = np.cumsum([lengths.total(capacity.text.name) for lengths in samples])
    room = capacity.limit("tokens") * rows
    return max(1, int(np.searchsorted(ends, room, side="right")))


def _bucket_pairs(capacity: Capacity) -> Iterator[_Pair]:
    """The buckets of every encoder that are cut by cost."""
    buckets = {m.name: m.bucket for m in capacity.specs if m.bucket}
    costs = {
        name: bucket.cost for name, bucket in buckets.items() if bucket.cost and not bucket.fixed
    }
    for short in capacity.specs:
        if short.name in costs and short.bucket and short.bucket.up_to is not None:
            bucket = (m for m in capacity.specs if m.module == short.module)
            long = next(m for m in bucket if m is not short)
            yield _Pair(short, long, short.bucket.up_to, (costs[short.name], costs[long.name]))


def _candidate_thresholds(
    lengths: Ints, capacity: Capacity, rows: int, pair: _Pair
) -> list[Candidate]:
    """All cuts between media of unlike lengths up to the highest; the best by their bounds first.

    Args:
        lengths: sorted lengths of all media of the encoder.
    """
    cuts = np.unique(np.concatenate([[0], lengths[lengths <= pair.most]]))
    counts = np.searchsorted(lengths, cuts, side="right")
    steps, bounds = np.ones(len(cuts)), np.zeros(len(cuts))
    for spec, cost in zip((pair.short, pair.long), pair.costs, strict=True):
        first, name = spec is pair.short, spec.name
        spans = np.array([spec.span(n) for n in lengths.tolist()], np.int64)
        for needs, resource in ((spans, name), (np.ones_like(spans), f"{name} segments")):
            share = _sums_by_count(needs, counts, first) / (rows * capacity.limit(resource))
            steps = np.maximum(steps, share)
        bounds += _lower_bounds(lengths, counts, first, cost)
    return sorted(zip(steps.tolist(), bounds.tolist(), cuts.tolist(), strict=True))


def _lower_bounds(
    lengths: Ints, counts: Ints, first: bool, cost: BucketCost
) -> NDArray[np.float64]:
    """Lower bounds of `bucket_seconds` by cut: mean of the groups, or largest medium.

    Where rows are computed whole: as few of them as could hold the media.

    Args:
        lengths: sorted lengths of all media.
        counts: for every cut, the number of media up to it.
        first: whether the bucket takes the media up to the cut, or those above.
    """
    if cost.row:
        # No two media of more than half a row lie in one.
        large = _sums_by_count((2 * lengths > cost.row).astype(np.int64), counts, first)
        fitting = np.minimum(lengths, cost.row)
        rows = np.maximum(-(-_sums_by_count(fitting, counts, first) // cost.row), large)
        fullest = -(-rows // cost.groups) * cost.row_seconds
        media = _sums_by_count(cost.media_seconds(lengths), counts, first)
        mean = (rows * cost.row_seconds + media) / cost.groups
        # Sums of another order than in `bucket_seconds` may be larger by their rounding.
        return np.where(rows > 0, cost.fixed + np.maximum(fullest, mean * (1 - 1e-9)), 0.0)
    each, others = cost.media_seconds(lengths), len(lengths) - counts
    last = counts - 1 if first else np.where(others > 0, len(lengths) - 1, -1)
    heaviest = np.maximum(
        _sums_by_count(each, counts, first) / cost.groups, np.append(each, 0.0)[last]
    )
    some = counts > 0 if first else others > 0
    return np.where(some, cost.fixed + heaviest * (1 - 1e-9), 0.0)


def _sums_by_count(values: NDArray[Any], counts: Ints, first: bool) -> NDArray[Any]:
    """Sums of the first `counts` values, or of all others."""
    ends = np.concatenate([[0], np.cumsum(values)])
    return ends[counts] if first else ends[-1] - ends[counts]
