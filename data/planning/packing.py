"""Packing: which sample goes to which row, under several budgets at once.

A row offers a capacity in every resource (decoder tokens, each encoder's input positions, decoder
segments, each encoder's segments); a sample needs some of each. Samples are offered oldest first
and each goes to the fullest row that has room (best fit), so that small young samples fill the
space that large old ones leave. The oldest sample meets empty rows, hence is always placed, hence a
sample with k older ones waits at most k steps.

    rows of 10 tokens, needs 6 5 4 5:      row 0 |666666|4444|   row 1 |55555|55555|

`fill` then exchanges samples for larger ones that wait. `data.planning.steps` packs whole steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.faults import Fault, FaultKind
from data.planning.buckets import by_bucket
from data.planning.problem import RESOLUTION
from data.rows.spec import RowSpec
from data.sample import DataError, Lengths

#: Row of a sample that waits, in arrays of rows.
WAITS = -1
#: Number of the oldest waiting samples for which `fill` looks for room.
PARTNERS = 128


def longer_than(longest: int | None, lengths: Lengths) -> Fault | None:
    """Why a model of `longest` positions cannot take a sample, or None."""
    if longest is None or lengths.tokens <= longest:
        return None
    text = (
        f"has {lengths.tokens} tokens, media included, above the {longest} of "
        "model.decoder.max_positions"
    )
    return Fault(FaultKind.POSITIONS, text)


@dataclass(frozen=True)
class Capacity:
    """Capacity of one row: `limits` in the order of `resources`.

    specs: row specs of all buckets of the encoders; lengths of samples are by bucket.
    longest: number of tokens of the longest sample that the decoder has positions for; None for
        any number. A row of several samples may hold more.
    """

    resources: tuple[str, ...]
    limits: tuple[int, ...]
    specs: tuple[RowSpec, ...]
    longest: int | None = None

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

    def segments(self, resource: str) -> str:
        """The resource that counts the segments of another one's positions."""
        return "segments" if resource == "tokens" else f"{resource} segments"

    def needs(self, lengths: Lengths) -> tuple[int, ...]:
        """Need of a sample in each resource; media occupy whole multiples of the reduction.

        It raises no error for a sample that does not fit, see `misfit`.
        """
        spans = [spans_of(m, lengths.media.get(m.name, ())) for m in self.specs]
        segments = [len(lengths.media.get(m.name, ())) for m in self.specs]
        return (lengths.tokens, *map(sum, spans), 1, *segments)

    def misfit(self, lengths: Lengths, rows: int = 1) -> Fault | None:
        """Why rows cannot hold a sample, or None.

        Args:
            lengths: lengths of the sample.
            rows: number of rows over which text and media may be spread; with 1, all of the sample
                is in the same row.
        """
        if (longer := longer_than(self.longest, lengths)) is not None:
            return longer
        fault = self._exceeded(zip(self.resources, self.needs(lengths), strict=True))
        if fault is None or rows == 1:
            return fault
        if block_of(self, lengths, rows) is not None:
            return None
        apart = self._exceeded(self.parts(lengths))
        text = f"{fault}, and its media do not fit into all {rows} of data.rows"
        return apart or Fault(FaultKind.BUDGET, text)

    def _exceeded(self, needs: Iterable[tuple[str, int]]) -> Fault | None:
        for name, need in needs:
            if need > self.limit(name):
                limit = self.limit(name)
                text = f"needs {need} {name}, above data.budgets' {limit} for a row"
                return Fault(FaultKind.BUDGET, text)
        return None

    def parts(self, lengths: Lengths) -> Iterator[tuple[str, int]]:
        """Resource and positions of the text of a sample, then of each of its media."""
        yield "tokens", lengths.tokens
        for spec in self.specs:
            for span in spans_of(spec, lengths.media.get(spec.name, ())):
                yield spec.name, span


def spans_of(spec: RowSpec, lengths: Sequence[int]) -> list[int]:
    """Input positions that media occupy, rounded up to whole outputs."""
    return [spec.span(length) for length in lengths]


def make_capacity(
    budgets: Mapping[str, int], specs: Sequence[RowSpec], longest: int | None = None
) -> Capacity:
    """Check `data.budgets` against the encoders.

    Args:
        budgets: capacities of a row.
        specs: row specs of all buckets of the encoders.
        longest: as in `Capacity`.

    Raises:
        DataError: a budget is missing, of an unknown encoder, or not a multiple of the reduction.
    """
    names = [m.name for m in specs]
    wanted = ["tokens", *names, "segments"]
    if sorted(budgets) != sorted(wanted):
        raise DataError(
            f"data.budgets has {sorted(budgets)}; valid: exactly {wanted} "
            "(`launch.py budgets` suggests good values)"
        )
    for spec in specs:
        if budgets[spec.name] % spec.reduction:
            raise DataError(
                f"data.budgets.{spec.name} = {budgets[spec.name]} is not a multiple of "
                f"the encoder's reduction {spec.reduction}"
            )
    segments = budgets["segments"]
    limits = (budgets["tokens"], *(budgets[n] for n in names), *[segments] * (1 + len(names)))
    resources = ("tokens", *names, "segments", *(f"{n} segments" for n in names))
    return Capacity(resources, limits, tuple(specs), longest)


def pack(needs: Sequence[Sequence[int]], rows: int, limits: Sequence[int]) -> list[int | None]:
    """The row of each sample, or None for samples that wait. `needs` is oldest first."""
    free = FreeRows(rows, limits)
    return [free.take(need) for need in needs]


class FreeSpans:
    """Free space of rows that hold positions and segments, and nothing else.

    Args:
        rows: number of rows.
        positions, segments: capacity of a row.
    """

    def __init__(self, rows: int, positions: int, segments: int) -> None:
        self._left, self._segments = [positions] * rows, [segments] * rows
        # Rows that have room for another segment, the fullest first.
        self._open = [(positions, row) for row in range(rows)]

    def take(self, span: int) -> int | None:
        """Place a segment of `span` positions in the fullest row that has room; None if none."""
        at = bisect_left(self._open, (span, -1))
        if at == len(self._open):
            return None
        _, row = self._open.pop(at)
        self._left[row] -= span
        self._segments[row] -= 1
        if self._segments[row]:
            insort(self._open, (self._left[row], row))
        return row


def in_few_rows(spans: NDArray[np.int64], positions: int, segments: int) -> NDArray[np.int64]:
    """The row of every span, `[spans]`: the longest first, in the fullest row that has room.

    Rows are begun in their order, and only where no row has room (best fit, decreasing)::

        rows of 10, spans 5 2 6 4     row 0 |666666|4444|   row 1 |55555|22|

    Args:
        spans: `[spans]`, none above `positions`.
        positions, segments: capacity of a row.
    """
    free, rows = FreeSpans(len(spans), positions, segments), np.full(len(spans), WAITS)
    for item in np.argsort(-spans, kind="stable").tolist():
        row = free.take(int(spans[item]))
        assert row is not None  # a row of its own is left for every span
        rows[item] = row
    return rows


#: Resource, the resource that counts its segments, and positions of a text or a medium.
Part = tuple[int, int, int]


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
        row = self._fullest(np.array(need))
        if row is not None:
            self.left[row] -= np.array(need)
            self._most = self.left.max(0).tolist()
        return row

    def _fullest(self, need: NDArray[np.int64]) -> int | None:
        """The row with room for `need` that has least left in the resources that `need` uses."""
        rows = np.flatnonzero((self.left >= need).all(1))
        if not len(rows):
            return None
        rest = (self.left[rows] * self.scale) @ (need > 0)
        return int(rows[np.argmin(rest)])

    def take_apart(self, parts: Sequence[Part], block: int) -> list[int] | None:
        """Rows of parts, which may differ, in the first block of rows that has room for all.

        Args:
            parts: resource of each part, resource of its segments, and number of its positions.
            block: number of rows of a block, which begins at a multiple of it.
        """
        for first in range(0, len(self.left), block):
            own = self.left[first : first + block].copy()
            rows = _rows_apart(own, parts)
            if rows is not None:
                self.left[first : first + block] = own
                self._most = self.left.max(0).tolist()
                return [first + row for row in rows]
        return None


def _rows_apart(left: NDArray[np.int64], parts: Sequence[Part]) -> list[int] | None:
    """Row of every part, longest first to the fullest row; None if a part has no room."""
    rows = [0] * len(parts)
    for number in sorted(range(len(parts)), key=lambda i: -parts[i][2]):
        resource, segments, positions = parts[number]
        fits = np.flatnonzero((left[:, resource] >= positions) & (left[:, segments] > 0))
        if not len(fits):
            return None
        row = rows[number] = int(fits[left[fits, resource].argmin()])
        left[row, [resource, segments]] -= positions, 1
    return rows


def numbered(capacity: Capacity, lengths: Lengths) -> list[Part]:
    """Text and media of a sample, by the numbers of their resources."""
    at = capacity.resources.index
    found = capacity.parts(lengths)
    return [(at(name), at(capacity.segments(name)), span) for name, span in found]


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
    rows, waiting = rows.copy(), np.flatnonzero(rows == WAITS)[:PARTNERS]
    for row, left in enumerate(free.left):
        own = np.flatnonzero(rows == row)
        own = own[own > 0]
        while len(own) and len(waiting) and left[:positions].any():
            more = needs[waiting] - needs[own][:, None]
            fits = (more <= left).all(-1) & (more[..., :positions] >= 0).all(-1)
            gain = np.where(fits, more[..., :positions] @ free.scale[:positions], 0)
            goes, comes = divmod(int(gain.argmax()), len(waiting))
            if not gain[goes, comes]:
                break
            left -= more[goes, comes]
            own[goes], waiting[comes] = waiting[comes], own[goes]
            rows[own[goes]], rows[waiting[comes]] = row, WAITS
    return rows
