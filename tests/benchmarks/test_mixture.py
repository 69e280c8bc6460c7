"""The benchmark of mixtures: phases are what they say, and one program runs all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import mixture
from mllm_jax.config.load import ExperimentConfig, load_config
from tests.configs import ROOT


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "mixture.yaml")


def test_phases_go_from_one_to_nine_to_nine_to_one(config: ExperimentConfig) -> None:
    images = [mixture.images_of(config, tenths / 10) for tenths in mixture.TENTHS]
    assert images == sorted(set(images))
    for tenths, count in zip(mixture.TENTHS, images, strict=True):
        assert mixture.share_of(config, count) == pytest.approx(tenths / 10, abs=0.03)


def test_a_microbatch_holds_its_images(config: ExperimentConfig) -> None:
    batch = mixture.make_microbatch(config, 3, seed=0)
    merged = batch.text_rows.merges["vision"]
    assert np.count_nonzero(merged >= 0) == 3 * mixture.OUTPUTS
    assert batch.rows["vision"].segment_ids.max() == 3
    assert batch.places is not None
    assert len(batch.places["vision"]) == 3
    assert (batch.text_rows.segment_ids == 1).all()


PROGRAMS = ("first_stage", "fixed", "ours", "replanned")


@pytest.fixture(scope="module")
def phases(config: ExperimentConfig) -> list[mixture.MixturePhase]:
    return mixture.phases_of(config)


def _turn(
    phases: list[mixture.MixturePhase], slow: float, names: set[str]
) -> dict[tuple[str, str], float]:
    """A turn in which all is `slow` times as slow and only the phases of `names` take part.

    A step of `ours` takes as many seconds as the number of its phase, counted from 1; of the first
    stage twice as many, and of the replanned program one more.
    """
    beside = {"text": 8.0, "images": 3.0, "little": 1.0, "fixed": 5.0}
    found = {(mixture.BESIDE, name): slow * seconds for name, seconds in beside.items()}
    for number, phase in enumerate(phases, start=1):
        taken = {"first_stage": 2 * number, "ours": number, "replanned": number + 1}
        if phase.name in names:
            found |= {(phase.name, name): slow * seconds for name, seconds in taken.items()}
    return found


def test_rows_have_the_speeds_of_median_seconds(
    config: ExperimentConfig, phases: list[mixture.MixturePhase]
) -> None:
    names = [phase.name for phase in phases]
    turns = [
        _turn(phases, 1.0, set(names)),
        _turn(phases, 7.0, {"1:9"}),  # a slow moment
        _turn(phases, 1.0, {"1:9", "2:8"}),
    ]
    rows = mixture.rows_of(config, phases, turns, dict.fromkeys(names, 0) | {"1:9": 1})
    assert [row["phase"] for row in rows] == names
    assert [row["compilations"] for row in rows] == [1] + [0] * 8
    useful = mixture.useful_tokens(config)
    assert useful == 512 * 8
    for number, row in enumerate(rows, start=1):
        speed, over = row["tokens_per_second"], row["ours_over"]
        assert tuple(speed) == PROGRAMS
        assert speed["ours"] == pytest.approx(useful / number)
        assert speed["first_stage"] == pytest.approx(useful / (2 * number))
        assert over["replanned"] == pytest.approx((number + 1) / number)
        assert over["fixed"] == pytest.approx(speed["ours"] / speed["fixed"])
        assert over["bound"] == pytest.approx(speed["ours"] / row["bound"])
    # Eight microbatches with an image each fill two rows of four, and eight rows take two seconds.
    assert rows[0]["bound"] == pytest.approx(useful / ((8 + 2 * 2 / 8) / 2))
    fixed = [row["tokens_per_second"]["fixed"] for row in rows]
    held = [min(1.0, phases[4].images / phase.images) for phase in phases]
    assert fixed == pytest.approx([useful / 5 * share for share in held])
    assert json.loads(json.dumps(rows)) == rows


def test_ratios_are_taken_within_a_turn(
    config: ExperimentConfig, phases: list[mixture.MixturePhase]
) -> None:
    names = {phase.name for phase in phases}
    turns = [_turn(phases, 1.0, names), _turn(phases, 1.0, names)]
    turns[1] |= {("2:8", "ours"): 4.0, ("2:8", "first_stage"): 12.0}
    row = mixture.rows_of(config, phases, turns, dict.fromkeys(names, 0))[1]
    assert row["ours_over"]["first_stage"] == pytest.approx((4 / 2 + 12 / 4) / 2)


@pytest.mark.slow
def test_every_phase_is_measured_with_one_program(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixture, "TENTHS", (2, 5, 8))
    monkeypatch.setattr(mixture, "TURNS", 1)
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
        assert tuple(speed) == PROGRAMS
        assert min(*speed.values(), row["bound"]) > 0
