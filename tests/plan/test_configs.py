"""Every experiment of configs/ has a plan: the search finds a strategy that fits its devices."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import launch
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import standing_in
from mllm_jax.config.load import load_config, resolve_config
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.runtime.exits import ExitCode
from tests.configs import EXPERIMENTS, ROOT
from tests.timing import ATTEMPTS

#: Recipes that others resemble, or whose plans take long.
SLOW = {"qwen3_moe_64", "onevision_64", "qwen2_audio", "llava15_finetune"}
#: Planned in seconds.
QUICK = {"demo", "demo_pipeline", "llava", "llava_audio", "balance"} | {
    path.stem for path in EXPERIMENTS if path.parent.name == "recipes" and path.stem not in SLOW
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in EXPERIMENTS
    ],
)
def test_every_config_has_a_plan(path: Path) -> None:
    config = load_config(path, planned=False)
    config = standing_in(config) if config.data.auto_budgets else config
    name = config.schedule.hardware or "h100"
    planner = PlanSearch(config, load_hardware(name), name)
    found = planner.search_plans()
    assert found.best, found.refused
    best = found.best[0]
    assert 0 < best.memory.total <= planner.space.memory
    # What is written of it is a configuration that trains, and as fast as was found.
    written = resolve_config(
        planner.configure_plans(best.strategy).model_dump(mode="json"), source=path.name
    )
    assert simulate_step(written, load_hardware(name)).makespan == pytest.approx(best.seconds)


@pytest.mark.slow
def test_the_best_plan_on_3072_devices_beats_optimus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "configs" / "optimus" / "vit22b_gpt175b_3072.yaml"
    words = ["plan", "--config", str(path), "--json", "--output", str(tmp_path / "plan.yaml")]
    assert launch.main(words) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["encoder_hidden"] >= 0.95
    assert found["baselines"]["optimus"]["step_seconds"] > 1.1 * found["best"]["step_seconds"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dual_22b_11b_gpt175b_512", "vit22b_gpt175b_1536"])
def test_large_plans_take_half_a_minute_of_one_core(name: str, tmp_path: Path) -> None:
    path = ROOT / "configs" / "optimus" / f"{name}.yaml"
    words = ["plan", "--config", str(path), "--json", "--output", str(tmp_path / "plan.yaml")]

    def planned() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "launch.py", *words], cwd=ROOT, check=True)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    # Half a minute where nothing else runs; other programs on the machine make it longer.
    assert any(planned() < 40 for _ in range(ATTEMPTS))
