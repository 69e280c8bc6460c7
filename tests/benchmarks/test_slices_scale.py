"""Ways to use idle time at scale: speed-ups over one group, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import slices_scale
from mllm_jax.config.load import load_config
from scheduling.search.space import Space


@pytest.fixture
def without_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of pipelines takes a minute."""

    def seconds_of(search: object, space: Space) -> float:
        del search
        return 1.0 if space.stages == (1,) else 0.8

    monkeypatch.setattr(slices_scale, "_fastest_seconds", seconds_of)


@pytest.mark.usefixtures("without_pipelines")
def test_smaller_shares_of_a_step_gain_more_by_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices_scale, "MODELS", ("edge",))
    monkeypatch.setattr(slices_scale, "DEVICES", (8, 64))
    config = load_config(slices_scale.CONFIGS / "edge.yaml", planned=False)
    picture = tmp_path / "scale.png"
    few, many = slices_scale.bench_slices_scale(config, image=str(picture))
    assert few["slices"] < many["slices"]
    assert few["own devices"] < few["slices"]
    assert few["bubbles"] == pytest.approx(1.25)
    assert few["wins"] == "bubbles"
    assert 1 < many["mixture"] < few["mixture"]
    assert many["seconds"] < few["seconds"]
    assert picture.stat().st_size > 10_000


@pytest.mark.usefixtures("without_pipelines")
def test_losses_over_a_step_have_no_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_scale, "MODELS", ("towers",))
    monkeypatch.setattr(slices_scale, "DEVICES", (8,))
    config = load_config(slices_scale.CONFIGS / "towers.yaml", planned=False)
    (row,) = slices_scale.bench_slices_scale(config)
    assert row["mixture"] is None
    assert row["plan"] == "decoder: 10% of devices 0 to 7; image: 90% of devices 0 to 7"


def test_what_gains_next_to_nothing_does_not_win() -> None:
    assert slices_scale._name_winner({"slices": 1.01, "bubbles": None}) == "none"
    assert slices_scale._name_winner({"slices": 1.1, "bubbles": 1.3}) == "bubbles"
