"""A user's own folder of conversations, images and clips through `launch.py train`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mllm_jax.runtime.exits import ExitCode
from tests.configs import ONE_DEVICE, ROOT, values
from tests.train.llava_folder import MISSING, TRUNCATED, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("llava") / "mine")


def write_config(folder: Path) -> Path:
    """Two steps on one device, of which little has to be compiled: encoders are frozen."""
    content = values(
        run={"name": "mine", "directory": str(folder / "runs"), "log_every": 1, "gc_every": None},
        parallel=ONE_DEVICE,
        data__source={
            "kind": "llava",
            "path": str(folder / "train.json"),
            "media": str(folder / "media"),
            "heldout": str(folder / "heldout.json"),
        },
        data__tokenizer="bytes",
        data__image={"max_patches": 16},
        data__rows=2,
        data__lookahead=12,
        data__budgets={"tokens": 128, "segments": 4, "vision": 32, "audio": 96},
        train__steps=2,
        train__freeze=["vision", "audio"],
        evaluate={"enabled": False},
    )
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def train(config: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "launch.py", "train", "--config", str(config), "--json", *overrides]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def test_a_folder_with_bad_samples_trains_and_counts_them(folder: Path) -> None:
    done = train(write_config(folder))
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "runs" / "mine" / "summary.json").read_text())
    del summary["crc"]
    assert json.loads(done.stdout) == summary
    assert summary["steps"] == 2
    # Twelve positions are looked at in the first step: every record once at least.
    skipped = summary["skipped"]
    assert skipped["reasons"] == {"unreadable image": 1, "missing file": 1}
    assert skipped["samples"] == 2 <= skipped["times"]
    lines = (folder / "runs" / "mine" / "skipped.jsonl").read_text().splitlines()
    listed = {line["sample"]: line["text"] for line in map(json.loads, lines)}
    assert len(lines) == len(listed) == 2
    assert "'cut.png' cannot be decoded" in listed[f"train.json[{TRUNCATED}]"]
    assert "'gone.png' is missing" in listed[f"train.json[{MISSING}]"]
    for name, text in listed.items():
        assert done.stderr.count(f"skipped sample {name}: {text}") == 1


def test_a_bad_sample_can_end_the_run(folder: Path) -> None:
    done = train(write_config(folder), "data.on_error=raise", "run.name=strict")
    assert done.returncode == ExitCode.BAD_DATA, done.stderr
    assert done.stdout == ""
    assert f"error: sample train.json[{MISSING}]: 'gone.png' is missing" in done.stderr
    assert "parameters on" not in done.stderr  # nothing has been built
    assert "Traceback" not in done.stderr
