"""The benchmark of encoder microbatches of their own: both programs get the same rows."""

from __future__ import annotations

import pytest

from benchmarks import following
from benchmarks.mixture import images_of_row, microbatches, plain
from mllm_jax.config.checks.checks import check
from mllm_jax.config.load import load
from tests.configs import ROOT


@pytest.mark.parametrize("images", [2, 7])
def test_rows_of_both_programs_are_full_of_the_same_images(images: int) -> None:
    own = following.with_rows(load(ROOT / "configs" / "bench" / "mixture.yaml"), images)
    assert images_of_row(own) == images
    assert own.data.budgets["vision"] == own.schedule.budgets["vision"]
    for batch in microbatches(own, images_of_row(own)):
        assert (batch.rows["vision"].segment_ids > 0).all()
    assert not check(own)
    assert not check(plain(own))


def test_ratios_are_of_steps_within_a_turn() -> None:
    """The second turn is ten times as slow, which changes no ratio."""
    turns = [
        {("25%", "decoder"): slow * 2.0, ("25%", "own"): slow * 3.0} for slow in (1.0, 10.0, 1.0)
    ]
    row = following.compared(
        {"decoder": 4.0, "own": 5.0}, {"decoder": 100, "own": 50}, "25%", turns
    )
    assert row["own_over"] == {"compile_seconds": 1.25, "temporary": 0.5, "seconds": 1.5}
    assert row["seconds"] == {"decoder": 2.0, "own": 3.0}
