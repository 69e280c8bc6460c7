"""Packing: which sample goes to which row, under several budgets at once.

A row offers a capacity in every resource (tokens of the text, input positions of each bucket,
segments of each); a sample needs some of each. Samples are offered oldest first and each goes to
the fullest row that has room (best fit), so that small young samples fill the space that large old
ones leave. The oldest sample meets empty rows, hence is always placed, hence a sample with k older
ones waits at most k steps.

    rows of 10 tokens, needs 6 5 4 5:      row 0 |666666|4444|   row 1 |55555|55555|

`fill` then exchanges samples for larger ones that wait. `data.planning.steps` packs whole steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.faults import FaultKind, SampleFault
from data.planning.buckets import by_bucket
from data.planning.problem import RESOLUTION
from data.rows.spec import MediaRowSpec, RowSpec
from data.rows.tokens import TokenSpec, media_of, text_of
from data.sample import DataError, Lengths

#: Row of a sample that waits, in arrays of rows.
WAITS = -1
#: Number of the oldest waiting samples for which `fill` looks for room.
WAITING_TRIED = 128


def longer_than(longest: int | None, tokens: int, module: str) -> SampleFault | None:
    """Why a `module` of `longest` positions cannot take a sample of so many tokens, or None."""
    if longest is None or tokens <= longest:
        return None
    text = f"has {tokens} tokens, media included, above the {longest} of {module}.max_positions"
    return SampleFault(FaultKind.POSITIONS, text)


@dataclass(frozen=True)
class Capacity:
    """Capacity of one row: `limits` in the order of `resources`.

    Attributes:
        resources: what a row has a limited number of.
        limits: the limits.
        specs: descriptions of the rows of all buckets, that of the text first; lengths of samples
            are by bucket.
        longest: number of tokens of the longest sample that the text's module has positions for;
            None for any number. A row of several samples may hold more.
    """

    resources: tuple[str, ...]
    limits: tuple[int, ...]
    specs: tuple[RowSpec, ...]
    longest: int | None = None

    @property
    def text(self) -> TokenSpec:
        """Description of the rows that hold texts."""
        return text_of(self.specs)

    @property
    def media(self) -> tuple[MediaRowSpec, ...]:
        """Descriptions of the rows of the buckets of media."""
        return media_of(self.specs)

    def by_bucket(self, lengths: Lengths) -> Lengths:
        """Lengths of a sample by bucket, as all other methods take them; from those by encoder."""
        return by_bucket(lengths, self.specs)

    def with_limits(self, limits: Mapping[str, int]) -> Capacity:
        """The capacity with other `limits` for the named resources."""
        changed = zip(self.resources, self.limits, strict=True)
        return replace(self, limits=tuple(limits.get(name, limit) for name, limit in changed))

    def limit(self, resource: str) -> int:
        """The limit of a row in one resource."""
        return self.limits[self.resources.index(resource)]

    def needs(self, lengths: Lengths) -> tuple[int, ...]:
        """Need of a sample in each resource; media occupy whole multiples of the reduction.

        It raises no error for a sample that does not fit, see `misfit`.
        """
        spans = [sum(spans_of(spec, lengths.counts(spec.name))) for spec in self.specs]
        segments = [len(lengths.of(spec.name)) for spec in self.specs]
        entries = [sum(counts) for spec in self.specs for counts in entries_by_axis(spec, lengths)]
        return (*spans, *segments, *entries)

    def misfit(self, lengths: Lengths, rows: int = 1) -> SampleFault | None:
        """Why rows cannot hold a sample, or None.

        Args:
            lengths: lengths of the sample.
            rows: number of rows over which text and media may be spread; with 1, all of the sample
                is in the same row.
        """
        longer = longer_than(self.longest, lengths.total(self.text.name), self.text.module)
        if longer is not None:
            return longer
        fault = self._list_exceeded(zip(self.resources, self.needs(lengths), strict=True))
        if fault is None or rows == 1:
            return fault
        if block_of(self, lengths, rows) is not None:
            return None
        part_fault = self._list_exceeded(
            need for part in self.needs_of_parts(lengths) for need in part.items()
        )
        text = f"{fault}, and its media do not fit into all {rows} of data.rows"
        return part_fault or SampleFault(FaultKind.BUDGET, text)

    def _list_exceeded(self, needs: Iterable[tuple[str, int]]) -> SampleFault | None:
        for name, need in needs:
            if need > self.limit(name):
                limit = self.limit(name)
                text = f"needs {need} {name}, above data.budgets' {limit} for a row"
                return SampleFault(FaultKind.BUDGET, text)
        return None

    def needs_of_parts(self, lengths: Lengths) -> Iterator[dict[str, int]]:
        """Needs by resource of the text of a sample, then of each of its media; positions first."""
        for spec in self.specs:
            for needs in needs_of_media(spec, lengths):
                yield dict(zip(self.resources_of(spec), needs, strict=True))

    def limits_of_parts(self) -> dict[str, tuple[int, ...]]:
        """Limits of a row of each bucket, in the order of `resources_of`."""
        parts = {spec.name: self.resources_of(spec) for spec in self.specs}
        return {name: tuple(map(self.limit, resources)) for name, resources in parts.items()}

    def resources_of(self, spec: RowSpec) -> tuple[str, ...]:
        """The resources of which media of a bucket need some: positions, segments, further axes."""
        further = (spec.budgets[axis] for axis in spec.axes)
        return (spec.positions_budget, spec.segments_resource, *further)


def spans_of(spec: RowSpec, lengths: Sequence[int]) -> list[int]:
    """Input positions that media occupy, rounded up to whole outputs."""
    return [spec.span(length) for length in lengths]


def needs_of_media(spec: RowSpec, lengths: Lengths) -> list[tuple[int, ...]]:
    """Needs of each medium of a bucket, in the order of `Capacity.resources_of`."""
    return [(spec.span(medium.count), 1, *medium.entries) for medium in lengths.of(spec.name)]


def entries_by_axis(spec: RowSpec, lengths: Lengths) -> list[list[int]]:
    """Entries of the media of a bucket, by further axis."""
    media = lengths.of(spec.name)
    return [[medium.entries[axis] for medium in media] for axis in range(len(spec.axes))]


def make_capacity(
    budgets: Mapping[str, int],
    specs: Sequence[RowSpec],
    longest: int | None = None,
) -> Capacity:
    """Check `data.budgets` against the modules.

    Args:
        budgets: capacities of a row.
        specs: descriptions of the rows of all buckets, that of the text among them.
        longest: as in `Capacity`.

    Raises:
        DataError: a budget is missing, of an unknown encoder or axis, or not a multiple of the
            reduction.
    """
    ordered = (text_of(specs), *media_of(specs))
    positions = [spec.positions_budget for spec in ordered]
    further = [spec.budgets[axis] for spec in ordered for axis in spec.axes]
    names = [*positions, *further, "segments"]
    if sorted(budgets) != sorted(names):
        raise DataError(
            f"data.budgets has {sorted(budgets)}; valid: exactly {names} "
            "(`launch.py budgets` suggests good values)"
        )
    for spec in ordered:
        if budgets[spec.positions_budget] % spec.reduction:
            raise DataError(
                f"data.budgets.{spec.name} = {budgets[spec.name]} is not a multiple of "
                f"the encoder's reduction {spec.reduction}"
            )
    segments = [budgets["segments"]] * len(ordered)
    limits = *map(budgets.__getitem__, positions), *segments, *map(budgets.__getitem__, further)
    resources = *positions, *(spec.segments_resource for spec in ordered), *further
    return Capacity(resources, limits, ordered, longest)


def pack(needs: Sequence[Sequence[int]], rows: int, limits: Sequence[int]) -> list[int | None]:
    """Pack samples: the row of each, or None for samples that wait. `needs` is oldest first.

    >>> pack([[6], [5], [4], [3], [2]], rows=2, limits=[10])
    [0, 1, 0, 1, 1]
    """
    free = FreeRows(rows, limits)
    return [free.take(need) for need in needs]


class FreeSpans:
    """Free space of rows that hold positions and segments, and perhaps entries on further axes.

    Args:
        rows: number of rows.
        positions, segments: capacity of a row.
        entries: capacity of a row on each further axis.
    """

    def __init__(self, rows: int, positions: int, segments: int, *entries: int) -> None:
        self._left, self._segments = [positions] * rows, [segments] * rows
        self._entries = [list(entries) for _ in range(rows)]
        # Rows that have room for another segment, the fullest first.
        self._open = [(positions, row) for row in range(rows)]

    def take(self, span: int, *entries: int) -> int | None:
        """Place a segment in the fullest row that has room; None if none.

        Args:
            span: positions of the segment.
            entries: its entries on each further axis.
        """
        at = bisect_left(self._open, (span, -1))
        while at < len(self._open) and not self._has_entries(self._open[at][1], entries):
            at += 1
        if at == len(self._open):
            return None
        _, row = self._open.pop(at)
        self._left[row] -= span
        self._segments[row] -= 1
        self._entries[row] = [m - n for m, n in zip(self._entries[row], entries, strict=True)]
        if self._segments[row]:
            insort(self._open, (self._left[row], row))
        return row

    def _has_entries(self, row: int, entries: Sequence[int]) -> bool:
        return all(n <= m for n, m in zip(entries, self._entries[row], strict=True))


def in_few_rows(spans: NDArray[np.int64], positions: int, segments: int) -> NDArray[np.int64]:
    """The row of every span, `[spans]`: the longest first, in the fullest row that has room.

    Rows are begun in their order, and only where no row has room (best fit, decreasing)::

        rows of 10, spans 5 2 6 4     row 0 |666666|4444|   row 1 |55555|22|

    >>> in_few_rows(np.array([5, 2, 6, 4]), positions=10, segments=4).tolist()
    [1, 1, 0, 0]

    Args:
        spans: `[spans]`, none above `positions`.
        positions, segments: capacity of a row.
    """
    free, rows = FreeSpans(len(spans), positions, segments), np.full(len(spans), WAITS)
    for item in np.argsort(-spans, kind="stable").tolist():
        row = free.take(int(spans[item]))
        assert row is not None  # there are as many rows as spans
        rows[item] = row
    return rows


#: Needs of a text or a medium: numbers of resources, that of positions first, and amounts.
Part = tuple[tuple[int, ...], tuple[int, ...]]


class FreeRows:
    """Free space of rows that have `limits`: `left`, `[rows, resources]`.

    scale: weight of a unit of each resource in sums over resources.
    """

    def __init__(self, rows: int, limits: Sequence[int]) -> None:
        self.left = np.tile(np.array(limits, np.int64), (rows, 1))
        # Whole numbers, whose sums are the same on every host.
        self.scale = RESOLUTION // np.array(limits, np.int64)
        self._most: list[int] = self.left.max(0).tolist()

    def take(self, need: Sequence[int]) -> int | None:
        """Take `need` from the fullest row that has room, and return its number; None if none."""
        # Most samples of a long look-ahead fail here, without touching an array.
        if any(n > m for n, m in zip(need, self._most, strict=True)):
            return None
        row = self._fullest_row(np.array(need))
        if row is not None:
            self.left[row] -= np.array(need)
            self._most = self.left.max(0).tolist()
        return row

    def _fullest_row(self, need: NDArray[np.int64]) -> int | None:
        """The row with room for `need` that has least left in the resources that `need` uses."""
        rows = np.flatnonzero((self.left >= need).all(1))
        if not len(rows):
            return None
        remaining = (self.left[rows] * self.scale) @ (need > 0)
        return int(rows[np.argmin(remaining)])

    def take_apart(self, parts: Sequence[Part], block: int) -> list[int] | None:
        """Rows of parts, which may differ, in the first block of rows that has room for all.

        Args:
            parts: needs of each part.
            block: number of rows of a block, which begins at a multiple of it.
        """
        for first in range(0, len(self.left), block):
            left = self.left[first : first + block].copy()
            rows = _rows_apart(left, parts)
            if rows is not None:
                self.left[first : first + block] = left
                self._most = self.left.max(0).tolist()
                return [first + row for row in rows]
        return None


def _rows_apart(left: NDArray[np.int64], parts: Sequence[Part]) -> list[int] | None:
    """Row of every part, longest first to the fullest row; None if a part has no room."""
    rows = [0] * len(parts)
    for number in sorted(range(len(parts)), key=lambda i: -parts[i][1][0]):
        resources, amounts = parts[number]
        fits = np.flatnonzero((left[:, resources] >= amounts).all(1))
        if not len(fits):
            return None
        row = rows[number] = int(fits[left[fits, resources[0]].argmin()])
        left[row, resources] -= amounts
    return rows


def numbered(capacity: Capacity, lengths: Lengths) -> list[Part]:
    """Text and media of a sample, by the numbers of their resources."""
    at = capacity.resources.index
    parts = capacity.needs_of_parts(lengths)
    return [(tuple(map(at, needs)), tuple(needs.values())) for needs in parts]


def block_of(capacity: Capacity, lengths: Lengths, rows: int) -> int | None:
    """The fewest rows that hold a sample whose text and media may be in different rows.

    The number divides `rows` of a microbatch, so that a block is in one microbatch; None if all
    rows are too few.
    """
    parts = numbered(capacity, lengths)
    for size in (n for n in range(1, rows + 1) if rows % n == 0):
        if FreeRows(size, capacity.limits).take_apart(parts, size) is not None:
            return size
    return None


def fill(
    free: FreeRows, needs: NDArray[np.int64], rows: NDArray[np.int64], positions: int
) -> NDArray[np.int64]:
    """Rows after samples have been exchanged for larger waiting ones, until none fits.

    A sample that comes in needs at least as much of each of the first `positions` resources as the
    one that leaves, so each of them is used at least as well as before. The oldest sample stays.

    Args:
        free: free space of the rows; it is updated.
        needs: `[samples, resources]`: needs of the samples, oldest first.
        rows: `[samples]`: row of every sample, `WAITS` for one that waits.
        positions: number of resources that count positions, which come first.
    """
    rows, waiting = rows.copy(), np.flatnonzero(rows == WAITS)[:WAITING_TRIED]
    for row, left in enumerate(free.left):
        members = np.flatnonzero(rows == row)
        members = members[members > 0]
        while len(members) and len(waiting) and left[:positions].any():
            more = needs[waiting] - needs[members][:, None]
            fits = (more <= left).all(-1) & (more[..., :positions] >= 0).all(-1)
            gain = np.where(fits, more[..., :positions] @ free.scale[:positions], 0)
            goes, comes = divmod(int(gain.argmax()), len(waiting))
            if not gain[goes, comes]:
                break
            left -= more[goes, comes]
            members[goes], waiting[comes] = waiting[comes], members[goes]
            rows[members[goes]], rows[waiting[comes]] = row, WAITS
    return rows
