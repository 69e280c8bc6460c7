"""Prompts of a batch as columns: which answers of a row grow side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from data.loading.evaluation import PromptSlot


@dataclass(frozen=True)
class AnswerColumns:
    """Columns of a batch.

    Attributes:
        arrays: `[rows, columns]` int32 of the rows of this process: `last`, position of the
            prompt's last token in its row; `segments`, number of its segment, 0 for a column
            without a prompt; `lengths`, its tokens; `limits`, the most tokens of its answer;
            `numbers`, by which tokens are drawn.
        places: row of all rows, and column, of each prompt.
    """

    arrays: Mapping[str, np.ndarray]
    places: Sequence[tuple[int, int]]

    @classmethod
    def from_prompts(
        cls,
        slots: Sequence[PromptSlot],
        rows: Sequence[int],
        multiple: int,
        limits: Sequence[int],
        fewest: int = 1,
    ) -> AnswerColumns:
        """Columns of prompts.

        Args:
            slots: where the prompts of all rows lie.
            rows: rows of this process.
            multiple: number of which the columns of a row are a multiple.
            limits: the most tokens of each prompt's answer.
            fewest: columns that there are at least, so that batches have one shape.
        """
        filled: Counter[int] = Counter()
        places = []
        for slot in slots:
            places.append((slot.row, filled[slot.row]))
            filled[slot.row] += 1
        count = -(-max([fewest, *filled.values()]) // multiple) * multiple
        arrays = {name: np.zeros((len(rows), count), np.int32) for name in NAMES}
        local = {row: number for number, row in enumerate(rows)}
        for slot, (row, column), limit in zip(slots, places, limits, strict=True):
            if row in local:
                at = local[row], column
                values = slot.start + slot.tokens - 1, slot.segment, slot.tokens, limit, slot.index
                for name, value in zip(NAMES, values, strict=True):
                    arrays[name][at] = value
        return cls(arrays, places)


#: Names of the arrays.
NAMES = ("last", "segments", "lengths", "limits", "numbers")
