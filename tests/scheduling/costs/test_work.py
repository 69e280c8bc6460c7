"""The work of a tower on its segments, against a count of the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.costs.work import ModuleWork, NearPairs

LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@given(
    lengths=LENGTHS,
    linear=st.integers(0, 9),
    quadratic=st.integers(0, 9),
    windowed=st.integers(0, 9),
    window=st.integers(1, 14),
    chunk=st.none() | st.integers(1, 14),
)
def test_layers_of_windows_and_chunks_count_the_pairs_that_are_near(
    lengths: list[int],
    linear: int,
    quadratic: int,
    windowed: int,
    window: int,
    chunk: int | None,
) -> None:
    """Both ways, and every position with itself."""
    own = ModuleWork(linear, quadratic, (NearPairs(windowed, window, chunk),))
    size = chunk or 99
    near = [
        sum(abs(a - b) < window and a // size == b // size for a in range(n) for b in range(n))
        for n in lengths
    ]
    attention = [quadratic * n**2 + windowed * m for n, m in zip(lengths, near, strict=True)]
    each = [linear * n + m for n, m in zip(lengths, attention, strict=True)]
    np.testing.assert_allclose(own.attention(np.array(lengths, np.float64)), attention)
    np.testing.assert_allclose(own.segment_flops(lengths), each)
    assert own.forward_flops(lengths) == pytest.approx(sum(each))
