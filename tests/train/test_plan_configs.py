"""Every experiment of configs/ has a plan: the search finds a strategy that fits its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from mllm_jax.config import load, resolve
from mllm_jax.plan import PlanningError, plan
from mllm_jax.planning import Planner
from scheduling.hardware import named
from tests.configs import ROOT

#: Names one device for a model of 9B: its loads are dealt, nothing runs.
BALANCE = ROOT / "configs" / "bench" / "balance.yaml"
CONFIGS = sorted(
    path
    for path in (ROOT / "configs").rglob("*.yaml")
    if path.parent.name != "hardware" and path != BALANCE
)
#: Planned in seconds.
QUICK = {"demo", "demo_pipeline", "llava", "10b", "vit3b_gpt11b_8"}
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


def test_a_config_without_a_plan_says_what_it_lacks(tmp_path: Path) -> None:
    planner = Planner(load(BALANCE, planned=False), named("h100"), "h100")
    with pytest.raises(PlanningError, match=r"needs [\d.]+ GiB of [\d.]+; fits with \d+ devices"):
        plan(planner, 1, tmp_path / "plan.yaml", clock=lambda: 0.0)
