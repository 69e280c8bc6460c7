"""Packing: which sample goes to which row, under several budgets at once.

A row offers a capacity in every resource (decoder tokens, each encoder's input positions, decoder
segments, each encoder's segments); a sample needs some of each. Samples are offered oldest first
and each goes to the fullest row that still takes it (best fit), so small young samples fill what
large old ones leave. The oldest sample meets empty rows, hence is always placed, hence a sample
with k older ones waits at most k steps.

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
from data.kinds.modality import Modality
from data.planning.problem import RESOLUTION
from data.sample import DataError, Lengths

#: Row of a sample that waits, where rows are an array.
WAITS = -1
#: Samples that wait, the oldest, for which `fill` looks for room.
PARTNERS = 128


@dataclass(frozen=True)
class Capacity:
    """What one row holds: `limits` in the order of `resources`."""

    resources: tuple[str, ...]
    limits: tuple[int, ...]
    modalities: tuple[Modality, ...]

    def with_limits(self, limits: Mapping[str, int]) -> Capacity:
        """Another capacity, with other `limits` of the resources that are named."""
        changed = zip(self.resources, self.limits, strict=True)
        return replace(self, limits=tuple(limits.get(name, limit) for name, limit in changed))

    def limit(self, resource: str) -> int:
        """What a row has of one resource."""
        return self.limits[self.resources.index(resource)]

    def segments(self, resource: str) -> str:
        """The resource that counts the segments of another one's positions."""
        return "segments" if resource == "tokens" else f"{resource} segments"

    def needs(self, lengths: Lengths) -> tuple[int, ...]:
        """What a sample takes of each resource; media spans are whole multiples of the reduction.

        Raises nothing: whether it fits is `misfit`'s question.
        """
        spans = [spans_of(m, lengths.media.get(m.name, ())) for m in self.modalities]
        segments = [len(lengths.media.get(m.name, ())) for m in self.modalities]
        return (lengths.tokens, *map(sum, spans), 1, *segments)

    def misfit(self, lengths: Lengths, rows: int = 1) -> Fault | None:
        """Why rows cannot hold a sample, or None.

        Args:
            lengths: of the sample.
            rows: over which its text and media may lie; with one, all of it is in the same row.
        """
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
        for modality in self.modalities:
            for span in spans_of(modality, lengths.media.get(modality.name, ())):
                yield modality.name, span


def spans_of(modality: Modality, lengths: Sequence[int]) -> list[int]:
    """Input positions that media occupy, rounded up to whole outputs."""
    return [modality.span(length) for length in lengths]


def make_capacity(budgets: Mapping[str, int], modalities: Sequence[Modality]) -> Capacity:
    """Check `data.budgets` against the encoders.

    Raises:
        DataError: a budget is missing, of an unknown encoder, or not a multiple of the reduction.
    """
    names = [m.name for m in modalities]
    wanted = ["tokens", *names, "segments"]
    if sorted(budgets) != sorted(wanted):
        raise DataError(
            f"data.budgets has {sorted(budgets)}; valid: exactly {wanted} "
            "(`launch.py budgets` suggests good values)"
        )
    for modality in modalities:
        if budgets[modality.name] % modality.reduction:
            raise DataError(
                f"data.budgets.{modality.name} = {budgets[modality.name]} is not a multiple of "
                f"the encoder's reduction {modality.reduction}"
            )
    segments = budgets["segments"]
    limits = (budgets["tokens"], *(budgets[n] for n in names), *[segments] * (1 + len(names)))
    resources = ("tokens", *names, "segments", *(f"{n} segments" for n in names))
    return Capacity(resources, limits, tuple(modalities))


def pack(needs: Sequence[Sequence[int]], rows: int, limits: Sequence[int]) -> list[int | None]:
    """The row of each sample, or None for samples that must wait. `needs` is oldest first."""
    free = FreeRows(rows, limits)
    return [free.take(need) for need in needs]


class FreeSpans:
    """What is left of rows that hold positions and segments, and nothing else.

    Args:
        rows: number of them.
        positions, segments: of a row.
    """

    def __init__(self, rows: int, positions: int, segments: int) -> None:
        self._left, self._segments = [positions] * rows, [segments] * rows
        # Rows that take another segment, the fullest first.
        self._open = [(positions, row) for row in range(rows)]

    def take(self, span: int) -> int | None:
        """The fullest row that has room for a segment of `span` positions, which it then has."""
        at = bisect_left(self._open, (span, -1))
        if at == len(self._open):
            return None
        _, row = self._open.pop(at)
        self._left[row] -= span
        self._segments[row] -= 1
        if self._segments[row]:
            insort(self._open, (self._left[row], row))
        return row


#: Resource, the resource that counts its segments, and positions of a text or a medium.
Part = tuple[int, int, int]


class FreeRows:
    """What is left of every resource of rows that have `limits`: `left`, `[rows, resources]`.

    scale: what a unit of each resource counts when different ones are added up.
    """

    def __init__(self, rows: int, limits: Sequence[int]) -> None:
        self.left = np.tile(np.array(limits, np.int64), (rows, 1))
        # Whole numbers, of which every host finds the same sums.
        self.scale = RESOLUTION // np.array(limits, np.int64)
        self._most: list[int] = self.left.max(0).tolist()

    def take(self, need: Sequence[int]) -> int | None:
        """The fullest row that has room for `need`, which is then taken from it."""
        # Most samples of a long look-ahead fail here, without touching an array.
        if any(n > m for n, m in zip(need, self._most, strict=True)):
            return None
        row = self._fullest(np.array(need))
        if row is not None:
            self.left[row] -= np.array(need)
            self._most = self.left.max(0).tolist()
        return row

    def _fullest(self, need: NDArray[np.int64]) -> int | None:
        """The row that takes `need` and has least left, counted in resources that `need` uses."""
        rows = np.flatnonzero((self.left >= need).all(1))
        if not len(rows):
            return None
        rest = (self.left[rows] * self.scale) @ (need > 0)
        return int(rows[np.argmin(rest)])

    def take_apart(self, parts: Sequence[Part], block: int) -> list[int] | None:
        """Rows of parts that may have different ones, all of the first block that has room.

        Args:
            parts: resource, the resource of its segments, and positions of each.
            block: rows of a block, which begins at a multiple of it.
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
    """Row of every part, longest first to the fullest, taken from `left`; None if one has none."""
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
    """The fewest rows that hold a sample whose media may have different ones.

    They divide `rows`, of a microbatch, so that each block is in one; None if all are too few.
    """
    parts = numbered(capacity, lengths)
    for size in (n for n in range(1, rows + 1) if rows % n == 0):
        if FreeRows(size, capacity.limits).take_apart(parts, size) is not None:
            return size
    return None


def fill(
    free: FreeRows, needs: NDArray[np.int64], rows: NDArray[np.int64], positions: int
) -> NDArray[np.int64]:
    """Rows after samples have been exchanged for waiting ones that are larger, until none fits.

    What comes takes no less of any of the first `positions` resources than what goes, so each
    of them is used at least as well as before. The oldest sample stays where it is.

    Args:
        free: what is left of the rows; takes part in the exchange.
        needs: of the samples, oldest first, `[samples, resources]`.
        rows: of the samples, `WAITS` for one that waits, `[samples]`.
        positions: resources that count positions, which come first.
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
