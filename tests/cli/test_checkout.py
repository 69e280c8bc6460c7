"""What commands say where the folder `benchmarks/` is not installed, as with a wheel."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import launch
from mllm_jax import checkout
from mllm_jax.cli.benchmark import load_registry
from mllm_jax.runtime.exits import ExitCode
from tests.plan.test_report import small, written


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a small configuration, in an installation that is no checkout."""
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    load_registry.cache_clear()
    yield written(tmp_path, small())
    load_registry.cache_clear()


def test_bench_says_where_benchmarks_are(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch.main(["bench", "step", "--config", str(installed)]) == ExitCode.BAD_INPUT
    assert f"bench step: {checkout.ADVICE}" in capsys.readouterr().err
    for words in ([], ["step"]):
        with pytest.raises(SystemExit):
            launch.main(["bench", *words])
        assert checkout.ADVICE in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--ablate"], ["--mixture", "1:9"]])
def test_comparisons_say_where_other_systems_are(
    option: list[str], installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["simulate", "--config", str(installed), *option]
    assert launch.main(line) == ExitCode.BAD_INPUT
    assert f"simulate {option[0]}: {checkout.ADVICE}" in capsys.readouterr().err


def test_plans_are_made_without_other_systems(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["plan", "--config", str(installed), "--output", str(installed.parent / "plan.yaml")]
    assert launch.main([*line, "--json"]) == ExitCode.OK
    assert list(json.loads(capsys.readouterr().out)["baselines"]) == ["fsdp", "prologue"]
    assert launch.main(line) == ExitCode.OK
    assert f"no other system is compared: {checkout.ADVICE}" in capsys.readouterr().out


def test_benchmarks_are_found_from_the_script_of_an_editable_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first place of modules is the folder of the script, not the root of the checkout."""
    root = str(checkout.ROOT)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", root)])
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)
    assert checkout.load_benchmarks("registry") is not None
    assert sys.path[-1] == root
