"""Groups of modules in two processes learn what one device learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
    """Its checkpoint has the state of all groups, and its losses are those of a process alone."""
    changes = {"evaluate": {"enabled": False}, "parallel": GROUPS}
    config = write_config(tmp_path, "pair", **changes)
    place = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
    processes += [launch("train", config, *place, str(index)) for index in (0, 1)]
    for process in processes:
        finish(process)
    of_pair = losses(tmp_path / "pair")
    assert len(of_pair) == 4
    own, other = (tmp_path / name / "checkpoints" for name in ("pair", "alone"))
    other.parent.mkdir()
    keep_until(own, other, step=2)
    out, _ = finish(launch("train", write_config(tmp_path, "alone", **changes), "--json"))
    assert json.loads(out)["step"] == 4
    assert losses(tmp_path / "alone") == pytest.approx(of_pair[2:], rel=1e-5)
