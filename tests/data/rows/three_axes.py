"""Positions on three axes, as Qwen2-VL has them (arXiv 2409.12191, section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from data.rows.tokens import TextSpan


def mrope(tokens: int, spans: Sequence[TextSpan]) -> NDArray[np.int32]:
    """Time, row and column: text counts on all axes, from one more than the largest before it."""
    positions, done, following = np.zeros((tokens, 3), np.int32), 0, 0
    for span in (*spans, None):
        end = tokens if span is None else span.start
        positions[done:end] = following + np.arange(end - done)[:, None]
        following += end - done
        if span is not None:
            done = end + span.count
            places = np.indices(span.grid[:3]).reshape(3, -1).T
            positions[end:done] = following + places
            following += max(span.grid[:3])
    return positions
