"""Where samples and their media lie in the rows of a microbatch, from the rows that they have.

Each row is filled from the left, in the order of the samples::

    row 0 of the text      |sample 0 ....|sample 2 ..|        row 0 of an encoder   |s0 m0|s2 m0|
    row 1 of the text      |sample 1 .......|                 row 1                 |s0 m1 ..|
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from data.planning.independent_microbatches import MEDIUM
from data.planning.packing import spans_of
from data.rows.spec import MediaRowSpec, RowSpec
from data.rows.tokens import media_of, text_of
from data.sample import Lengths
from data.sources.source import SampleKey


@dataclass(frozen=True)
class SamplePlacement:
    """The place of a sample.

    Attributes:
        index: index in the source.
        row: global row of the text.
        start: first position of the text.
        segment: number of its segment in the row of the text, from 1.
        lengths: lengths by bucket.
        media: by bucket, of each medium the global row of the bucket, the first input position, and
            the segment number, for a tiled image that of its first tile.
        position: position of the sample in the stream.
        epoch: the epoch in which the sample comes up.
        offsets: by bucket whose media have further axes, of each medium its first entry in the row
            on each of them.
    """

    index: int
    row: int
    start: int
    segment: int
    lengths: Lengths
    media: dict[str, tuple[tuple[int, int, int], ...]]
    position: int = 0
    epoch: int = 0
    offsets: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    @property
    def key(self) -> SampleKey:
        """Index in the source, and epoch."""
        return self.index, self.epoch


def lay_out(
    samples: list[tuple[int, Lengths]],
    rows: Sequence[int | None],
    specs: tuple[RowSpec, ...],
    media_rows: Sequence[Mapping[str, Sequence[int]]] | None = None,
    drawn: Sequence[tuple[int, int]] | None = None,
) -> tuple[SamplePlacement, ...]:
    """Positions of packed samples (index, lengths) in their rows, each row filled from the left.

    Args:
        samples: index in the source and lengths of every sample.
        rows: row of the text of every sample, None for a sample that waits.
        specs: descriptions of the rows of all buckets, that of the text among them.
        media_rows: by sample and bucket, the bucket's row of every medium; by default the row of
            the sample.
        drawn: position in the stream and epoch of every sample, if they come from it.
    """
    text, media_specs = text_of(specs), media_of(specs)
    cursors: dict[tuple[str, int], list[int]] = {}  # next position, next segment

    def advance_cursor(module: str, row: int, span: int, segments: int = 1) -> tuple[int, int]:
        cursor = cursors.setdefault((module, row), [0, 1])
        start, segment = cursor
        cursor[:] = start + span, segment + segments
        return start, segment

    placements = []
    for number, ((index, lengths), row) in enumerate(zip(samples, rows, strict=True)):
        if row is None:
            continue
        media, offsets = {}, {}
        for spec in media_specs:
            name = spec.name
            inputs = lengths.counts(name)
            spans, counts = spans_of(spec, inputs), map(spec.segments, inputs)
            rows_of_media = media_rows[number].get(name, ()) if media_rows else [row] * len(spans)
            media[name] = tuple(
                (r, *advance_cursor(name, r, span, segments))
                for r, span, segments in zip(rows_of_media, spans, counts, strict=True)
            )
            if spec.axes:
                offsets[name] = tuple(
                    tuple(
                        advance_cursor(spec.budgets[axis], r, count)[0]
                        for axis, count in zip(spec.axes, medium.entries, strict=True)
                    )
                    for r, medium in zip(rows_of_media, lengths.of(name), strict=True)
                )
        start, segment = advance_cursor(text.name, row, lengths.total(text.name))
        position, epoch = drawn[number] if drawn else (0, 0)
        placements.append(
            SamplePlacement(index, row, start, segment, lengths, media, position, epoch, offsets)
        )
    return tuple(placements)


def used_lengths(
    placements: Sequence[SamplePlacement], specs: Sequence[RowSpec]
) -> dict[str, np.ndarray]:
    """Segment lengths of every bucket, int64; those of the text are first among them."""
    return {
        spec.name: np.array([n for p in placements for n in p.lengths.counts(spec.name)], np.int64)
        for spec in specs
    }


def media_of_plan(
    placements: Sequence[SamplePlacement], specs: Sequence[MediaRowSpec]
) -> dict[str, np.ndarray]:
    """The places of all media by bucket, `[media, columns]` int64.

    The columns are those of `data.planning.independent_microbatches.MEDIUM`.
    """
    rows: dict[str, list[tuple[int, ...]]] = {m.name: [] for m in specs}
    for p in placements:
        for m in specs:
            offsets = p.offsets[m.name] if m.axes else ((),) * len(p.media[m.name])
            for (row, start, segment), medium, firsts in zip(
                p.media[m.name], p.lengths.of(m.name), offsets, strict=True
            ):
                place = row, start, m.span(medium.count), segment, m.segments(medium.count)
                further = chain.from_iterable(zip(firsts, medium.entries, strict=True))
                rows[m.name].append((*place, *further))
    return {
        m.name: np.array(rows[m.name], np.int64).reshape(-1, len(MEDIUM) + 2 * len(m.axes))
        for m in specs
    }


def runs_of_plan(
    placements: Sequence[SamplePlacement], specs: Sequence[MediaRowSpec]
) -> dict[str, np.ndarray]:
    """The runs of outputs of every medium, by bucket, `[runs, 5]` int64.

    Columns: row of the medium, first output, row of the text, first token, number of outputs. A
    medium has one run; a tiled image has one for each row of its grid.
    """
    runs: dict[str, list[tuple[int, int, int, int, int]]] = {m.name: [] for m in specs}
    for p in placements:
        for spec in specs:
            name = spec.name
            media, starts = p.lengths.of(name), p.lengths.starts.get(name, ())
            for (row, start, _), medium, at in zip(p.media[name], media, starts, strict=True):
                first, token = start // spec.reduction, p.start + at
                runs[name] += [
                    (row, first + output, p.row, token + offset, count)
                    for output, offset, count in spec.merge_runs(medium)
                ]
    return {name: np.array(rows, np.int64).reshape(-1, 5) for name, rows in runs.items()}
