"""The benchmark of mixtures: phases are what they say, and one program runs all of them."""

from __future__ import annotations

import numpy as np
import pytest

from mllm_jax.bench import mixture
from mllm_jax.config.load import ExperimentConfig, load
from tests.configs import ROOT


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load(ROOT / "configs" / "bench" / "mixture.yaml")


def test_phases_go_from_one_to_nine_to_nine_to_one(config: ExperimentConfig) -> None:
    images = [mixture.images_of(config, tenths / 10) for tenths in mixture.TENTHS]
    assert images == sorted(set(images))
    for tenths, count in zip(mixture.TENTHS, images, strict=True):
        assert mixture.share_of(config, count) == pytest.approx(tenths / 10, abs=0.03)


def test_a_microbatch_holds_its_images(config: ExperimentConfig) -> None:
    batch = mixture.microbatch(config, 3, seed=0)
    landed = batch["decoder"]["media"]["vision"]
    assert np.count_nonzero(landed >= 0) == 3 * mixture.OUTPUTS
    assert batch["encoders"]["vision"]["segment_ids"].max() == 3
    assert len(batch["places"]["vision"]) == 3
    assert (batch["decoder"]["segment_ids"] == 1).all()


@pytest.mark.slow
def test_every_phase_is_measured_with_one_program(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixture, "TENTHS", (2, 5, 8))
    monkeypatch.setattr(mixture, "REPETITIONS", 1)
    decoder = config.model.decoder.model_copy(update={"layers": 2, "d_model": 32, "d_ff": 64})
    towers = {
        name: tower.model_copy(update={"layers": 2, "d_model": 32, "d_ff": 64})
        for name, tower in config.model.encoders.items()
    }
    model = config.model.model_copy(update={"decoder": decoder, "encoders": towers})
    budgets = {"tokens": 96, "segments": 32, "vision": 256}
    data = config.data.model_copy(update={"budgets": budgets})
    train = config.train.model_copy(update={"accumulate": 4})
    small = config.model_copy(update={"model": model, "data": data, "train": train})
    rows = mixture.bench_mixture(small, lambda text: None)
    assert [row["phase"] for row in rows] == ["2:8", "5:5", "8:2"]
    assert [row["compilations"] for row in rows] == [1, 0, 0]
    for row in rows:
        speed = row["tokens_per_second"]
        assert set(speed) == {"first_stage", "fixed", "ours", "replanned"}
        assert min(*speed.values(), row["bound"]) > 0
    assert rows[1]["tokens_per_second"]["fixed"] == rows[1]["tokens_per_second"]["replanned"]
    assert rows[2]["tokens_per_second"]["fixed"] < rows[1]["tokens_per_second"]["fixed"]
