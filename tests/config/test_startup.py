"""A configuration is read, checked and printed without what computes: mistakes are told at once."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.registry import BENCHMARKS
from benchmarks.startup import bench_startup
from mllm_jax.runtime.exits import CODES, exit_code_of
from tests.configs import ROOT, config

#: What no configuration needs, and what no mistake in a key needs besides.
COMPUTES = (
    *("jax", "jaxlib", "flax", "grain", "optax", "orbax", "ml_dtypes", "scipy", "sklearn"),
    *("matplotlib", "pyarrow", "torch", "transformers", "huggingface_hub", "fsspec"),
)
CHECKS = ("numpy", "tokenizers", "PIL", "jinja2", "data.text.chat", "scheduling.schedules.schedule")

PROGRAM = f"""
import contextlib, io, json, sys
import launch
found = []
for line in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = launch.main(line)
        except SystemExit as end:
            code = end.code
    found.append([code, [name for name in {COMPUTES + CHECKS} if name in sys.modules]])
print(json.dumps(found))
"""


def test_what_computes_is_not_loaded(tmp_path: Path) -> None:
    """All in one process: what one command loads stays for the next."""
    deep, demo = tmp_path / "deep.yaml", "configs/demo.yaml"
    deep.write_text("[" * 20_000)
    stages = ["model.decoder.layers=4", "train.accumulate=8"]
    lines = [
        ["--help"],
        ["config", "--config", str(deep)],
        ["config", "--config", demo, f"train.steps={'9' * 6000}"],
        ["config", "--config", demo, "train.stepz=3"],
        ["config", "--keys"],
        ["config", "--config", demo],
        ["config", "--config", demo, "parallel.decoder.tensor=3"],
        ["config", "--config", "configs/demo_pipeline.yaml"],
        ["config", "--config", "configs/demo_pipeline.yaml", "schedule.hardware=h100", *stages],
        ["config", "--config", "configs/llava.yaml", "--json"],
        ["config", "--config", "configs/optimus/vit22b_gpt175b_1536.yaml"],
        ["config", "--config", "configs/recipes/qwen2_audio.yaml"],
        ["simulate", "--config", demo, "--hardware", str(deep)],
        ["simulate", "--config", "configs/demo_pipeline.yaml", "--output", str(tmp_path)],
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    codes = [0, 2, 2, 2, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0]
    assert [code for code, _ in found] == codes
    # Simulating draws a picture.
    assert not any({*loaded} & {*COMPUTES} - {"matplotlib"} for _, loaded in found), found[-1]
    assert not any("matplotlib" in loaded for _, loaded in found[:-2])
    assert not any(loaded for _, loaded in found[:5])


def test_every_error_that_is_told_is_where_it_is_looked_for() -> None:
    for (module, name), code in CODES.items():
        error = getattr(importlib.import_module(module), name)
        assert issubclass(error, Exception)
        assert error.__module__ == module, f"{name} is made in {error.__module__}"
        assert exit_code_of(error.__new__(error)) == code
    assert exit_code_of(ValueError()) is None


def test_the_start_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that takes a small part of the time of `launch.py`."""
    program = tmp_path / "launch.py"
    program.write_text("import asyncio, email.message, unittest.mock, urllib.request")
    monkeypatch.setattr("benchmarks.startup.LAUNCH", program)
    monkeypatch.setattr("benchmarks.startup.TURNS", 1)
    rows = bench_startup(config())
    assert [row["command"] for row in rows] == ["help", "a misspelt key", "config"]
    assert all(0 < float(row["cached"]) < float(row["uncached"]) for row in rows)
    assert BENCHMARKS["startup"].devices == "host"
