"""The benchmark of placing: loads are what it says, and every row is measured."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.bench import placing
from mllm_jax.config.load import load
from scheduling.programs.frame import Frame
from tests.configs import ROOT


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20))
def test_feeds_cover_the_load_in_order(loads: list[float]) -> None:
    feeds = placing.feeds_of(np.array(loads))
    assert len(feeds) == int(np.ceil(sum(loads) - 1e-9))
    assert feeds[0][0] == 0
    assert feeds[-1][1] == len(loads) - 1
    for (first, last), (then, _) in pairwise(feeds):
        assert first <= last
        assert then in (last, last + 1)


def test_every_size_and_load_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "CASES", ((2, 8), (4, 8)))
    monkeypatch.setattr(placing, "STEPS", 2)
    config = load(ROOT / "configs" / "optimus" / "dual_22b_5b_gpt175b_512.yaml")
    rows = placing.bench_placing(config)
    assert [(row["stages"], row["load"]) for row in rows] == [
        (stages, share) for stages in (2, 4) for share in placing.LOADS
    ]
    for row in rows:
        assert row["encoders"] == 2
        assert min(row["place_seconds"], row["tables_seconds"]) > 0
        assert row["seconds"] >= max(row["place_seconds"], row["tables_seconds"])
        assert row["worst_seconds"] >= row["seconds"]
        assert 0 <= row["fits"] <= 1 <= row["attempts"]


def test_a_schedule_that_does_not_fit_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = load(ROOT / "configs" / "optimus" / "dual_22b_5b_gpt175b_512.yaml")
    follow, frame = placing._follower(config, 2, 8)
    found = [placing._placed(follow, frame, 0.1, 0)]
    monkeypatch.setattr(Frame, "excess", lambda *_: "slots")
    found.append(placing._placed(follow, frame, 0.1, 0))
    assert [own[2:] for own in found] == [(1, True), (len(follow.ways()), False)]
