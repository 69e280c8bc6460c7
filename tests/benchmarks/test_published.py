"""Published steps beside predicted ones, and the settings that papers give."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.pipeline import Row
from benchmarks.published import bench_published
from mllm_jax.config.load import load_config
from tests.configs import ROOT

#: What is off by more, and by how much at most; docs/measurements/published.md says why.
FAR = {
    ("optimus 3072", "encoders hidden, fine"): 0.2,
    ("production", "idle seconds: gather"): 0.22,
    ("production", "idle seconds: scatter"): 0.12,
    ("production", "idle seconds: warm-up"): 0.13,
    ("production", "idle seconds: cool-down"): 0.28,
    ("production", "idle seconds: other"): 1.4,
    ("production", "idle seconds: tensor"): 1.1,
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    config = load_config(ROOT / "configs/optimus/vit22b_gpt175b_3072.yaml")
    return bench_published(config, lambda line: None)


@pytest.mark.slow
def test_published_figures_are_predicted_within_a_tenth(rows: list[Row]) -> None:
    far = {
        (str(row["setting"]), str(row["figure"])): float(str(row["off"]))
        for row in rows
        if row["off"] is not None and abs(float(str(row["off"]))) > 0.1
    }
    assert set(far) == set(FAR)
    for name, off in far.items():
        assert abs(off) <= FAR[name], name


@pytest.mark.slow
def test_published_steps_are_no_calibration(rows: list[Row]) -> None:
    steps = [row for row in rows if str(row["figure"]).startswith(("seconds, ", "MFU"))]
    assert len([row for row in steps if row["published"] is not None]) == 9
    assert not any(row["calibrated"] for row in steps)


#: Devices, batch, microbatches, stages, tensor degree, chunks (arXiv 2408.03505, section 5).
SETTINGS: dict[str, tuple[int, ...]] = {
    "weak_a": (64, 32, 8, 4, 8, 6),
    "weak_b": (128, 64, 8, 4, 8, 6),
    "weak_c": (256, 128, 16, 8, 8, 12),
    "weak_d": (512, 256, 16, 8, 8, 12),
    "dual_11b_5b_gpt175b_512": (512, 256, 16, 8, 8, 12),
    "dual_22b_5b_gpt175b_512": (512, 256, 16, 8, 8, 12),
    "dual_22b_11b_gpt175b_512": (512, 256, 16, 8, 8, 12),
    "vit22b_gpt175b_3072": (3072, 1536, 16, 8, 8, 12),
    "vit22b_gpt175b_2048": (2048, 1536, 24, 8, 8, 12),
    "vit22b_gpt175b_1536": (1536, 1536, 32, 8, 8, 12),
}


@pytest.mark.parametrize(("name", "setting"), SETTINGS.items())
def test_settings_are_those_of_the_paper(name: str, setting: tuple[Any, ...]) -> None:
    config = load_config(ROOT / f"configs/optimus/{name}.yaml", planned=False)
    decoder, accumulate = config.parallel.decoder, config.train.accumulate
    found = (
        config.parallel.devices,
        config.data.rows * accumulate,
        accumulate,
        decoder.stage,
        decoder.tensor,
        config.backbone_chunks,
    )
    assert found == setting
    # Microbatches of two samples on each pipeline.
    assert config.data.rows == 2 * decoder.batch


def test_the_small_setting_is_planned_for_its_devices() -> None:
    config = load_config(ROOT / "configs/optimus/vit3b_gpt11b_8.yaml", planned=False)
    assert config.schedule.hardware == "a100"
