"""Loads of experts as metrics show them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mllm_jax.train.records.expert_loads import expert_loads, find_nonfinite_layer


def test_loads_are_means_over_steps_by_layer() -> None:
    steps = [
        np.array([[1.0, 1.0, 0.0, 0.0], [0.5] * 4]),
        np.array([[0.0, 0.0, 2.0, 0.0], [0.5] * 4]),
    ]
    uneven, even = expert_loads((1, 3), steps)
    assert (uneven.layer, even.layer) == (1, 3)
    assert uneven.shares == (0.5, 0.5, 1.0, 0.0)
    assert uneven.imbalance == pytest.approx(2.0)
    assert uneven.entropy == pytest.approx(1.5 * math.log(2) / math.log(4))
    assert (even.imbalance, even.entropy) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("experts", [1, 4])
def test_no_figure_is_a_number_where_the_loads_are_none(experts: int) -> None:
    (found,) = expert_loads((3,), [np.full((1, experts), math.nan)])
    assert np.isnan([found.imbalance, found.entropy, *found.shares]).all()


def test_without_experts_there_are_no_loads() -> None:
    assert expert_loads((), [None, None]) == ()
    assert find_nonfinite_layer((), None) is None


def test_the_first_layer_without_numbers_is_told() -> None:
    loads = np.array([[0.5, 0.5], [math.nan, math.nan], [math.nan, math.nan]])
    assert find_nonfinite_layer((0, 2, 4), loads) == 2
    assert find_nonfinite_layer((0, 2, 4), np.ones((3, 2))) is None
