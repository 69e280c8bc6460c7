"""The benchmarks measure what they say, on a small configuration."""

import json
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import checkpoint as bench_checkpoint
from benchmarks import loop as bench
from benchmarks import pipeline as bench_pipeline
from benchmarks.balance import bench_balance
from benchmarks.pipeline import IDLE_TICKS, TICKS
from data.loading.loader import MicrobatchStats
from mllm_jax.calibrate.timing import median_between
from mllm_jax.config.load import load_config
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.task_kinds import B, F
from tests.configs import ROOT


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(bench, "STEPS", 2)
    monkeypatch.setattr(bench, "WARM_UP", 1)


def test_padding_to_the_longest_is_the_worse_baseline(small_config):
    figures = bench.bench_data(small_config(), lambda line: None)
    assert figures["samples_per_second"] > figures["steps_per_second"] > 0
    for name in ("tokens", "vision", "audio"):
        assert 0 <= figures[f"padding_{name}"] < 1
        assert 0 < figures[f"longest_{name}"] < 1


@pytest.mark.slow
def test_the_step_is_compared_with_one_device(small_config):
    figures = bench.bench_sharding(small_config(), lambda line: None)
    assert figures["first_step_seconds"] > 0
    assert figures["tokens_per_second"] > 0
    assert 0.05 < figures["over_one_device"] < 20


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_a_median_lies_between_two_of_the_values(values):
    low, high = median_between(values)
    assert low <= statistics.median(values) <= high
    assert {low, high} <= {*values}


def test_the_median_of_what_is_measured_is_missed_once_in_twenty_times():
    rng = np.random.default_rng(0)
    ends = [median_between(rng.lognormal(0, 0.3, 60)) for _ in range(2000)]
    assert np.mean([low <= 1 <= high for low, high in ends]) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_saves_with_and_without_checksums_take_turns(small_config, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_checkpoint, "TURNS", 1)
    told: list[str] = []
    figures = bench_checkpoint.bench_checkpoint(
        small_config(run__directory=str(tmp_path)), told.append
    )
    assert told == [f"turn {turn} of 1" for turn in range(2)]
    for name in ("blocking", "plain_blocking", "saving", "finite", "restoring", "verifying"):
        assert 0 < figures[name] < 60
    for name in ("blocking", "finite", "verifying"):
        share = figures[f"{name}_share"]
        assert figures[f"{name}_share_low"] <= share <= figures[f"{name}_share_high"]
    assert figures["verifying_share"] < 1
    assert not [*(tmp_path / "test").iterdir()]


def test_a_medium_that_no_sample_has_is_padding_alone():
    lengths = {"decoder": np.array([2, 3]), "vision": np.array([], np.int64)}
    stats = MicrobatchStats(
        2, {"tokens": 5, "vision": 0}, {"tokens": 10, "vision": 8}, lengths, {}, {}, {}, 0.0
    )
    figures = bench._padding_shares([stats], "decoder")
    assert (figures["padding_vision"], figures["longest_vision"]) == (1.0, 0.0)


def test_a_step_is_predicted_from_its_tasks_and_meetings():
    schedule = interleaved_schedule(1, 1, 2)
    ticks, idle = len(schedule.ticks), 0.25
    assert schedule.stage_syncs.all()
    each = {F: 1.0, B: 2.0, "shared": 0.5}
    seconds = {name: TICKS * (idle + own) for name, own in each.items()}
    seconds |= {"idle": TICKS * idle, "idle longer": IDLE_TICKS * idle}
    predicted = bench_pipeline.predicted_seconds(schedule, seconds)
    assert predicted == pytest.approx(2 * sum(each.values()) + ticks * idle)


@pytest.mark.slow
def test_placements_and_growth_are_tables_with_the_columns_asked_for(monkeypatch):
    monkeypatch.setattr(bench_pipeline, "REPETITIONS", 1)
    monkeypatch.setattr(bench_pipeline, "COMPILATIONS", 1)
    monkeypatch.setattr(bench_pipeline, "SHARES", (0.25,))
    monkeypatch.setattr(bench_pipeline, "MICROBATCHES", (8, 32))
    config = load_config(ROOT / "configs" / "bench" / "pipeline.yaml", ["data.budgets.tokens=64"])
    rows = bench_pipeline.bench_pipeline(config, lambda line: None)
    assert [row["placement"] for row in rows] == ["first_stage", "prologue", "bubbles"]
    for row in rows:
        assert list(row) == [
            "encoder_share",
            "placement",
            "seconds",
            "predicted_seconds",
            "lower_bound_seconds",
            "speedup_over_first_stage",
        ]
        assert min(row["lower_bound_seconds"], row["seconds"]) > 0
    small, large = bench_pipeline.bench_microbatches(config, lambda line: None)
    assert large["temporary_mib"] == pytest.approx(small["temporary_mib"], rel=0.05)


def test_balancing_reaches_the_bound():
    config = load_config(ROOT / "configs" / "bench" / "balance.yaml")
    rows = bench_balance(config, lambda line: None, ranks=40, samples=25)
    assert [row["phase"] for row in rows] == ["decoder", "vision", "audio"]
    for row in rows:
        assert list(row) == ["phase", "ranks", "samples", "before", "after", "bound", "seconds"]
        assert (row["ranks"], row["samples"]) == (40, 25)
        assert 1 <= row["bound"] <= row["after"] * (1 + 1e-9)
        assert row["after"] <= 1.01 * row["bound"]
        assert row["before"] > 1.2
        assert row["seconds"] > 0


@pytest.mark.slow
def test_loading_weights_takes_little_of_the_host(small_config, capsys) -> None:
    """A checkpoint of two files; a process of its own, whose memory nothing else fills."""
    sizes = ["model.decoder.layers=3", "model.decoder.vocab=16000"]
    line = [sys.executable, "launch.py", "bench", "import", "--json", *sizes]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    figures = json.loads(done.stdout)
    assert figures["bytes"] > 1.5 * figures["largest_file"] > 3e8
    assert figures["host_files"] < 1.3
    assert 0 < figures["speed"] == figures["read_seconds"] / figures["load_seconds"]
