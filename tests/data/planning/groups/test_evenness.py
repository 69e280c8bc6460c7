"""Steps that are drawn are as uneven as those that groups distribute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.planning.groups.evenness import Shares, draw_steps
from data.planning.packing import Capacity, make_capacity
from data.sample import DataError, Lengths
from tests.data.planning.test_packing import sample_lengths
from tests.data.samples import AUDIO, CAPACITY, TEXT, VISION, WORK, make_lengths

SAMPLES = st.lists(
    sample_lengths.filter(lambda n: CAPACITY.misfit(n) is None), min_size=1, max_size=30
)


def shares(groups: int, samples: int | None = None, rows: int = 16) -> Shares:
    own = rows // groups
    return Shares(groups, own, dict.fromkeys(WORK, own), samples)


def uneven(samples: list[Lengths], own: Shares, capacity: Capacity = CAPACITY) -> float:
    drawn = draw_steps(samples, capacity, WORK, own)
    return drawn.heaviest["decoder"] / drawn.mean["decoder"]


@settings(max_examples=20)
@given(samples=SAMPLES, groups=st.sampled_from([1, 2, 4, 8]))
def test_no_rank_has_less_than_the_mean_and_the_dearest_item(
    samples: list[Lengths], groups: int
) -> None:
    drawn = draw_steps(samples, CAPACITY, WORK, shares(groups))
    assert all(own >= drawn.mean[name] * (1 - 1e-9) for name, own in drawn.heaviest.items())
    # A group's rows hold no more than they have room for.
    least = min(lengths.total("decoder") for lengths in samples)
    assert 0 < drawn.samples * least <= 16 // groups * CAPACITY.limit("tokens")


def test_equal_samples_are_even_in_groups_of_any_size() -> None:
    for groups in (1, 2, 8):
        assert uneven([make_lengths(20, {})], shares(groups, 64)) == pytest.approx(1)


def test_smaller_groups_are_less_even_as_sums_of_fewer_samples_are() -> None:
    """The heaviest of n groups is as far above the mean as the largest of n normal values."""
    samples = [make_lengths(20, {}), make_lengths(30, {})]
    room = make_capacity(
        {"tokens": 10**6, "vision": 10**6, "audio": 8 * 10**5, "segments": 10**4},
        (TEXT, VISION, AUDIO),
    )
    found = [uneven(samples, shares(groups, 1024 // groups), room) for groups in (1, 4, 16)]
    assert found[0] == pytest.approx(1)
    costs = [WORK["decoder"].linear * n + WORK["decoder"].quadratic * n * n for n in (20, 30)]
    deviation = np.std(costs) / np.mean(costs)
    # The largest of 4 and of 16 normal values is 1.03 and 1.77 deviations above the mean.
    expected = [1 + 1.03 * deviation / 256**0.5, 1 + 1.77 * deviation / 64**0.5]
    assert found[1:] == pytest.approx(expected, abs=0.6 * deviation / 256**0.5)


def test_a_giant_counts_whoever_has_it() -> None:
    samples = [*[make_lengths(10, {})] * 7, make_lengths(300, {})]
    assert uneven(samples, shares(1, 8, rows=8)) > 2


def test_nothing_cannot_be_drawn_from() -> None:
    with pytest.raises(DataError, match="no sample can be used"):
        draw_steps([], CAPACITY, WORK, shares(1))
