"""`launch.py plan --budgets`: budgets from the lengths of the source, then the plan for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import launch
from mllm_jax.config.inputs import round_budgets
from mllm_jax.config.load import load_config, resolve_config
from mllm_jax.runtime.exits import ExitCode
from tests.configs import values

#: Rows that are too long for the images in them.
PRESENT = {"tokens": 64, "segments": 8, "vision": 96, "audio": 640}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a small demo set, and no plans."""
    folder = tmp_path_factory.mktemp("budgets")
    source = {"kind": "demo", "train": 64, "heldout": 8, "clips": 8, "variants": 1}
    changes = {
        "data__source": source,
        "data__cache": str(folder / "cache"),
        "data__lookahead": 32,
        "data__budgets": PRESENT,
        "parallel": {"devices": 2},
    }
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(values(**changes)))
    return path


def run(file: Path, *more: str) -> int:
    output = str(file.parent / "plan.yaml")
    return launch.main(["plan", "--config", str(file), "--output", output, *more])


def test_chosen_budgets_are_planned_for_and_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--budgets", "--json") == ExitCode.OK
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    present, chosen = result["budgets"]["present"], result["budgets"]["suggested"]
    assert present["budgets"] == PRESENT
    assert chosen["skipped"] == 0
    assert 0.8 < chosen["samples"] / present["samples"] < 1.3
    # Of the scarcest budget there may be a bit more: exchanging leaves next to none of it.
    assert max(chosen["padding"].values()) < max(present["padding"].values())
    assert sum(chosen["padding"].values()) < sum(present["padding"].values())
    config = load_config(result["file"])
    assert config.data.budgets == chosen["budgets"] != PRESENT
    # It is the plan of a configuration that has them from the start.
    budgets = f"data.budgets={json.dumps(chosen['budgets'])}"
    assert run(file, "--json", budgets) == ExitCode.OK
    alone = json.loads(capsys.readouterr().out)
    assert alone["budgets"] is None
    assert alone["best"] == result["best"]
    assert load_config(alone["file"]) == config


def test_the_notes_show_present_and_chosen_budgets(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--budgets") == ExitCode.OK
    told = " ".join(capsys.readouterr().out.split())
    chosen = load_config(file.parent / "plan.yaml").data.budgets
    for name in ("tokens", "vision", "audio"):
        assert f"data.budgets.{name}: {PRESENT[name]} with " in told
        assert f" padding, now {chosen[name]} with " in told
    assert "samples: " in told


def test_budgets_into_which_no_sample_fits_are_bad_input(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--budgets", "data.budgets.tokens=2", "evaluate.enabled=false") == (
        ExitCode.BAD_DATA
    )
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "say with --samples of `launch.py budgets` how many samples a microbatch should hold"
        in told
    )


def test_budgets_that_leave_no_room_for_answers_are_bad_input(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["data.budgets.tokens=4096", "evaluate.max_new_tokens=4000", "data.lookahead=2"]
    assert run(file, "--budgets", *more) == ExitCode.BAD_INPUT
    told = " ".join(capsys.readouterr().err.split())
    assert "suggested data.budgets: 1 problem" in told
    assert "evaluate.max_new_tokens: 4000 leaves no room for a prompt" in told


def test_rows_have_no_more_tokens_than_learned_positions() -> None:
    changes = {"family": "gpt", "max_positions": 71, "layers": 1, "d_model": 16, "heads": 2}
    given = values(data__budgets={"tokens": 64, "segments": 8, "vision": 64, "audio": 128})
    given["model"]["decoder"] = changes | {"d_ff": 32}
    config = resolve_config(given, source="test")
    # Tensor degree 2.
    assert round_budgets({"tokens": 96}, config) == {"tokens": 70}
    assert round_budgets({"tokens": 64}, config) == {"tokens": 64}
