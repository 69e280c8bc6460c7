"""Packing under several budgets: nothing overflows, nobody starves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.packing import FreeSpans, make_capacity, pack
from data.plan import lay_out
from data.sample import DataError, Lengths
from tests.data.samples import AUDIO, BUDGETS, VISION

LIMITS = (20, 12, 3)
needs_lists = st.lists(st.tuples(*(st.integers(0, limit) for limit in LIMITS)), max_size=60)


@given(needs_lists, st.integers(1, 6))
def test_rows_hold_no_more_than_their_budgets(needs: list[tuple[int, ...]], rows: int) -> None:
    placed = pack(needs, rows, LIMITS)
    assert len(placed) == len(needs)
    for row in range(rows):
        inside = [need for need, at in zip(needs, placed, strict=True) if at == row]
        assert np.all(np.sum(inside, axis=0, initial=0) <= np.array(LIMITS))


@given(needs_lists, st.integers(1, 6))
def test_whoever_waits_fits_in_no_row(needs: list[tuple[int, ...]], rows: int) -> None:
    placed = pack(needs, rows, LIMITS)
    left = np.tile(LIMITS, (rows, 1))
    for need, row in zip(needs, placed, strict=True):
        if row is not None:
            left[row] -= need
    waiting = [need for need, row in zip(needs, placed, strict=True) if row is None]
    assert not any((left >= need).all(1).any() for need in waiting)


@given(needs_lists.filter(len), st.integers(1, 6))
def test_a_sample_with_k_older_ones_waits_at_most_k_steps(
    needs: list[tuple[int, ...]], rows: int
) -> None:
    pool = list(enumerate(needs))
    for step in range(len(needs)):
        placed = pack([need for _, need in pool], rows, LIMITS)
        pool = [item for item, row in zip(pool, placed, strict=True) if row is None]
        assert all(age > step for age, _ in pool)
    assert not pool


media_lengths = st.lists(st.integers(1, 70), max_size=2)
sample_lengths = st.builds(
    lambda tokens, images, clips: Lengths(tokens, {"vision": tuple(images), "audio": tuple(clips)}),
    st.integers(1, 300),
    st.lists(st.integers(1, 36), max_size=2),
    st.lists(st.integers(1, 320), max_size=2),
)


@given(st.lists(sample_lengths, max_size=30))
def test_spans_are_disjoint_aligned_and_inside_the_row(lengths: list[Lengths]) -> None:
    capacity = make_capacity(BUDGETS, (VISION, AUDIO))
    rows = pack([capacity.needs(n) for n in lengths], 3, capacity.limits)
    taken: dict[tuple[str, int], set[int]] = {}

    def take(tower: str, row: int, start: int, span: int) -> None:
        positions = set(range(start, start + span))
        assert not positions & taken.setdefault((tower, row), set())
        assert max(positions) < BUDGETS[tower]
        taken[tower, row] |= positions

    for placement in lay_out(list(enumerate(lengths)), rows, (VISION, AUDIO)):
        take("tokens", placement.row, placement.start, placement.lengths.tokens)
        for modality in (VISION, AUDIO):
            spans = zip(
                placement.media[modality.name], placement.lengths.media[modality.name], strict=True
            )
            for (row, start, _), length in spans:
                assert row == placement.row
                assert start % modality.reduction == 0
                span = modality.outputs(length) * modality.reduction
                take(modality.name, placement.row, start, span)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"audio": 636}, "data.budgets.audio = 636 is not a multiple of .* reduction 8"),
        ({"video": 8}, "valid: exactly"),
    ],
)
def test_impossible_budgets_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_capacity(BUDGETS | change, (VISION, AUDIO))


def test_a_misfit_names_the_budget() -> None:
    capacity = make_capacity(BUDGETS, (VISION, AUDIO))
    assert capacity.misfit(Lengths(10, {"vision": (72,)})) is None
    assert "needs 73 vision, above data.budgets' 72" in str(
        capacity.misfit(Lengths(10, {"vision": (36, 37)}))
    )


@given(
    rows=st.integers(1, 4),
    segments=st.integers(1, 3),
    moves=st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=30),
)
def test_spans_go_to_the_fullest_row_and_come_back(
    rows: int, segments: int, moves: list[tuple[int, bool]]
) -> None:
    """Beside a search of all rows; some spans are given back at once."""
    free = FreeSpans(rows, 20, segments)
    left = [[20, segments] for _ in range(rows)]
    for span, back in moves:
        fitting = [row for row in range(rows) if left[row][0] >= span and left[row][1]]
        wanted = min(fitting, key=lambda row: (left[row][0], row), default=None)
        assert free.take(span) == wanted
        if wanted is not None and back:
            free.give_back(wanted, span)
        elif wanted is not None:
            left[wanted] = [left[wanted][0] - span, left[wanted][1] - 1]
