"""Every experiment of configs/ has a plan: the search finds a strategy that fits its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from mllm_jax.config import load, resolve
from mllm_jax.planning import Planner
from scheduling.hardware import named
from tests.configs import ROOT

CONFIGS = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name != "hardware"
)
#: Planned in seconds.
QUICK = {"demo", "demo_pipeline", "llava", "10b", "vit3b_gpt11b_8", "balance"} | {
    path.stem for path in CONFIGS if path.parent.name == "recipes"
}
#: The paper's hardware where it is not H100.
HARDWARE = {"vit3b_gpt11b_8": "a100"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in CONFIGS
    ],
)
def test_every_config_has_a_plan(path: Path) -> None:
    name = HARDWARE.get(path.stem, "h100")
    planner = Planner(load(path, planned=False), named(name), name)
    found = planner.search()
    assert found.best, found.smallest
    best = found.best[0]
    assert 0 < best.memory.total <= planner.space.memory
    # What is written of it is a configuration that trains.
    resolve(planner.configured(best.strategy).model_dump(mode="json"), source=path.name)
