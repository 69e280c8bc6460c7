"""Samples drawn for a mixture: their share of media, and no others however they are assigned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.systems.mixture.draws import RANGE, STEPS, DrawnMixture, SampleDraw
from scheduling.costs.workload import Workload
from tests.benchmarks.systems.test_mixture import config
from tests.scheduling import workloads as small

REDUCTION = 16


@cache
def drawn(share: float, sigma: float = 1.0, seed: int = 0) -> DrawnMixture:
    return DrawnMixture.draw_samples(config("train.accumulate=4"), share, SampleDraw(sigma, seed))


def workload(positions: int, spread: int) -> Workload:
    made = small.workload(encoders=[("vision", 32, 4)])
    return replace(
        made, positions={**made.positions, "vision": positions}, spread={"vision": spread}
    )


@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 1.0), st.floats(0, 2), st.integers(0, 5))
def test_samples_have_the_share_of_media_and_lengths_in_their_range(
    share: float, sigma: float, seed: int
) -> None:
    samples = drawn(share, sigma, seed).samples
    tokens = np.array([own.total("decoder") for own in samples])
    merged = sum(sum(own.counts("vision")) for own in samples) / REDUCTION
    # One sample more or less, and rounding to whole images.
    assert merged / tokens.sum() == pytest.approx(share, abs=0.03)
    assert 512 / RANGE - 1 <= tokens.min() <= tokens.max() <= 512
    for own in samples:
        assert 16 * own.total("decoder") >= sum(own.counts("vision"))


def test_the_same_seed_draws_the_same_samples() -> None:
    again = DrawnMixture.draw_samples(drawn(0.5).config, 0.5, SampleDraw())
    assert again.samples == drawn(0.5).samples
    assert (
        DrawnMixture.draw_samples(drawn(0.5).config, 0.5, SampleDraw(seed=1)).samples
        != drawn(0.5).samples
    )


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_balancing_moves_media_and_loses_none(share: float) -> None:
    """Rows of one image: so many microbatches of an encoder hold all images of a step."""
    own = drawn(share)
    arrived = own.uneven.shares["vision"] * own.load["vision"]
    assigned = own.draw_consumers(workload(64, 1), 4)
    assert len(assigned) == STEPS == len(arrived)
    for step, (feeds, _) in zip(arrived, assigned, strict=True):
        images, units = step.sum() / 64, len(feeds["vision"])
        # Both rows of a microbatch have as many images, or one of them has one more.
        assert images / 2 <= units <= images / 2 + 4
        assert {m for pair in feeds["vision"] for m in pair} <= set(range(4))


def test_balancing_evens_out_what_arrives_uneven() -> None:
    own = drawn(0.5)
    shares = own.uneven.work_of(4, 2)["vision"]
    assert shares.max() > 1.3
    assert own.uneven.shares["vision"].mean() == pytest.approx(1, rel=0.01)
    feeds = own.draw_consumers(workload(64, 1), 4)[0][0]["vision"]
    # What reaches a microbatch, a row of a unit that feeds several counted for each in part.
    reaches = np.zeros(4)
    for first, last in feeds:
        reaches[first : last + 1] += 1 / (last + 1 - first)
    assert reaches.max() < shares.max() * reaches.mean()
