"""The newcomer's road: the README's commands as they stand, from no data to an exported model.

The walk trains a model, so it is slow; what transformers answers needs the extra `parity`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.configs import ROOT

README = (ROOT / "README.md").read_text()
SECTIONS = ("### Your own data", "### Released weights")
#: Questions of the held-out file, and how many of them are to be answered exactly.
QUESTIONS, RIGHT = 20, 18

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of one language below a heading."""
    _, _, below = README.partition(f"{heading}\n")
    section = re.split(r"^##", below, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def commands(heading: str) -> list[str]:
    """The commands below a heading, continued lines joined."""
    lines = "".join(blocks(heading, "sh")).replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository, with nothing but it."""
    folder = tmp_path_factory.mktemp("road")
    for name in ("launch.py", "configs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def walked(home: Path) -> dict[str, str]:
    """What every command of the README's two walks has printed."""
    told = {}
    for command in (own for heading in SECTIONS for own in commands(heading)):
        done = subprocess.run(
            shlex.split(command), cwd=home, capture_output=True, text=True, timeout=1800
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        told[command] = done.stdout
    return told


def answer(walked: dict[str, str], run: str) -> str:
    """The answer that `generate` has printed for a run."""
    (command,) = (own for own in walked if "generate" in own and f"--run {run} " in own)
    lines = walked[command].splitlines()
    return lines[-3]


def test_the_walk_ends_in_right_answers(walked: dict[str, str], home: Path) -> None:
    summary = json.loads((home / "runs/llava/summary.json").read_text())
    assert summary["exact_match"]["vision"] >= RIGHT / QUESTIONS
    (scores,) = (told for command, told in walked.items() if "launch.py evaluate" in command)
    (row,) = (line.split() for line in scores.splitlines() if line.startswith("all"))
    assert f"{QUESTIONS}" in row
    for run in ("runs/llava", "runs/tuned"):
        assert answer(walked, run) == reference(home)


def reference(home: Path) -> str:
    """The right answer to the question that the README asks."""
    (asked,) = (own for own in commands(SECTIONS[0]) if "generate" in own)
    image = Path(shlex.split(asked)[-1]).name
    records = json.loads((home / "my_data/heldout.json").read_text())
    (record,) = (own for own in records if own["image"] == image)
    question, right = (turn["value"] for turn in record["conversations"])
    assert shlex.split(asked)[shlex.split(asked).index("--prompt") + 1] in question
    return str(right)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra parity")
def test_transformers_gives_the_same_answers(
    walked: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    (code,) = blocks(SECTIONS[0], "python")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(code, "README.md", "exec"), names)
    assert shown.getvalue().strip() == answer(walked, "runs/llava")
    ours = [json.loads(line)["text"] for line in _answers(home).splitlines()]
    assert [_asked(names, home, record) for record in _records(home)] == ours


def _records(home: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((home / "my_data/heldout.json").read_text())
    return records


def _answers(home: Path) -> str:
    """The answers of the run to all held-out questions, as JSON Lines."""
    line = "launch.py generate --run runs/llava --batch my_data/heldout.json --media my_data/media"
    done = subprocess.run(
        [sys.executable, *line.split()], cwd=home, check=True, capture_output=True, text=True
    )
    return done.stdout


def _asked(names: dict[str, Any], home: Path, record: dict[str, Any]) -> str:
    """The answer of transformers to a held-out question, by the model of the README's code."""
    processor, model = names["processor"], names["model"]
    question = record["conversations"][0]["value"].removeprefix("<image>\n")
    content = [{"type": "image"}, {"type": "text", "text": question}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    image = names["Image"].open(home / "my_data/media" / record["image"])
    inputs = processor(images=image, text=text, return_tensors="pt")
    found = model.generate(**inputs, max_new_tokens=16)[0, inputs["input_ids"].shape[1] :]
    return str(processor.decode(found, skip_special_tokens=True))
