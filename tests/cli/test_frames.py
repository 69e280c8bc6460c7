"""Six frames of three files lie between `launch.py` and the compiled step."""

from __future__ import annotations

import runpy
import sys
import traceback
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from data.planning.stream import LoaderState
from mllm_jax.cli import main as command_line
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.folder import RunError
from mllm_jax.train import trainer
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch_placement import PlacedBatch
from tests.configs import ROOT, values

#: Frames from the command to the compiled step.
FRAMES = [
    ("launch.py", "<module>"),
    ("mllm_jax/cli/main.py", "main"),
    ("mllm_jax/cli/main.py", "run_command"),
    ("mllm_jax/train/trainer.py", "train"),
    ("mllm_jax/train/trainer.py", "train"),
    ("mllm_jax/train/trainer.py", "train_step"),
]


def test_six_frames_of_three_files_lead_to_the_step(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: list[traceback.FrameSummary] = []
    batch: Any = None

    def step(_: Experiment, state: Any, batch: Any) -> NoReturn:
        frames.extend(traceback.extract_stack()[:-1])
        raise RunError("the step is called")

    def build(config: Any) -> Experiment:
        return replace(experiment, config=config)

    changes = {
        "run__directory": str(tmp_path),
        "run__self_check": False,
        "run__list_samples": False,
    }
    config = values(**changes, evaluate__enabled=False, checkpoint__enabled=False)
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setattr(sys, "argv", ["launch.py", "train", "--config", str(file)])
    monkeypatch.setattr(command_line, "start_devices", lambda *_: ())
    monkeypatch.setattr(Experiment, "build", build)
    monkeypatch.setattr(trainer, "check_sources", lambda _: {})
    progress = Progress(0, LoaderState(0))
    monkeypatch.setattr(trainer, "restore_or_init", lambda *_: ({}, progress))
    monkeypatch.setattr(trainer, "open_loader", lambda *_: nullcontext())
    monkeypatch.setattr(trainer.Trainer, "_read_batch", lambda *_: None)
    monkeypatch.setattr(trainer, "place_step", lambda *_: PlacedBatch(batch, {}, ""))
    monkeypatch.setattr(Experiment, "update", step)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "launch.py"), run_name="__main__")
    assert ended.value.code == ExitCode.BAD_INPUT
    names = [(frame.filename.removeprefix(f"{ROOT}/"), frame.name) for frame in frames]
    assert names[names.index(FRAMES[0]) :] == FRAMES
    assert len({file for file, _ in FRAMES}) == 3
