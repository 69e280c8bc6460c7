"""Packing: which sample goes to which row, under several budgets at once.

A row offers a capacity in every resource (decoder tokens, each encoder's input positions, decoder
segments, each encoder's segments); a sample needs some of each. Samples are offered oldest first
and each goes to the fullest row that still takes it (best fit), so small young samples fill what
large old ones leave. The oldest sample meets empty rows, hence is always placed, hence a sample
with k older ones waits at most k steps.

    rows of 10 tokens, needs 6 5 4 5:      row 0 |666666|4444|   row 1 |55555|55555|
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.faults import Fault, FaultKind
from data.modality import Modality
from data.sample import DataError, Lengths


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

    def needs(self, lengths: Lengths) -> tuple[int, ...]:
        """What a sample takes of each resource; media spans are whole multiples of the reduction.

        Raises nothing: whether it fits is `misfit`'s question.
        """
        spans = [spans_of(m, lengths.media.get(m.name, ())) for m in self.modalities]
        segments = [len(lengths.media.get(m.name, ())) for m in self.modalities]
        return (lengths.tokens, *map(sum, spans), 1, *segments)

    def misfit(self, lengths: Lengths, apart: bool = False) -> Fault | None:
        """Why a sample fits in no row, or None.

        Args:
            lengths: of the sample.
            apart: its media may go to different rows.
        """
        whole = zip(self.resources, self.needs(lengths), strict=True)
        needs = self._needs_of_parts(lengths) if apart else whole
        for name, need in needs:
            if need > self.limit(name):
                limit = self.limit(name)
                text = f"needs {need} {name}, above data.budgets' {limit} for a row"
                return Fault(FaultKind.BUDGET, text)
        return None

    def _needs_of_parts(self, lengths: Lengths) -> Iterator[tuple[str, int]]:
        """What the text of a sample, and each of its media, takes of a row."""
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
        self._add(row, -span, -1)
        return row

    def give_back(self, row: int, span: int) -> None:
        """Undo a `take`."""
        if self._segments[row]:
            del self._open[bisect_left(self._open, (self._left[row], row))]
        self._add(row, span, 1)

    def _add(self, row: int, positions: int, segments: int) -> None:
        self._left[row] += positions
        self._segments[row] += segments
        if self._segments[row]:
            insort(self._open, (self._left[row], row))


class FreeRows:
    """What is left of every resource of rows that have `limits`."""

    def __init__(self, rows: int, limits: Sequence[int]) -> None:
        self._left = np.tile(np.array(limits, np.int64), (rows, 1))
        self._scale = 1.0 / np.array(limits)
        self._most: list[int] = self._left.max(0).tolist()

    def take(self, need: Sequence[int]) -> int | None:
        """The fullest row that has room for `need`, which is then taken from it."""
        # Most samples of a long look-ahead fail here, without touching an array.
        if any(n > m for n, m in zip(need, self._most, strict=True)):
            return None
        row = self._fullest(np.array(need))
        if row is not None:
            self._left[row] -= np.array(need)
            self._most = self._left.max(0).tolist()
        return row

    def _fullest(self, need: NDArray[np.int64]) -> int | None:
        """The row that takes `need` and has least left, counted in resources that `need` uses."""
        rows = np.flatnonzero((self._left >= need).all(1))
        if not len(rows):
            return None
        rest = (self._left[rows] * self._scale) @ (need > 0)
        return int(rows[np.argmin(rest)])
