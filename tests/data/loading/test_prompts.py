"""Rows of prompts come in a few lengths, none of them much longer than what it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.loading.prompts import rounded_up


@pytest.mark.parametrize(
    ("need", "length"), [(0, 128), (1, 128), (129, 256), (1024, 1024), (1100, 1280), (2049, 2560)]
)
def test_lengths_are_whole_units_and_above_eight_whole_steps(need: int, length: int) -> None:
    assert rounded_up(need, 128) == length


@given(st.integers(1, 10**6), st.integers(1, 512))
def test_rows_hold_the_need_and_at_most_a_quarter_more(need: int, unit: int) -> None:
    length = rounded_up(need, unit)
    assert length % unit == 0
    assert need <= length < 1.25 * need + unit
