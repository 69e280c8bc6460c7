"""Packing under several budgets: nothing overflows, nobody starves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.planning.layout import lay_out
from data.planning.packing import WAITS, FreeRows, FreeSpans, fill, make_capacity, pack
from data.sample import DataError, Lengths
from tests.data.samples import AUDIO, BUDGETS, TEXT, VISION, make_lengths

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


@given(needs_lists.filter(len), st.integers(1, 6))
def test_exchanging_fills_every_resource_and_keeps_the_oldest(
    needs: list[tuple[int, ...]], rows: int
) -> None:
    free, array = FreeRows(rows, LIMITS), np.array(needs)
    found = [free.take(need) for need in needs]
    first = np.array([WAITS if row is None else row for row in found])
    before = free.left.copy()
    filled = fill(free, array, first, positions=2)
    assert filled[0] == first[0]
    assert np.count_nonzero(filled == WAITS) == np.count_nonzero(first == WAITS)
    left = np.tile(LIMITS, (rows, 1))
    np.subtract.at(left, filled[filled >= 0], array[filled >= 0])
    assert (left >= 0).all()
    assert (left[:, :2] <= before[:, :2]).all()
    np.testing.assert_array_equal(free.left, left)


def test_a_larger_sample_takes_the_place_of_a_smaller_one() -> None:
    needs = [(8, 2, 1), (7, 2, 1), (4, 1, 1), (12, 2, 1), (12, 1, 1)]
    free = FreeRows(1, LIMITS)
    rows = np.array([row if (row := free.take(need)) is not None else WAITS for need in needs])
    assert rows.tolist() == [0, 0, 0, WAITS, WAITS]
    # 12 positions for 8, 7 or 4 are more than there are.
    assert fill(free, np.array(needs), rows, positions=2).tolist() == [0, 0, 0, WAITS, WAITS]
    needs[4] = (5, 1, 1)
    assert fill(free, np.array(needs), rows, positions=2).tolist() == [0, 0, WAITS, WAITS, 0]


media_lengths = st.lists(st.integers(1, 70), max_size=2)
sample_lengths = st.builds(
    lambda tokens, images, clips: make_lengths(
        tokens, {"vision": tuple(images), "audio": tuple(clips)}
    ),
    st.integers(1, 300),
    st.lists(st.integers(1, 36), max_size=2),
    st.lists(st.integers(1, 320), max_size=2),
)


@given(st.lists(sample_lengths, max_size=30))
def test_spans_are_disjoint_aligned_and_inside_the_row(lengths: list[Lengths]) -> None:
    capacity = make_capacity(BUDGETS, (TEXT, VISION, AUDIO))
    rows = pack([capacity.needs(n) for n in lengths], 3, capacity.limits)
    taken: dict[tuple[str, int], set[int]] = {}

    def take(module: str, row: int, start: int, span: int) -> None:
        positions = set(range(start, start + span))
        assert not positions & taken.setdefault((module, row), set())
        assert max(positions) < BUDGETS[module]
        taken[module, row] |= positions

    for placement in lay_out(list(enumerate(lengths)), rows, capacity.specs):
        take("tokens", placement.row, placement.start, placement.lengths.total("decoder"))
        for spec in (VISION, AUDIO):
            spans = zip(
                placement.media[spec.name], placement.lengths.counts(spec.name), strict=True
            )
            for (row, start, _), length in spans:
                assert row == placement.row
                assert start % spec.reduction == 0
                span = spec.outputs(length) * spec.reduction
                take(spec.name, placement.row, start, span)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"audio": 636}, "data.budgets.audio = 636 is not a multiple of .* reduction 8"),
        ({"video": 8}, "valid: exactly"),
    ],
)
def test_impossible_budgets_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_capacity(BUDGETS | change, (TEXT, VISION, AUDIO))


def test_a_misfit_names_the_budget() -> None:
    capacity = make_capacity(BUDGETS, (TEXT, VISION, AUDIO))
    assert capacity.misfit(make_lengths(10, {"vision": (72,)})) is None
    assert "needs 73 vision, above data.budgets' 72" in str(
        capacity.misfit(make_lengths(10, {"vision": (36, 37)}))
    )


@given(
    rows=st.integers(1, 4),
    segments=st.integers(1, 3),
    spans=st.lists(st.integers(1, 12), max_size=30),
)
def test_spans_go_to_the_fullest_row(rows: int, segments: int, spans: list[int]) -> None:
    """The result is compared with a search of all rows."""
    free = FreeSpans(rows, 20, segments)
    left = [[20, segments] for _ in range(rows)]
    for span in spans:
        fitting = [row for row in range(rows) if left[row][0] >= span and left[row][1]]
        wanted = min(fitting, key=lambda row: (left[row][0], row), default=None)
        assert free.take(span) == wanted
        if wanted is not None:
            left[wanted] = [left[wanted][0] - span, left[wanted][1] - 1]
