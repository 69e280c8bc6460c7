"""Inputs of commands of whole models are looked at before anything is loaded that computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import soundfile

from data.sample import DataError
from mllm_jax.cli import inputs
from mllm_jax.cli.inputs import check_inputs
from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.runtime.exits import ExitCode
from tests.cli.test_folders import PROGRAM
from tests.configs import ROOT

RELEASE = str(ROOT / "tests" / "parity" / "llava")
ASKED = ["generate", "--release", RELEASE, "--prompt", "What?"]
BATCH = ["generate", "--release", RELEASE, "--batch"]
SCORED = ["evaluate", "--release", RELEASE, "--questions"]
EXPORT = ["export", "--run", "{run}", "--out"]
IMPORT = ["import", "--from", RELEASE, "--out"]
#: Commands, and what is wrong with their inputs.
REFUSED: list[tuple[list[str], str]] = [
    ([*ASKED, "--image", "nothere.png"], "'nothere.png' cannot be opened: No such file"),
    ([*ASKED, "--image", "{}/a.png", "--image", "{}"], "cannot be opened: Is a directory"),
    ([*ASKED, "--image", "{}/text.png"], "text.png' is not a readable image; valid: PNG"),
    ([*ASKED, "--audio", "{}/a.png"], "a.png' is not a readable clip"),
    ([*ASKED[:-1], "<img>a.png</img>"], "image media are not read from tags"),
    ([*ASKED, "--run", "{run}"], "--run and --release: both are given"),
    (["generate", "--prompt", "What?"], "--run and --release: neither is given"),
    ([*BATCH, "{}/none.jsonl"], "cannot read {}/none.jsonl: no such file"),
    ([*BATCH, "{}/empty.jsonl"], "empty.jsonl has no prompts"),
    ([*BATCH, "{}/a.png"], "a.png is no text"),
    ([*BATCH, "{}/text.png"], "none of the 1 prompts of {}/text.png can be used"),
    (
        [*BATCH, "{}/lost.jsonl"],
        "none of the 2 prompts of {}/lost.jsonl can be used; lost.jsonl[1]",
    ),
    ([*BATCH, "{}/asked.jsonl", "--media", "{}/folder"], "none of the 2 prompts"),
    ([*BATCH, "{}/asked.jsonl", "--output", "{}/none/a.jsonl"], "there is no folder {}/none"),
    ([*BATCH, "{}/asked.jsonl", "--output", "{}/folder"], "it is a folder; valid: a file"),
    ([*BATCH, "{}/asked.jsonl", "--output", "{}/a.png/b"], "{}/a.png is a file"),
    ([*SCORED, "{}/none.jsonl"], "cannot read {}/none.jsonl: no such file"),
    ([*SCORED, "{}/lost.jsonl"], "none of the 2 prompts of {}/lost.jsonl"),
    ([*SCORED, "{}/asked.jsonl", "--output", "{}/none/a.jsonl"], "there is no folder {}/none"),
    ([*SCORED, "{}/asked.jsonl", "--metrics", "bleu"], "'bleu' is no metric; valid: exact_match"),
    ([*EXPORT, "{}"], "{} is there already; choose another --out"),
    ([*EXPORT, "{}/a.png/b/c"], "--out {}/a.png/b/c: {}/a.png is a file"),
    ([*EXPORT, "{}/new", "--part", "vison"], "--part vison is none of the model; valid: decoder, "),
    ([*EXPORT, "{}/new", "--adapters"], "train.lora: null, so the run has no adapters"),
    ([*IMPORT, "{}/folder"], "{}/folder is there already; choose another --out"),
    (
        [*IMPORT, "{}/new", "--encoder", "vision={}/folder"],
        "--encoder {}/folder: there is no config.json in it; valid: a release",
    ),
    ([*IMPORT, "{}/new", "--encoder", "vision={}/damaged"], "config.json is not JSON"),
    (["import", "--from", "{}/list", "--out", "{}/new"], "config.json holds a list"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of all kinds, and a run with a checkpoint."""
    own = tmp_path_factory.mktemp("inputs")
    PIL.Image.new("RGB", (4, 4)).save(own / "a.png")
    soundfile.write(own / "a.wav", np.zeros(1600, np.float32), 16_000)
    (own / "text.png").write_text("no image")
    (own / "empty.jsonl").write_text("\n")
    for name, media in (("asked", ("a.png", "gone.png")), ("lost", ("gone.png", "gone.png"))):
        lines = (json.dumps({"prompt": "What?", "image": medium}) for medium in media)
        (own / f"{name}.jsonl").write_text("\n".join(lines))
    (own / "folder").mkdir()
    for name, text in (("damaged", "{"), ("list", "[]")):
        (own / name).mkdir()
        (own / name / "config.json").write_text(text)
    checkpoint(own / "run", {"model": {"encoders": {"vision": {}}}, "train": {"lora": None}})
    return own


def checkpoint(run: Path, config: Any) -> None:
    for step in (9, 20):
        path = run / "checkpoints" / str(step) / "config" / "metadata"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config if step == 20 else {}))


def filled(words: list[str], folder: Path) -> list[str]:
    run = str(folder / "run")
    return [word.replace("{run}", run).replace("{}", str(folder)) for word in words]


def test_a_wrong_input_is_told_before_anything_is_loaded(folder: Path) -> None:
    lines = ["\t".join(filled(words, folder)) for words, _ in REFUSED]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    *codes, loaded = done.stdout.splitlines()
    assert loaded == "loaded", "nothing that computes"
    assert {*codes} <= {f"exit {code.value}" for code in (ExitCode.BAD_INPUT, ExitCode.BAD_DATA)}
    assert len(codes) == len(REFUSED)
    errors = done.stderr.replace("\n  ", " ").split("error: ")[1:]
    assert len(errors) == len(REFUSED)
    for (_, message), error in zip(REFUSED, errors, strict=True):
        assert message.replace("{}", str(folder)) in error
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        [*ASKED, "--image", "{}/a.png", "--image", "{}/a.png"],
        [*ASKED, "--audio", "{}/a.wav"],
        [*BATCH, "{}/asked.jsonl", "--output", "{}/a.jsonl"],
        [
            *BATCH,
            "{}/lost.jsonl",
            "--output",
            "{}/none/a.jsonl",
            "--processes",
            "2",
            "--process",
            "1",
        ],
        [*SCORED, "{}/asked.jsonl", "--metrics", "anls,wer"],
        [*EXPORT, "{}/made/new", "--part", "vision.connector"],
        [*EXPORT, "{}/new", "--dtype", "float32"],
        [*IMPORT, "{}/new", "--encoder", "vision=organisation/name"],
        ["evaluate", "--config", "demo.yaml"],
        ["report", "--run", "{run}"],
    ],
)
def test_right_inputs_pass(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_CHECKED", 2 if "{}/lost.jsonl" not in words else 1)
    check_inputs(parse_arguments(filled(words, folder), COMMANDS))


def test_few_prompts_are_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = parse_arguments(filled([*BATCH, "{}/lost.jsonl"], folder), COMMANDS)
    monkeypatch.setattr(inputs, "MOST_CHECKED", 1)
    check_inputs(args)
    monkeypatch.setattr(inputs, "MOST_CHECKED", 2)
    with pytest.raises(DataError, match=r"last one: 'gone\.png' is missing"):
        check_inputs(args)


@pytest.mark.parametrize("config", [[], {}, {"model": []}, {"train": 3, "model": {"encoders": 1}}])
def test_a_checkpoint_that_says_nothing_is_told_later(config: Any, tmp_path: Path) -> None:
    checkpoint(tmp_path / "run", config)
    for more in (["--part", "x"], ["--adapters"]):
        check_inputs(parse_arguments(filled([*EXPORT, "{}/new", *more], tmp_path), COMMANDS))
    (tmp_path / "run/checkpoints/20/config/metadata").write_text("{")
    check_inputs(parse_arguments(filled([*EXPORT, "{}/new", "--part", "x"], tmp_path), COMMANDS))


def test_the_newest_checkpoint_says_whether_there_are_adapters(tmp_path: Path) -> None:
    checkpoint(tmp_path / "run", {"train": {"lora": {"rank": 4}}})
    check_inputs(parse_arguments(filled([*EXPORT, "{}/new", "--adapters"], tmp_path), COMMANDS))
    checkpoint(tmp_path / "run", {"train": {"lora": None}})
    with pytest.raises(PretrainedError, match="no adapters"):
        check_inputs(parse_arguments(filled([*EXPORT, "{}/new", "--adapters"], tmp_path), COMMANDS))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_takes_no_files_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(PretrainedError, match="takes no files"):
        check_inputs(parse_arguments([*IMPORT, str(tmp_path / "new")], COMMANDS))
