"""The samples of a step, and of each of its microbatches.

A step is packed as a whole, each sample with all its media in one row, except samples in blocks
(see below). So, without such blocks, the samples of a step depend on its number of rows, and not on
how the rows are split into microbatches:

    rows of the step             0 1 2 3 4 5 6 7
    data.rows 8, accumulate 1    0 1 2 3 4 5 6 7
    data.rows 4, accumulate 2    0 3 5 6 | 1 2 4 7       rows of like work in every microbatch

Within a microbatch `data.planning.row_assignment` may then assign media to other rows. With
`data.balance: per_phase` a sample whose media do not fit into one row lies in a block of rows, the
smallest that divides `data.rows` and holds it. The rows of a block stay together in one microbatch,
so that the size of the block, and with it which samples find room, depends on `data.rows`; a sample
that needs more rows than a microbatch has is left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from data.faults import SampleFault
from data.planning.microbatches import costs_of, spread_over_time
from data.planning.packing import WAITS, Capacity, FreeRows, block_of, fill, numbered
from data.planning.problem import RESOLUTION, Ints, WorkModel
from data.rows.spec import MediaRowSpec
from data.sample import Lengths

MediaRows = Mapping[str, tuple[int, ...]]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Packed:
    """Rows of samples.

    Attributes:
        rows: row of the text of every sample, None for a sample that waits.
        media: by sample and bucket, the bucket's row of every medium.
        block: number of rows of a block; a sample and its media are in the same block.
    """

    rows: Sequence[int | None]
    media: Sequence[MediaRows]
    block: int = 1

    @classmethod
    def with_media(
        cls,
        samples: Sequence[Lengths],
        rows: Sequence[int | None],
        specs: Sequence[MediaRowSpec],
    ) -> Packed:
        """The packing with all media of the buckets `specs` in the rows of their samples."""
        return cls(rows, [_in_row(n, row, specs) for n, row in zip(samples, rows, strict=True)])

    @property
    def placed_samples(self) -> list[int]:
        """Samples that do not wait."""
        return [i for i, row in enumerate(self.rows) if row is not None]

    def select_samples(self, samples: Sequence[int]) -> Packed:
        """Rows of some of the samples."""
        return replace(
            self, rows=[self.rows[i] for i in samples], media=[self.media[i] for i in samples]
        )


class StepPacker:
    """Packs the samples of step after step.

    Args:
        capacity: capacity of a row.
        rows: number of rows of a microbatch.
        microbatches: number of microbatches of a step.
        spread: whether media may be in other rows than the text of their sample.
        evenly: whether rows need not be full: the samples are spread over all rows, if that leaves
            room for all of them.
    """

    def __init__(
        self, capacity: Capacity, rows: int, microbatches: int, spread: bool, evenly: bool
    ) -> None:
        self._capacity, self._rows, self._microbatches = capacity, rows, microbatches
        self._apart, self._even_rows, self._total = spread, evenly, rows * microbatches

    def misfit(self, lengths: Lengths) -> SampleFault | None:
        """Why no step can hold a sample, or None."""
        return self._capacity.misfit(lengths, self._rows if self._apart else 1)

    def __call__(self, samples: Sequence[Lengths]) -> Packed:
        """Rows of a step for samples, oldest first; the first one never waits."""
        amounts = [self._capacity.needs(lengths) for lengths in samples]
        needs = np.array(amounts, np.int64).reshape(len(samples), len(self._capacity.limits))
        alone = np.all(needs <= self._capacity.limits, axis=1)
        even = self._pack_evenly(samples, needs, alone) if self._even_rows else None
        return self._pack_fully(samples, needs, alone) if even is None else even

    def _pack_evenly(self, samples: Sequence[Lengths], needs: Ints, alone: Bools) -> Packed | None:
        """Rows that are about equally full; None if a sample finds no room that way."""
        free, rows = FreeRows(self._total, self._capacity.limits), np.full(len(samples), WAITS)
        spread: dict[int, tuple[list[int], int]] = {}
        for number in np.flatnonzero(~alone).tolist():
            placed = self._take_apart(free, samples[number])
            if placed is None:
                return None
            spread[number] = placed
        even = _even_rows(needs[alone], free.left.tolist(), self._capacity.limits)
        if even is None:
            return None
        rows[alone] = even
        return self._make_packing(samples, rows, spread)

    def _pack_fully(self, samples: Sequence[Lengths], needs: Ints, alone: Bools) -> Packed:
        """Rows that are as full as possible."""
        free, rows = FreeRows(self._total, self._capacity.limits), np.full(len(samples), WAITS)
        spread: dict[int, tuple[list[int], int]] = {}
        for number, need in enumerate(needs.tolist()):
            if alone[number]:
                row = free.take(need)
                rows[number] = WAITS if row is None else row
            elif placed := self._take_apart(free, samples[number]):
                spread[number] = placed
        rows[alone] = fill(free, needs[alone], rows[alone], len(self._capacity.specs))
        return self._make_packing(samples, rows, spread)

    def _make_packing(
        self, samples: Sequence[Lengths], rows: Ints, spread: Mapping[int, tuple[list[int], int]]
    ) -> Packed:
        """The packing of samples with one row each, and of others by `_take_apart`."""
        packed = Packed.with_media(
            samples, [None if r == WAITS else r for r in rows.tolist()], self._capacity.media
        )
        text_rows, media = list(packed.rows), list(packed.media)
        for number, (parts, _) in spread.items():
            text_rows[number], media[number] = by_module_rows(
                self._capacity, samples[number], parts
            )
        return Packed(text_rows, media, math.lcm(1, *(block for _, block in spread.values())))

    def _take_apart(self, free: FreeRows, lengths: Lengths) -> tuple[list[int], int] | None:
        """Rows of the parts of a sample, and the size of the block that they are in."""
        block = block_of(self._capacity, lengths, self._rows) or self._total
        rows = free.take_apart(numbered(self._capacity, lengths), block)
        return None if rows is None else (rows, block)

    def split_step(
        self, samples: Sequence[Lengths], packed: Packed, work: Mapping[str, WorkModel]
    ) -> list[tuple[list[int], Packed]]:
        """The samples of each microbatch, and their rows in it.

        Args:
            samples: lengths of the samples of a step, none of which waits.
            packed: rows of the samples.
            work: work of the phases in which microbatches are made even; without phases, rows keep
                their order.
        """
        block = packed.block
        rows = np.array(packed.rows, np.int64)
        costs = np.zeros((self._total // block, len(work)))
        np.add.at(costs, rows // block, costs_of(samples, work))
        owners = spread_over_time(costs, self._microbatches, self._rows // block)
        first = np.zeros(len(owners), np.int64)  # first row of a block within its microbatch
        for microbatch in range(self._microbatches):
            members = owners == microbatch
            first[members] = np.arange(members.sum()) * block
        moved = (first[np.arange(self._total) // block] + np.arange(self._total) % block).tolist()
        microbatches = owners[rows // block]
        return [
            (members, _renumber_rows(packed.select_samples(members), moved))
            for members in (
                np.flatnonzero(microbatches == m).tolist() for m in range(self._microbatches)
            )
        ]


def by_module_rows(
    capacity: Capacity, lengths: Lengths, rows: Sequence[int]
) -> tuple[int, MediaRows]:
    """Row of the text and rows of the media of a sample, from those of `capacity.parts`."""
    remaining = iter(rows[1:])
    media = {
        spec.name: tuple(islice(remaining, len(lengths.of(spec.name)))) for spec in capacity.media
    }
    return rows[0], media


def _renumber_rows(packed: Packed, moved: Sequence[int]) -> Packed:
    """The packing with renumbered rows."""
    media = [
        {name: tuple(moved[r] for r in numbers) for name, numbers in m.items()}
        for m in packed.media
    ]
    return Packed([None if row is None else moved[row] for row in packed.rows], media)


def _in_row(lengths: Lengths, row: int | None, specs: Sequence[MediaRowSpec]) -> MediaRows:
    """Rows of the media of a sample, all in one row."""
    if row is None:
        return {}
    counts = {spec.name: len(lengths.of(spec.name)) for spec in specs}
    return {name: (row,) * count for name, count in counts.items() if count}


def _even_rows(needs: Ints, left: list[list[int]], limits: tuple[int, ...]) -> list[int] | None:
    """A row for every sample, equally full in the scarcest resource; None if one has no room.

    This is much faster than best fit, which serves full rows; steps of a fixed number of samples
    have none. Samples that need more than half of a row of any resource come first.

    Args:
        needs: `[samples, resources]`: needs of the samples.
        left: free space of every row by resource; it is updated.
        limits: limits of an empty row.
    """
    shares = needs * (RESOLUTION // np.array(limits))
    scarce, most = shares[:, shares.sum(0).argmax()], shares.max(1, initial=0)
    order = np.lexsort((-np.where(most > RESOLUTION // 2, most, scarce), most <= RESOLUTION // 2))
    lightest = [(0, row) for row in range(len(left))]
    rows = [0] * len(needs)
    for number, need in zip(order.tolist(), needs[order].tolist(), strict=True):
        full: list[tuple[int, int]] = []
        while lightest and any(n > m for n, m in zip(need, left[lightest[0][1]], strict=True)):
            full.append(heapq.heappop(lightest))
        if not lightest:
            return None
        load, row = lightest[0]
        heapq.heapreplace(lightest, (load + int(scarce[number]), row))
        rows[number], left[row] = row, [m - n for n, m in zip(need, left[row], strict=True)]
        for entry in full:
            heapq.heappush(lightest, entry)
    return rows
