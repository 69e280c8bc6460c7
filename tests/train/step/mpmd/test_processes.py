"""Groups of modules in two processes learn what one device learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from data.sources.shapes import HELDOUT, write_example
from tests.configs import ROOT
from tests.train.runs import keep_until
from tests.train.step.mpmd.step_pair import CASES
from tests.train.test_run import finish, free_port, launch, losses, start, write_config

#: A group for each of two processes.
GROUPS = {
    "devices": 2,
    "decoder": {},
    "encoders": {"vision": {}, "audio": {}},
    "groups": {
        "text": {"modules": ["decoder"], "devices": [0, 0]},
        "media": {"modules": ["vision", "audio"], "devices": [1, 1]},
    },
}


@pytest.mark.multihost
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_of_two_processes_are_those_of_one_device(case: str, processes: Any) -> None:
    place = f"127.0.0.1:{free_port()}"
    program = ("-m", "tests.train.step.mpmd.step_pair")
    processes += [start(*program, str(index), place, case) for index in (0, 1)]
    for process in processes:
        assert "as one device" in finish(process)[0]


@pytest.mark.multihost
@pytest.mark.slow
def test_a_run_of_two_processes_goes_on_in_one(tmp_path: Path, processes: Any) -> None:
    """Its checkpoint has the state of all groups; its losses and the measurements of held-out
    samples are those of a process alone."""
    changes = {"parallel": GROUPS}
    config = write_config(tmp_path, "pair", **changes)
    summaries = run_pair(config, processes)
    of_pair = losses(tmp_path / "pair")
    assert len(of_pair) == 4
    own, other = (tmp_path / name / "checkpoints" for name in ("pair", "alone"))
    other.parent.mkdir()
    keep_until(own, other, step=2)
    out, _ = finish(launch("train", write_config(tmp_path, "alone", **changes), "--json"))
    alone = json.loads(out)
    assert alone["steps"] == 4
    assert losses(tmp_path / "alone") == pytest.approx(of_pair[2:], rel=1e-5)
    for summary in summaries:
        assert summary["heldout_loss"] == pytest.approx(alone["heldout_loss"], rel=1e-5)
        assert summary["exact_match"] == alone["exact_match"]
        assert summary["evaluated"] == alone["evaluated"]


@pytest.mark.multihost
@pytest.mark.slow
def test_two_towers_in_two_processes_find_the_partners_that_they_find_in_one(
    tmp_path: Path, processes: Any
) -> None:
    config = write_towers(tmp_path)
    summaries = run_pair(config, processes, "run.name=pair")
    out, _ = finish(launch("train", config, "run.name=alone", "--json"))
    alone = json.loads(out)
    assert alone["retrieved"] == {"pairs": HELDOUT}
    for summary in summaries:
        assert summary["recall_at_1"] == alone["recall_at_1"]
        assert summary["retrieved"] == alone["retrieved"]


def run_pair(config: Path, processes: Any, *changes: str) -> list[Any]:
    """Train in two processes; the results that they write, at least one of them."""
    place = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
    started = [launch("train", config, *changes, "--json", *place, str(n)) for n in (0, 1)]
    processes += started
    written = [finish(process)[0] for process in started]
    summaries = [json.loads(out[out.index("{") :]) for out in written if "{" in out]
    assert summaries
    return summaries


def write_towers(folder: Path) -> Path:
    """Small towers of configs/slices, each on a device of its own, and two steps of them."""
    made = write_example(folder / "shapes", 8, seed=0).folder
    values = yaml.safe_load((ROOT / "configs" / "slices" / "towers.yaml").read_text())
    values["parallel"]["devices"] = 2
    values["parallel"]["groups"] = {
        "text": {"modules": ["decoder"], "devices": [0, 0]},
        "images": {"modules": ["image"], "devices": [1, 1]},
    }
    values["run"] = {"directory": str(folder)}
    values["data"] |= {"cache": str(folder / "cache")}
    values["data"]["source"] |= {
        "path": str(made / "train_pairs.json"),
        "media": str(made / "media"),
        "heldout": str(made / "heldout_pairs.json"),
    }
    values["train"] |= {"steps": 2, "warmup_steps": 0}
    path = folder / "towers.yaml"
    path.write_text(yaml.safe_dump(values))
    return path
