"""The benchmark of placing: loads are what it says, and every row is measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import placing
from mllm_jax.config.load import load_config
from scheduling.lowering.bounds import ScheduleBounds
from tests.configs import ROOT


@given(st.integers(1, 4), st.integers(8, 4096), st.floats(0.01, 1.0), st.integers(0, 2**16))
def test_media_fill_their_rows_to_the_load(
    rows: int, positions: int, load: float, seed: int
) -> None:
    media = placing.media_of(np.random.default_rng(seed), rows, positions, load)
    longest = max(1, int(placing.SPANS[1] * positions))
    for row in range(rows):
        own = media[media[:, 0] == row]
        starts, spans = own[:, 1], own[:, 2]
        assert (starts == np.cumsum(spans) - spans).all()
        assert spans.max(initial=0) <= longest
        assert spans.sum() <= min(1.5 * load, 1.0) * positions
        assert spans.sum() > 0.5 * load * positions - longest - 1


def test_every_size_and_load_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "CASES", ((2, 8), (4, 8)))
    monkeypatch.setattr(placing, "STEPS", 2)
    config = load_config(ROOT / "configs" / "optimus" / "dual_22b_5b_gpt175b_512.yaml")
    rows = placing.bench_placing(config)
    assert [(row["stages"], row["load"]) for row in rows] == [
        (stages, share) for stages in (2, 4) for share in placing.LOADS
    ]
    for row in rows:
        assert row["encoders"] == 2
        parts = [row[f"{part}_seconds"] for part in ("microbatches", "place", "tables")]
        assert min(parts) > 0
        assert row["seconds"] >= max(parts)
        assert row["media"] > 0
        assert row["worst_seconds"] >= row["seconds"]
        assert 0 <= row["fits"] <= 1 <= row["attempts"]


def test_a_schedule_that_does_not_fit_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = load_config(ROOT / "configs" / "optimus" / "dual_22b_5b_gpt175b_512.yaml")
    follow, frame = placing._make_scheduler(config, 2, 8)
    found = [placing._place_step(follow, frame, 0.1, 0)]
    monkeypatch.setattr(ScheduleBounds, "find_excess", lambda *_: "slots")
    found.append(placing._place_step(follow, frame, 0.1, 0))
    ways = len(follow.placement_limits())
    assert [(own.attempts, own.fits) for own in found] == [(1, True), (2 * ways, False)]
    assert found[1].microbatches > 0
