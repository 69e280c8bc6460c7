"""What rows of tokens hold besides the tokens: positions and ids, written from lengths alone.

A position has one axis, or several: those of an image's tokens may be a time, a row and a column.
A family of decoders says how its positions are written, with a function of the number of tokens of
a sample and of the spans of its media. Four tokens, an image of 2 x 3 outputs, and two tokens more,
by the writer of Qwen2-VL (arXiv 2409.12191, section 2.1)::

    index      0 1 2 3   4 5 6 7 8 9   10 11
    time       0 1 2 3   4 4 4 4 4 4    7  8
    row        0 1 2 3   4 4 4 5 5 5    7  8
    column     0 1 2 3   4 5 6 4 5 6    7  8
    span_ids   0 0 0 0   5 5 5 5 5 5    0  0      one more than the place in the row

The index is the place of a token in its sample, whatever its positions are: masks and caches
compare it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.batch import NEXT_TOKEN, ModuleRows, NextTokenTargets
from data.rows.pack import empty_rows
from data.rows.spec import ArraySpec, Kind, MediaRowSpec, RowSpec
from data.sample import Grid, Lengths

#: Ids that rows of the text may have besides those of segments.
SPAN_IDS = "span_ids"


@dataclass(frozen=True, order=True)
class TextSpan:
    """The tokens of a medium, from the first to the last at which its outputs are merged.

    Attributes:
        start: place of the first of them in the sample.
        count: number of tokens, newlines between outputs included.
        grid: grid of the outputs.
        kind: kind of media that the encoder takes.
    """

    start: int
    count: int
    grid: Grid
    kind: Kind


#: Positions `[tokens, axes]` int32 of a sample, from its number of tokens and the spans in it.
PositionWriter = Callable[[int, Sequence[TextSpan]], NDArray[np.int32]]


def sequential(tokens: int, spans: Sequence[TextSpan]) -> NDArray[np.int32]:
    """Positions on one axis: the index."""
    del spans
    return np.arange(tokens, dtype=np.int32)[:, None]


@dataclass(frozen=True)
class TokenSpec(RowSpec):
    """Rows of tokens: those of the module that takes texts; picklable.

    Attributes:
        position_axes: number of axes of a position.
        write_positions: writer of the positions of a sample.
        ids: names of the ids that masks read besides those of segments.

    Raises:
        ValueError: ids that no rows of tokens have, or a writer of positions of another shape.
    """

    position_axes: int = 1
    write_positions: PositionWriter = sequential
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse ids that nothing writes, and positions of another number of axes."""
        self._make_positions(1, ())
        if unknown := sorted({*self.ids} - {SPAN_IDS}):
            raise ValueError(f"masks read {', '.join(unknown)} of tokens; valid: {SPAN_IDS}")

    @property
    def budgets(self) -> Mapping[str, str]:
        """Tokens have the budget of that name, whatever the module's name is."""
        return {"position": "tokens"}

    @property
    def segments_resource(self) -> str:
        """The budget of samples in a row."""
        return "segments"

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """`inputs` are ids of tokens; `positions` have one axis, or as many as the family
        writes.

        Where a mask reads `span_ids`, the tokens of one medium share a number; others have 0.
        """
        positions = ArraySpec("position", (self.position_axes,))
        ids = dict.fromkeys(self.ids, ArraySpec("position"))
        return {"inputs": ArraySpec("position"), "positions": positions, **ids}

    def empty_rows(self, shape: tuple[int, int], buckets: Sequence[str]) -> ModuleRows:
        """Rows `[rows, tokens]` without a sample; no output is merged at any token."""
        zeros, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        return replace(
            empty_rows(self, *shape),
            index=zeros.copy(),
            merges={name: np.full(shape, -1, np.int32) for name in buckets},
            targets={NEXT_TOKEN: NextTokenTargets(zeros.copy(), weights)},
        )

    def write(
        self,
        rows: ModuleRows,
        row: int,
        start: int,
        segment: int,
        tokens: int,
        spans: Sequence[TextSpan] = (),
    ) -> None:
        """Write a sample of so many tokens into a row, but for the tokens themselves.

        Args:
            rows: arrays as of `empty_rows`.
            start: place in the row of its first token.
            segment: number of the sample in its row.
            spans: spans of its media, as of `text_spans`.

        Raises:
            ValueError: the writer returns positions of another shape.
        """
        here = row, slice(start, start + tokens)
        positions = self._make_positions(tokens, spans)
        assert rows.index is not None  # as `empty_rows` made them
        rows.segment_ids[here], rows.positions[here] = segment, positions
        rows.index[here] = np.arange(tokens)
        if SPAN_IDS in self.ids:
            for span in spans:
                first = start + span.start
                rows.array(SPAN_IDS)[row, first : first + span.count] = first + 1

    def _make_positions(self, tokens: int, spans: Sequence[TextSpan]) -> NDArray[np.int32]:
        """Positions `[tokens, axes]`. Raises ValueError: the writer returns another shape."""
        positions, valid = self.write_positions(tokens, spans), (tokens, self.position_axes)
        if positions.shape != valid:
            raise ValueError(
                f"{self.write_positions!r:.80} writes positions of the shape {positions.shape} for "
                f"{tokens} tokens; valid: {valid}"
            )
        return positions


def text_of(specs: Sequence[RowSpec]) -> TokenSpec:
    """The description of the rows of texts, of which there is one.

    Raises:
        ValueError: there is none, or several.
    """
    texts = [spec for spec in specs if isinstance(spec, TokenSpec)]
    if len(texts) != 1:
        names = ", ".join(spec.name for spec in specs)
        raise ValueError(f"{len(texts)} of the specs {names} are of tokens; valid: one of them")
    return texts[0]


def media_of(specs: Sequence[RowSpec]) -> tuple[MediaRowSpec, ...]:
    """The descriptions of the rows of media."""
    return tuple(spec for spec in specs if isinstance(spec, MediaRowSpec))


def text_spans(lengths: Lengths, specs: Iterable[MediaRowSpec]) -> list[TextSpan]:
    """The spans of a sample's media, in the order of its text; media without outputs have none.

    Outputs of several encoders that are merged at the same tokens have one span.

    Args:
        lengths: lengths by bucket.
        specs: descriptions of the buckets of media.
    """
    spans = set()
    for spec in specs:
        media = lengths.of(spec.name)
        if spec.selected:
            continue
        for medium, start in zip(media, lengths.starts.get(spec.name, ()), strict=True):
            end = max(
                (token + count for _, token, count in spec.merge_runs(medium) if count), default=0
            )
            if end:
                spans.add(TextSpan(start, end, spec.grid_of(medium), spec.kind))
    return sorted(spans)
