"""What rows of tokens hold beside the tokens: positions and ids, written from lengths alone.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.batch import DECODER, NEXT_TOKEN, ModuleRows, NextTokenTargets
from data.rows.spec import Kind, RowSpec
from data.sample import Grid, Lengths

#: Ids that a decoder's rows may have beside those of segments.
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
class TokenSpec:
    """The arrays of a decoder's rows beside its tokens; picklable.

    Attributes:
        axes: number of axes of a position.
        positions: writer of the positions of a sample.
        ids: names of the ids that masks read beside those of segments.
        module: name of the module whose rows these are.

    Raises:
        ValueError: ids that no rows of tokens have.
    """

    axes: int = 1
    positions: PositionWriter = sequential
    ids: tuple[str, ...] = ()
    module: str = DECODER

    def __post_init__(self) -> None:
        """Refuse ids that nothing writes."""
        if unknown := sorted({*self.ids} - {SPAN_IDS}):
            raise ValueError(f"masks read {', '.join(unknown)} of tokens; valid: {SPAN_IDS}")

    def empty_rows(self, shape: tuple[int, int], buckets: Sequence[str]) -> ModuleRows:
        """Rows `[rows, tokens]` without a sample; no output is merged at any token."""
        inputs, segment_ids, index, labels = (np.zeros(shape, np.int32) for _ in range(4))
        targets = NextTokenTargets(labels, np.zeros(shape, np.float32))
        return ModuleRows(
            inputs,
            segment_ids,
            np.zeros((*shape, self.axes), np.int32),
            index,
            merges={name: np.full(shape, -1, np.int32) for name in buckets},
            targets={NEXT_TOKEN: targets},
            arrays={name: np.zeros(shape, np.int32) for name in self.ids},
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
        positions = self.positions(tokens, spans)
        if positions.shape != (tokens, self.axes):
            raise ValueError(
                f"positions of {tokens} tokens have the shape {positions.shape}; valid: "
                f"{(tokens, self.axes)}"
            )
        assert rows.index is not None  # as `empty_rows` made them
        rows.segment_ids[here], rows.positions[here] = segment, positions
        rows.index[here] = np.arange(tokens)
        if SPAN_IDS in self.ids:
            for span in spans:
                first = start + span.start
                rows.arrays[SPAN_IDS][row, first : first + span.count] = first + 1


#: Rows of a decoder whose positions have one axis and whose masks read no further ids.
TEXT = TokenSpec()


def text_spans(lengths: Lengths, specs: Mapping[str, RowSpec]) -> list[TextSpan]:
    """The spans of a sample's media, in the order of its text; media without outputs have none.

    Outputs of several encoders that are merged at the same tokens have one span.

    Args:
        lengths: lengths by bucket.
        specs: row specs by bucket.
    """
    spans = set()
    for name, media in lengths.media.items():
        spec, starts = specs[name], lengths.starts[name]
        if spec.selected:
            continue
        for inputs, start, grid in zip(media, starts, spec.grids(lengths), strict=True):
            runs = list(spec.landing(inputs, grid))
            end = max((token + count for _, token, count in runs if count), default=0)
            if end:
                spans.add(TextSpan(start, end, grid, spec.kind))
    return sorted(spans)
