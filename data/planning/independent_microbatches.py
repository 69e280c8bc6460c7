"""Independent microbatches of encoders: the rows of a step's media, packed by themselves.

Media have been assigned to the rows of their microbatches. Each row of an encoder then
takes the media of all microbatches of the step one after the other, and goes on in the next of the
encoder's microbatches where its budget ends. Media never change their rows, so that
no other rank has to read them::

    row 0 of microbatches 0 1 2     aaaaa.....  bb........  ccccc.....
    row 0 of encoder microbatches   aaaaabb...  ccccc.....

So the number of encoder microbatches follows the load of the step. An encoder microbatch may feed
several microbatches of the step, and each of these may be fed by several encoder microbatches.

An encoder microbatch may have several rows for each row of a microbatch, over which the media of
that row are spread; so an encoder can be distributed over more ranks than a microbatch has rows::

    row 0 of microbatches 0 1 2     aaaaabbbcc  ddeeee....  ffffff....
    row 0 of encoder microbatches   aaaaa       eeee
    row 1 of encoder microbatches   bbbccdd     ffffff

Where rows fill unevenly, an encoder microbatch may hold early media of a full row and late ones of
an empty row, and so feed many microbatches. Rows that go on *together* skip to the encoder
microbatch which the furthest row had reached before the microbatch. That may take more encoder
microbatches, but of any two neighbours the second feeds nothing before the last microbatch that the
first one feeds::

    row 0 of microbatches 0 1 2     aaaaa.....  bbbbbbb...  ..........
    row 1 of microbatches 0 1 2     ..........  ..........  ccccc.....
    microbatches 0 1, alone         aaaaa       bbbbbbb        0 feeds 0, 1 and 2
                                    ccccc       .......        1 feeds 1
    microbatches 0 1, together      aaaaa       bbbbbbb        0 feeds 0
                                    .....       ccccc..        1 feeds 1 and 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.batch import ModuleRows
from data.rows.pack import by_name, of_names
from data.rows.spec import RowSpec

Ints = NDArray[np.int64]
#: First and last microbatch that each encoder microbatch feeds.
Ends = Sequence[Sequence[int]]

#: Columns of the media of a microbatch: row, first input position, positions with those
#: that round them up to whole outputs, first segment, segments. Two more follow for every further
#: axis of the media: the first entry in the row, and the number of entries.
MEDIUM = ("row", "start", "span", "segment", "segments")
#: Columns of `MEDIUM` that decide where a medium goes.
_PLACED = [MEDIUM.index(name) for name in ("row", "span", "segments")]


@dataclass(frozen=True, eq=False)
class IndependentMicrobatches:
    """Places of one bucket's media in encoder microbatches.

    Attributes:
        count: number of encoder microbatches.
        media: the media, `[media, columns]` as of `MEDIUM`; by microbatch, row and start.
        microbatch: microbatch of each, `[media]`.
        encoder microbatch, row, start, segment: its encoder microbatch, the row, the first position
            and the first segment there, `[media]`.
        offsets: its first entry there on every further axis, `[media, axes]`.
    """

    count: int
    media: Ints
    microbatch: Ints
    encoder_microbatch: Ints
    row: Ints
    start: Ints
    segment: Ints
    offsets: Ints

    @property
    def feeds(self) -> tuple[tuple[int, int], ...]:
        """First and last microbatch that each encoder microbatch feeds."""
        ends = np.tile([self.microbatch.max(initial=0), 0], (self.count, 1))
        np.minimum.at(ends[:, 0], self.encoder_microbatch, self.microbatch)
        np.maximum.at(ends[:, 1], self.encoder_microbatch, self.microbatch)
        return tuple((first, last) for first, last in ends.tolist())

    def move_runs(self, microbatch: int, runs: Ints, reduction: int) -> Ints:
        """Runs of a microbatch (`sharding.routes`) from where its media are now.

        Args:
            runs: `[runs, 5]`.
            reduction: input positions per output.

        Returns:
            `[runs, 6]`: the sixth column is the encoder microbatch.

        Raises:
            ValueError: a run is in no medium.
        """
        members = np.flatnonzero(self.microbatch == microbatch)
        rows, starts, spans = self.media[members, :3].T // [[1], [reduction], [reduction]]
        width = 1 + max(starts.max(initial=0), runs[:, 1].max(initial=0))
        keys, parts, remaining = rows * width + starts, [np.zeros((0, 6), np.int64)], runs
        while len(remaining):
            row, first, to, token, length = remaining.T
            at = np.searchsorted(keys, row * width + first, "right") - 1
            left = np.where(rows[at] == row, starts[at] + spans[at] - first, 0)
            if left.min() <= 0:
                raise ValueError(
                    f"run {remaining[left.argmin()].tolist()} is in no medium of its row"
                )
            count, moved = (
                np.minimum(length, left),
                self.start[members][at] // reduction - starts[at],
            )
            there, encoder_microbatch = self.row[members][at], self.encoder_microbatch[members][at]
            parts.append(
                np.column_stack([there, first + moved, to, token, count, encoder_microbatch])
            )
            # A run may go on in the next medium, which may be in another encoder microbatch.
            more = np.column_stack([row, first + count, to, token + count, length - count])
            remaining = more[length > count]
        return np.concatenate(parts)


def feeds_of_all(groups: Sequence[Ends]) -> tuple[tuple[int, int], ...]:
    """What encoder microbatches feed, from what those of every group of hosts feed in the rows of
    the group.

    Rows that fill by themselves are in the encoder microbatches in which they would be without
    groups.

    Args:
        groups: `IndependentMicrobatches.feeds` of every group.
    """
    feeds = []
    for ends in zip_longest(*groups):
        firsts, lasts = zip(*(pair for pair in ends if pair is not None), strict=True)
        feeds.append((min(firsts), max(lasts)))
    return tuple(feeds)


def count_independent_microbatches(
    budget: int, positions: int, longest: int, reduction: int, spread: int = 1
) -> int:
    """Number of encoder microbatches that hold whatever media of one microbatch lie in a row.

    A row of an encoder microbatch is left where the next medium does not fit any more. So all but
    the last are filled to `positions - longest + reduction` or more, and two of them hold more than
    `positions`.

    Args:
        budget: positions of a row of the microbatch.
        positions: positions of a row of an encoder microbatch.
        longest: most positions of a medium, whole outputs; at most `positions`.
        reduction: positions per output.
        spread: rows of an encoder microbatch for each row of the microbatch.
    """
    if positions >= budget:
        return 1
    by_longest = 1 + (budget - reduction) // (positions - longest + reduction)
    by_pairs = 1 + 2 * (budget - reduction) // (positions + reduction)
    return -(-min(by_longest, by_pairs) // spread)


def plan_independent_microbatches(
    media: Sequence[Ints],
    rows: int,
    positions: int,
    each: int | None = None,
    spread: int = 1,
    together: bool = False,
    entries: Sequence[int] = (),
) -> IndependentMicrobatches:
    """Pack the media of a step's microbatches.

    Args:
        media: of each microbatch, `[media, columns]` as of `MEDIUM`, of all rows.
        rows: number of rows of a microbatch.
        positions: positions of a row of an encoder microbatch.
        each: number of encoder microbatches of every microbatch, of which none then serves another;
            None: encoder microbatches go on in the next microbatch.
        spread: rows of an encoder microbatch for each row of a microbatch.
        together: rows that lag skip to the encoder microbatch that the furthest row had reached
            before the microbatch. Then an encoder microbatch feeds no microbatch after the first
            that the next one feeds.
        entries: entries of a row of an encoder microbatch on every further axis of the media, those
            of a row of a microbatch.

    Raises:
        ValueError: a medium does not fit an encoder microbatch, or a microbatch does not fit `each`
            of them.
    """
    ordered = [columns[np.lexsort((columns[:, 1], columns[:, 0]))] for columns in media]
    every = np.concatenate(ordered)
    microbatch = np.repeat(np.arange(len(media)), [len(columns) for columns in ordered])
    _refuse_longer(every, positions)
    # Bins of each row of the microbatches: `spread` for every encoder microbatch, those of an
    # encoder microbatch together.
    fill = _Fill(rows, (positions, *entries), spread * (each or 1))
    least = 0
    for number, columns in enumerate(ordered):
        least = number * fill.count if each else least
        furthest = fill.place_media(columns, least)
        if together:
            least = max(least, furthest // spread * spread)
    places = fill.bins, fill.starts, fill.segments
    bins, start, segment = (np.array(column, np.int64) for column in places)
    offsets = np.array(fill.offsets, np.int64).reshape(len(every), len(entries))
    encoder_microbatch, row = bins // spread, every[:, 0] * spread + bins % spread
    placed = every, microbatch, encoder_microbatch, row, start, segment, offsets
    if each is None:
        return IndependentMicrobatches(int(encoder_microbatch.max(initial=-1)) + 1, *placed)
    most = int((encoder_microbatch - microbatch * each).max(initial=0)) + 1
    if most > each:
        raise ValueError(
            f"media of a microbatch need {most} encoder microbatches of "
            f"{positions} positions each; valid: at most {each}"
        )
    return IndependentMicrobatches(len(media) * each, *placed)


class _Fill:
    """Bins for the media of each row of the microbatches: first fit among the open ones.

    A plain loop over integers: what a medium finds depends on all before it.

    Args:
        rows: number of rows.
        limits: positions of a bin, and its entries on every further axis.
        count: number of bins of a row that are open at a time; where none has room, the next ones
            open.

    Attributes:
        bins, starts, segments: bin of all media so far, and their first position and first segment
            there.
        offsets: first entry of each there on every further axis; empty if there is none.
    """

    def __init__(self, rows: int, limits: Sequence[int], count: int) -> None:
        self._limit, *self._limits = limits
        self.count = count
        self._first = [0] * rows
        self._filled, self._segments = ([[0] * count for _ in range(rows)] for _ in range(2))
        self._entries = [self._no_entries() for _ in range(rows)]
        self.bins, self.starts, self.segments = list[int](), list[int](), list[int]()
        self.offsets: list[list[int]] = []

    def place_media(self, media: Ints, least: int) -> int:
        """Place media, `[media, columns]` as of `MEDIUM`, in no bin before `least`.

        Returns:
            The last bin of all that were taken, or 0.
        """
        limit, opened, furthest = self._limit, self._first, 0
        bins, starts, first_segments = self.bins, self.starts, self.segments
        entries = media[:, 6::2].tolist() if self._limits else repeat(())
        for (row, span, count), counts in zip(media[:, _PLACED].tolist(), entries, strict=False):
            number = 0
            for start in self._filled[row]:
                if start + span <= limit and (not counts or self._has_room(row, number, counts)):
                    break
                number += 1
            if opened[row] < least or number == self.count:
                self._open_bins(row, least)
                number = 0
            filled, segments, bin_number = (
                self._filled[row],
                self._segments[row],
                opened[row] + number,
            )
            bins.append(bin_number)
            starts.append(filled[number])
            first_segments.append(1 + segments[number])
            filled[number] += span
            segments[number] += count
            if counts:
                self._add_entries(self._entries[row][number], counts)
            if bin_number > furthest:
                furthest = bin_number
        return furthest

    def _add_entries(self, entries: list[int], counts: Sequence[int]) -> None:
        """Note the first entries of a medium on every further axis, and add its own."""
        self.offsets.append([*entries])
        for axis, count in enumerate(counts):
            entries[axis] += count

    def _open_bins(self, row: int, least: int) -> None:
        """Open the next bins of a row, none before `least`."""
        self._first[row] = max(self._first[row] + self.count, least)
        self._filled[row], self._segments[row] = [0] * self.count, [0] * self.count
        self._entries[row] = self._no_entries()

    def _no_entries(self) -> list[list[int]]:
        """Entries of empty bins on every further axis."""
        return [[0] * len(self._limits) for _ in range(self.count)]

    def _has_room(self, row: int, number: int, counts: Sequence[int]) -> bool:
        """Whether a bin holds so many more entries on every further axis."""
        sums = zip(self._entries[row][number], counts, self._limits, strict=True)
        return all(n + more <= limit for n, more, limit in sums)


def _refuse_longer(media: Ints, positions: int) -> None:
    longest = media[:, 2].max(initial=0)
    if longest > positions:
        raise ValueError(
            f"a medium of {longest} positions does not fit an encoder microbatch of {positions}; "
            "valid: media that fit, or a larger schedule.independent_budgets"
        )


def rows_of_independent_microbatches(
    plan: IndependentMicrobatches,
    microbatches: Sequence[ModuleRows],
    rows: Sequence[int],
    here: Sequence[int],
    spec: RowSpec,
    positions: int,
) -> ModuleRows:
    """Rows of the encoder microbatches, `[encoder microbatches, rows, ...]`, from those of the
    microbatches; at least one encoder microbatch.

    Args:
        microbatches: the bucket's rows of each microbatch, `[rows, ...]`.
        rows: the rows of media of the microbatches that lie here, in the order of the arrays.
        here: the rows of the encoder microbatches that lie here, in the order of the result.
        spec: input format of the bucket.
        positions: positions of a row of an encoder microbatch.
    """
    source, local = ({row: i for i, row in enumerate(module_rows)} for module_rows in (rows, here))
    sources = [by_name(module_rows) for module_rows in microbatches]
    arrays = {
        name: np.zeros(
            (
                max(1, plan.count),
                len(here),
                _entries_of_row(spec, name, array, positions),
                *array.shape[2:],
            ),
            array.dtype,
        )
        for name, array in sources[0].items()
    }
    places = np.column_stack([plan.microbatch, plan.encoder_microbatch, plan.row])
    for number, (microbatch, encoder_microbatch, row) in enumerate(places.tolist()):
        if row not in local:
            continue
        move, source_row = _Move(plan, number, spec), source[int(plan.media[number, 0])]
        for name, array in arrays.items():
            before, after = move.slices_of(name)
            values = sources[microbatch][name][source_row, before]
            array[encoder_microbatch, local[row], after] = move.shift_values(name, values)
    return of_names(arrays)


def _entries_of_row(spec: RowSpec, name: str, array: NDArray[Any], positions: int) -> int:
    """Entries of a row of an encoder microbatch; on a further axis as many as those before."""
    axis = spec.arrays[name].axis if name in spec.arrays else "position"
    if axis in spec.axes:
        return array.shape[1]
    return positions // (spec.reduction if axis == "output" else 1)


class _Move:
    """The move of one medium from its row of a microbatch to that of an encoder microbatch.

    Args:
        encoder microbatches: places of the media of its bucket.
        number: number of the medium among them.
        spec: input format of the bucket.
    """

    def __init__(self, plan: IndependentMicrobatches, number: int, spec: RowSpec) -> None:
        _, start, span, segment, _, *entries = plan.media[number].tolist()
        to, reduction = int(plan.start[number]), spec.reduction
        self._spec, self._segments = spec, int(plan.segment[number]) - segment
        self._shifts = {"position": to - start, "output": (to - start) // reduction}
        # By axis: first entry before and after, and number of entries.
        self._spans = dict.fromkeys(("position", "medium"), (start, to, span))
        self._spans["output"] = start // reduction, to // reduction, span // reduction
        first_entries = zip(entries[::2], plan.offsets[number].tolist(), entries[1::2], strict=True)
        self._spans |= dict(zip(spec.axes, first_entries, strict=True))

    def slices_of(self, name: str) -> tuple[slice, slice]:
        """Where an array of the row has the medium, before and after."""
        axis = self._spec.arrays[name].axis if name in self._spec.arrays else "position"
        before, after, count = self._spans[axis]
        return slice(before, before + count), slice(after, after + count)

    def shift_values(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the medium as they are in the other row; 0 stands for padding of positions."""
        if name == "segment_ids":
            return values + np.sign(values) * self._segments
        array = self._spec.arrays[name]
        if array.offset is None:
            return values
        moved = values + self._shifts[array.offset]
        if array.axis in self._spec.axes:
            return moved
        return np.maximum(moved, 0) if array.offset == "output" else np.where(values > 0, moved, 0)
