"""The promises of `make train`: held-out samples are learnt, quickly, with little waste."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.configs import ROOT


def train_demo(folder: Path, *overrides: str) -> dict[str, Any]:
    """Summary of the demo trained in `folder`."""
    command = ["launch.py", "train", "--config", "configs/demo.yaml", "--json"]
    done = subprocess.run(
        [sys.executable, *command, f"run.directory={folder}", *overrides],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads((folder / "demo" / "summary.json").read_text())
    assert json.loads(done.stdout) == summary
    return summary


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_is_learnt(tmp_path: Path) -> None:
    summary = train_demo(tmp_path)
    assert set(summary["exact_match"]) == {"vision", "audio"}
    assert min(summary["exact_match"].values()) >= 0.95, summary
    assert set(summary["padding"]) == {"tokens", "vision", "audio"}
    assert max(summary["padding"].values()) < 0.10, summary
    assert summary["skipped"]["samples"] == 0, summary
