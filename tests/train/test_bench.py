"""The benchmarks measure what they say, on a small configuration."""

import numpy as np
import pytest

from data.loader import StepStats
from mllm_jax import bench


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
    figures = bench.bench_step(small_config(), lambda line: None)
    assert figures["first_step_seconds"] > 0
    assert figures["tokens_per_second"] > 0
    assert 0.05 < figures["over_one_device"] < 20


def test_a_modality_that_no_sample_has_is_padding_alone():
    lengths = {"decoder": np.array([2, 3]), "vision": np.array([], np.int64)}
    stats = StepStats(2, {"tokens": 5, "vision": 0}, {"tokens": 10, "vision": 8}, lengths)
    figures = bench._padding([stats])
    assert (figures["padding_vision"], figures["longest_vision"]) == (1.0, 0.0)
