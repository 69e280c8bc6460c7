"""Copies of the framework, to which the tests of docs/extending add what a page says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_framework(folder: Path, *more: str) -> None:
    """A copy of the framework in which `launch.py` runs, and of further folders."""
    for name in ("benchmarks", "configs", "data", "mllm_jax", "scheduling", "sharding", *more):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("launch.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)


def run_in(folder: Path, *arguments: str) -> str:
    """The output of a Python process that imports the copy in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refresh_keys(folder: Path) -> None:
    run_in(folder, "launch.py", "config", "--write-keys", "docs/reference/keys")


def run_tests_of(folder: Path, family: str) -> str:
    """The names of the tests of a family, all of which pass in the copy in `folder`."""
    chosen = f"{family} or refused or pages or family or compared"
    places = ["tests/layers/test_transformer.py"]
    places += [f"tests/models/{name}" for name in ("test_packing.py", "test_graph.py", "work")]
    options = ("-n", "0", "-v", "-k", chosen, *places, "tests/config/test_load.py")
    return run_in(folder, "-m", "pytest", *options)
