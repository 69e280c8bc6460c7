"""The command that an interrupted run tells."""

from __future__ import annotations

import shlex
import sys

import pytest

from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.runtime.run_status import resume_command, status_before_first_step
from tests.configs import config

REST = ["--config", "my run.yaml", "run.name=x", "--coordinator", "h:1", "--process=0"]


@pytest.mark.parametrize("asked", [[], ["--from-step", "3"], ["--from-step=3"]])
@pytest.mark.parametrize("at", [0, 2, len(REST)])
def test_who_goes_on_does_not_go_back_once_more(asked, at, monkeypatch, tmp_path):
    def parsed(command: str) -> dict[str, object]:
        python, script, *words = shlex.split(command)
        assert (python, script) == ("python", "launch.py")
        return vars(parse_arguments(words, COMMANDS))

    words = ["python", "launch.py", "train", *REST[:at], *asked, *REST[at:]]
    monkeypatch.setattr(sys, "orig_argv", words)
    started = parsed(shlex.join(words))
    assert started["from_step"] == (3 if asked else None)
    assert parsed(resume_command()) == started | {"from_step": None}
    # Before a step was taken nothing has been done of what was asked for.
    told = status_before_first_step(config(run__directory=str(tmp_path))).splitlines()[-1]
    assert parsed(told) == started


def test_an_option_has_one_name(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["train", *REST, "--from-st", "3"], COMMANDS)
    assert "'--from-st' is neither an option" in capsys.readouterr().err


def test_an_override_with_dashes_is_told_without_them(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["train", *REST, "--train.steps=10"], COMMANDS)
    assert "nor section.key=value; valid: train.steps=10" in capsys.readouterr().err
