"""docs/how-to/python.md is run as it stands, and what it says of `import mllm_jax` holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jax.profiler import ProfileData

import mllm_jax
from mllm_jax.config.hardware import load_hardware
from mllm_jax.train.listeners.profile import FOLDER
from mllm_jax.train.phases import STEP
from tests.config.test_startup import COMPUTES
from tests.configs import ROOT

PAGE = (ROOT / "docs" / "how-to" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The variables at the end of the page."""
    names: dict[str, Any] = {}
    folder = tmp_path_factory.mktemp("page")
    (folder / "configs").symlink_to(ROOT / "configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        for block in BLOCKS:
            exec(compile(block, "docs/how-to/python.md", "exec"), names)
        names["folder"] = folder / names["config"].run.path
    return names


@pytest.mark.slow
def test_the_page_trains_verifies_and_plans(page):
    assert len(page["losses"]) == page["config"].train.steps == 4
    assert page["losses"] == [record["loss"] for record in metrics(page["folder"])]
    assert isinstance(page["result"], mllm_jax.StepResult)
    summary = json.loads((page["folder"] / "summary.json").read_text())
    assert summary["heldout_loss"] == page["result"].evaluation["heldout_loss"]
    assert isinstance(page["verification"], mllm_jax.VerificationResult)
    assert isinstance(page["planned"], mllm_jax.PlannedRun)
    assert mllm_jax.load(page["folder"] / "plan.yaml").run.name == "notebook"


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "loss" in line]


@pytest.mark.slow
def test_the_profile_names_steps_and_phases(page):
    (found,) = (page["folder"] / FOLDER).glob("plugins/profile/*/*.xplane.pb")
    planes = ProfileData.from_file(str(found)).planes
    (host,) = (plane for plane in planes if plane.name == "/host:CPU")
    events = [event for line in host.lines for event in line.events]
    numbers = [dict(event.stats)["step_num"] for event in events if event.name == STEP]
    assert sorted(map(int, numbers)) == [2, 3]
    counts = Counter(event.name for event in events)
    # With a log line a step, each is waited for within itself.
    assert [counts[name] for name in ("read", "place", "dispatch", "wait")] == [2, 2, 2, 2]
    compiled = found.read_bytes()
    # Encoders stand in a branch, which is not taken without media: jvp()/cond/.../encode_vision/.
    for scope in ("encode_vision", "exchange_audio", "decode", "loss"):
        within = rf"jvp\([ -~]*?\b{scope}[)/]"
        for which in (rf"(?<!transpose\(){within}", rf"transpose\({within}"):
            assert re.search(which.encode(), compiled), which
    for scope in ("sum_over_replicas", "update"):
        assert f"/{scope}/".encode() in compiled, scope


def test_a_configuration_may_wait_for_its_plans():
    unplanned = "configs/demo.yaml", "parallel.devices=3"
    with pytest.raises(mllm_jax.ConfigError, match="but all plans cover 4 devices"):
        mllm_jax.load(*unplanned)
    assert mllm_jax.load(*unplanned, planned=False).parallel.devices == 3


def test_options_go_where_they_are_for(monkeypatch, tmp_path):
    config, told = mllm_jax.load("configs/demo.yaml"), []

    def told_of(module: str, name: str) -> None:
        def tell(*arguments: Any, **options: Any) -> str:
            told.append(arguments)
            return f"from {name}"

        monkeypatch.setattr(import_module(module), name, tell)

    told_of("mllm_jax.train.trainer", "training_steps")
    for log in (False, True):
        assert mllm_jax.steps("experiment", 7, log=log) == "from training_steps"
        experiment, console, from_step = told.pop()
        assert (experiment, console.quiet, from_step) == ("experiment", not log, 7)
    told_of("mllm_jax.check.verify", "verify_plans")
    assert mllm_jax.verify(config, seed=9) == "from verify_plans"
    assert told == [(config, 9)]
    told_of("mllm_jax.plan.planner", "PlanSearch")
    told_of("mllm_jax.plan.report", "plan_run")
    mllm_jax.find_plans(config, hardware="a100", memory=5e9, within=0.5, top=4, file=tmp_path)
    (given, hardware, *others), (planner, top, target, *_) = told[1:]
    assert (given, hardware, *others) == (config, load_hardware("a100"), "a100", 5e9, 0.5)
    assert (planner, top, target) == ("from PlanSearch", 4, tmp_path)


def test_what_computes_is_loaded_when_it_is_used():
    program = (
        "import mllm_jax, sys, json\n"
        "dir(mllm_jax)\n"
        "mllm_jax.load('configs/demo.yaml')\n"
        f"found = [name for name in {COMPUTES} if name in sys.modules]\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_every_name_that_is_offered_is_there():
    assert {*mllm_jax.__all__} <= {*dir(mllm_jax)}
    for name in mllm_jax.__all__:
        assert getattr(mllm_jax, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'stepz'"):
        mllm_jax.__getattr__("stepz")
