"""The benchmark of lanes: what it deals, what it computes, and how it predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.kinds.modality import LaneCost
from mllm_jax.bench import lanes
from mllm_jax.config.load import ExperimentConfig, load
from tests.configs import ROOT

#: Costs of devices on which a pair of positions is as dear as 0.001 positions.
COSTS = {"short": LaneCost(2, 0.0, 1.0, 0.001), "long": LaneCost(1, 0.0, 0.6, 0.0005)}


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load(ROOT / "configs" / "bench" / "lanes.yaml")


@pytest.fixture(scope="module")
def ways(config: ExperimentConfig) -> dict[str, lanes.Way]:
    return {name: lanes.Way.of(config, name, COSTS) for name in lanes.WAYS}


def test_the_tail_is_32_times_the_median(config: ExperimentConfig) -> None:
    assert np.median(lanes.MEDIANS) == 1
    assert max(lanes.MEDIANS) == lanes.TAIL == 32
    assert lanes.TAIL * lanes.median(config) == config.data.image.max_patches


def test_rows_hold_the_whole_step_and_no_more(
    config: ExperimentConfig, ways: dict[str, lanes.Way]
) -> None:
    median, reduction = lanes.median(config), 16
    samples = [lanes.sample("vision", n * median, reduction) for n in lanes.MEDIANS]
    budgets = {}
    for name, way in ways.items():
        (plan,) = way.plans(samples, 1)
        assert len(plan.placements) == len(samples)
        budgets[name] = lanes.tight(way, plan)
        batch = lanes.batch_of(way, plan, budgets[name])
        filled = sum(np.count_nonzero(b["segment_ids"]) for b in batch["encoders"].values())
        assert filled == sum(lanes.MEDIANS) * median
        landed = [np.count_nonzero(m >= 0) for m in batch["decoder"]["media"].values()]
        assert sum(landed) == sum(lanes.MEDIANS) * median // reduction
    # The long medium alone is split, and half of the others are on either rank.
    assert (budgets["lanes"]["short"], budgets["lanes"]["long"]) == (8 * median, 32 * median)
    (plan,) = ways["lanes"].plans(samples, 1)
    assert [lanes.rows_of(ways["lanes"], plan, lane) for lane in ("short", "long")] == [1, 1]


@pytest.mark.parametrize("groups", [1, 2])
def test_costs_are_found_from_the_seconds_of_rows(groups: int) -> None:
    points = [(n, 0.5 + 2 / groups * (0.01 * n + 1e-4 * n**2)) for n in (256, 512, 1024)]
    found = lanes._parabola(points, groups, rows=2)
    assert found.groups == groups
    assert [found.fixed, found.linear, found.quadratic] == pytest.approx([0.5, 0.01, 1e-4])
    falling = lanes._parabola([(1, 3.0), (2, 2.9), (3, 2.8)], groups, rows=2)
    assert min(falling.fixed, falling.linear, falling.quadratic) >= 0


def test_lanes_pay_where_they_are_simulated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lanes, "STEPS", 1)
    found = lanes.simulated(load(lanes.SIMULATED), tmp_path / "lanes.png")
    seconds = {name: own["seconds"] for name, own in found.items()}
    assert min(seconds["short"], seconds["long"]) > 1.15 * seconds["lanes"]
    for own in found.values():
        assert own["seconds"] == pytest.approx(own["predicted_seconds"], rel=0.1)
    assert (tmp_path / "lanes.png").stat().st_size > 0
