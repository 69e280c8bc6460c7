"""The benchmark of length buckets: what it assigns, what it computes, and how it predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bucket_variants as ways_of
from benchmarks import buckets
from benchmarks.bucket_variants import TAIL, WAYS, BucketVariant, median_positions, single_bucket
from data.planning.stream import MicrobatchPlan
from data.rows.spec import BucketCost
from mllm_jax.config.load import ExperimentConfig, load_config
from tests.configs import ROOT

#: Costs of devices whose rows are computed whole; a row of `long` is as dear as five of `short`.
COSTS = {
    "short": BucketCost(2, 0.0, 1.0, 0.0, 512),
    "long": BucketCost(1, 50.0, 1.25, 0.0, 2048),
}
#: Seconds of the same devices without media, and of a row that each computes in the bucket `short`,
#: per position and per pair.
TEXT, LINEAR, QUADRATIC = 10.0, 0.5, 1 / 1024


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "buckets.yaml")


@pytest.fixture(scope="module")
def ways(config: ExperimentConfig) -> dict[str, BucketVariant]:
    found = {
        name: BucketVariant.from_config(single_bucket(config, name), name, {}) for name in WAYS[1:]
    }
    return {"buckets": BucketVariant.from_config(config, "buckets", COSTS), **found}


def rows_of(way: BucketVariant, plan: MicrobatchPlan) -> dict[str, set[int]]:
    """The rows of each bucket that have media."""
    places = [p.media for p in plan.placements]
    return {own.name: {row for m in places for row, *_ in m[own.name]} for own in way.buckets}


def test_the_tail_is_32_times_the_median(config: ExperimentConfig) -> None:
    assert np.median(buckets.MEDIANS) == 1
    assert max(buckets.MEDIANS) == TAIL == 32
    assert TAIL * median_positions(config) == config.data.image.max_patches


def test_rows_hold_the_whole_step(config: ExperimentConfig, ways: dict[str, BucketVariant]) -> None:
    for way in ways.values():
        (plan,) = way.plan_steps(buckets.of_medians(config, buckets.MEDIANS), 1)
        assert len(plan.placements) == len(buckets.MEDIANS)
        batch = buckets.batch_of(way, plan)
        merges = batch.text_rows.merges
        filled = sum(int(np.count_nonzero(batch.rows[name].segment_ids)) for name in merges)
        assert filled == sum(buckets.MEDIANS) * median_positions(config)
        merged = [np.count_nonzero(m >= 0) for m in merges.values()]
        assert sum(merged) == sum(buckets.MEDIANS) * median_positions(config) // 16
    # The long medium alone is split, and half of the others fill the row of either rank.
    (plan,) = ways["buckets"].plan_steps(buckets.of_medians(config, buckets.MEDIANS), 1)
    assert {name: len(rows) for name, rows in rows_of(ways["buckets"], plan).items()} == {
        "short": 2,
        "long": 1,
    }
    assert 2 * config.data.budgets["short"] == (sum(buckets.MEDIANS) - TAIL) * median_positions(
        config
    )


def test_predictions_are_those_of_full_rows(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices that take so many seconds for every row are predicted exactly."""

    def seconds(way: BucketVariant, plan: MicrobatchPlan) -> float:
        found = TEXT
        for name, rows in rows_of(way, plan).items():
            n, split = way.config.data.budgets[name], way.config.parallel.encoders[name].context
            groups = way.config.parallel.encoders[name].batch
            most = max(np.bincount([r * groups // 2 for r in rows], minlength=1), default=0)
            found += most * (LINEAR * n + QUADRATIC * n**2) / split + (split > 1 and most > 0) * 5
        return found

    def compiled(way: BucketVariant, _: MicrobatchPlan) -> buckets.Runs:
        return lambda plan: lambda: seconds(way, plan)

    def medians(runs: Mapping[str, Callable[[], float]], _: int) -> dict[str, float]:
        return {name: run() for name, run in runs.items()}

    monkeypatch.setattr(buckets, "compile_gradients_of", compiled)
    monkeypatch.setattr(buckets, "median_seconds", medians)
    found = buckets.time_steps(config, lambda _: None)
    for own in found.values():
        assert own["predicted_seconds"] == pytest.approx(own["seconds"])
    row = LINEAR * 2048 + QUADRATIC * 2048**2
    assert found["short"]["seconds"] == TEXT + row
    assert found["long"]["seconds"] == TEXT + row + 5
    assert found["buckets"]["seconds"] == TEXT + row / 2 + 5 + LINEAR * 512 + QUADRATIC * 512**2


def test_buckets_pay_where_they_are_simulated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ways_of, "STEPS", 2)
    found = ways_of.simulate_variants(load_config(buckets.SIMULATED), tmp_path / "buckets.png")
    seconds = {name: own["seconds"] for name, own in found.items()}
    assert min(seconds["short"], seconds["long"]) > 1.15 * seconds["buckets"]
    for own in found.values():
        assert own["seconds"] == pytest.approx(own["predicted_seconds"], rel=0.1)
    assert (tmp_path / "buckets.png").stat().st_size > 0
