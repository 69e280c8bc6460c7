"""`generate` and `evaluate --questions` as a user runs them, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import PIL.Image
import pytest
import soundfile

import launch
from data.media.registry import MEDIA_TYPES
from data.sample import DataError
from mllm_jax.cli import answering
from mllm_jax.cli.command_options import MEDIA
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.evaluation.metrics import METRICS
from mllm_jax.generate.answer_file import AnswerFile
from mllm_jax.generate.answers import AnswerReply, AnswerSet
from mllm_jax.runtime.devices import start_in_process
from mllm_jax.runtime.exits import ExitCode
from tests.data.sources.formats.writers import encoded_video
from tests.models.pretrained.stored import ROOT

RELEASE, PLAIN = str(ROOT / "llava_onevision"), str(ROOT / "llava")
SHORT = ("--max-new-tokens", "4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Media, prompts and questions."""
    folder = tmp_path_factory.mktemp("prompts")
    with np.load(ROOT / "media.npz") as media:
        for name in ("wide", "tall"):
            PIL.Image.fromarray(media[f"image.{name}"]).save(folder / f"{name}.png")
        soundfile.write(folder / "odd.wav", media["clip.odd"], 16_000, subtype="PCM_16")
    with np.load(ROOT / "llava_onevision" / "videos.npz") as videos:
        (folder / "wave.mkv").write_bytes(encoded_video(videos["video.frames"]))
    lines: list[dict[str, Any]] = [
        {"prompt": "What is it?", "image": "wide.png", "answer": ["A cat."], "source": "cats"},
        {
            "prompt": "And this <image>?",
            "image": "tall.png",
            "choices": ["cat", "dog"],
            "answer": "B",
            "source": "dogs",
        },
        {
            "messages": [
                {"role": "user", "content": "Hm?"},
                {"role": "assistant", "content": "Rain."},
            ]
        },
        {"prompt": "x", "image": "missing.png", "answer": "x", "source": "cats"},
        {"prompt": "x", "video": "a.mp4", "answer": "x"},
        {"image": "wide.png"},
        {"prompt": "What moves?", "video": "wave.mkv", "answer": "A box.", "source": "films"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "questions.jsonl").write_text(text)
    (folder / "unusable.jsonl").write_text('{"prompt": ""}\n{"messages": []}\n')
    return folder


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    code = launch.main([*map(str, arguments)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_a_file_of_questions_is_answered_and_measured(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch)
    questions, output = folder / "questions.jsonl", folder / "scores.jsonl"
    own = ("--release", RELEASE, "--questions", questions, "--output", output, *SHORT)
    code, out, err = ran(capsys, "evaluate", *own, "--json")
    assert code == ExitCode.OK
    found = json.loads(out)
    assert list(found["sources"]) == ["cats", "dogs", "questions", "films", "all"]
    counts = {name: (own["answered"], own["skipped"]) for name, own in found["sources"].items()}
    counted = {"cats": (1, 1), "dogs": (1, 0), "questions": (1, 2), "films": (1, 0), "all": (4, 3)}
    assert counts == counted
    assert list(found["sources"]["cats"])[2:] == [*METRICS]
    assert found["sources"]["cats"]["choice"] is None
    assert found["sources"]["dogs"]["choice"] in (0.0, 1.0)
    assert found["sources"]["dogs"]["anls"] is None  # its question has options
    assert all(0 <= own["anls"] <= 1 for name, own in found["sources"].items() if name != "dogs")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [("error" in line) for line in lines] == [*[False] * 3, *[True] * 3, False]
    assert "missing.png" in lines[3]["error"]
    assert lines[4]["error"].startswith("'a.mp4' is missing in the media folder")
    assert "conversations or messages or texts or prompt: Field required" in lines[5]["error"]
    assert lines[2]["answers"] == ["Rain."]
    with np.load(ROOT / "llava_onevision" / "videos.npz") as videos:
        assert lines[6]["tokens"] == videos["video.tokens"].tolist()[:4]
    assert "skipped questions.jsonl[3]" in err


def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in this process, with the devices that tests have."""
    jax.devices()

    def start(args: object, config: ExperimentConfig, keep_compiled: bool) -> None:
        start_in_process(config.parallel)

    monkeypatch.setattr(answering, "start_configured", start)


@pytest.mark.slow
def test_a_file_of_prompts_becomes_lines_of_json(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch)
    batch = ("generate", "--release", RELEASE, "--batch", folder / "questions.jsonl", *SHORT)
    code, out, err = ran(capsys, *batch)
    assert code == ExitCode.OK
    lines = [json.loads(line) for line in out.splitlines()]
    assert [own["name"] for own in lines] == [f"questions.jsonl[{n}]" for n in range(7)]
    assert all(len(own["tokens"]) == 4 for own in lines[:3])
    assert err.count(" of the prompts have no answer: ") >= 1
    assert "tokens/s" in err
    # A file gets the same lines, and a start that was cut off goes on from those of its batches.
    output, part = folder / "answers.jsonl", folder / "answers.jsonl.part"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerFile, "finish", lambda *_: None)
        assert ran(capsys, *batch, "--output", output)[0] == ExitCode.OK
    assert not output.exists()
    kept = part.read_text().splitlines(keepends=True)
    assert len(kept) == 5
    part.write_text("".join(kept[:3]))
    code, out, _ = ran(capsys, *batch, "--output", output)
    assert code == ExitCode.OK
    assert f"going on with 2 answers of {part}" in out
    assert [json.loads(line) for line in output.read_text().splitlines()] == lines


PROMPT = ("--prompt", "What is it?")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            (*PROMPT,),
            ExitCode.BAD_INPUT,
            "--run and --release: neither is given; valid: one of them",
        ),
        (
            ("--run", "{folder}", "--release", RELEASE, *PROMPT),
            ExitCode.BAD_INPUT,
            "both are given",
        ),
        (("--release", RELEASE), ExitCode.BAD_INPUT, "--prompt and --batch: neither is given"),
        (
            ("--run", "{folder}/none", *PROMPT),
            ExitCode.BAD_INPUT,
            "there is no such folder; valid: ",
        ),
        (
            ("--run", "{folder}", *PROMPT),
            ExitCode.BAD_INPUT,
            "there is no checkpoint in it; valid: ",
        ),
        (
            ("--release", "{folder}/none", *PROMPT),
            ExitCode.BAD_INPUT,
            "there is no such folder; valid: ",
        ),
        (("--release", RELEASE, *PROMPT, "--top-k", "3"), ExitCode.BAD_INPUT, "have no effect"),
        (
            ("--release", RELEASE, "--batch", "x.jsonl", "--image", "a.png"),
            ExitCode.BAD_INPUT,
            "--image: a file names its media",
        ),
        (("--release", RELEASE, "--prompt", " "), ExitCode.BAD_INPUT, "--prompt: it asks nothing"),
        (
            ("--release", RELEASE, "--batch", "{folder}/none.jsonl"),
            ExitCode.BAD_DATA,
            "error: cannot read {folder}/none.jsonl: no such file",
        ),
        (
            ("--release", RELEASE, "--batch", "{folder}/unusable.jsonl"),
            ExitCode.BAD_DATA,
            "none of the 2 prompts of {folder}/unusable.jsonl can be used; unusable.jsonl[1], the "
            "last one: record of wrong shape: messages: it is empty; valid: a list of turns",
        ),
        (
            ("--release", RELEASE, *PROMPT, "--audio", "{folder}/odd.wav"),
            ExitCode.BAD_DATA,
            "has audio media, but no encoder takes audio; valid: image",
        ),
        (
            ("--release", RELEASE, *PROMPT, "--video", "{folder}/a.mp4"),
            ExitCode.BAD_DATA,
            "a.mp4' cannot be opened: No such file or directory",
        ),
        (
            ("--release", PLAIN, *PROMPT, "--video", "{folder}/wave.mkv"),
            ExitCode.BAD_DATA,
            "has video media, but no encoder takes video; valid: image",
        ),
        (
            ("--release", RELEASE, *PROMPT, "--image", "{folder}/none.png"),
            ExitCode.BAD_DATA,
            "none.png' cannot be opened: No such file",
        ),
        (
            ("--release", RELEASE, "--prompt", "word " * 2000),
            ExitCode.BAD_DATA,
            "of model.decoder.max_positions; valid: a shorter prompt",
        ),
    ],
)
def test_what_cannot_be_answered_is_told(
    arguments: tuple[str, ...],
    code: ExitCode,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch)
    own = [text.replace("{folder}", str(folder)) for text in arguments]
    found, out, err = ran(capsys, "generate", *own)
    assert found == code, err
    assert message.replace("{folder}", str(folder)) in err
    assert out == ""


def test_a_file_without_prompts_is_told() -> None:
    with pytest.raises(DataError, match=r"a\.jsonl has no prompts; valid: at least one"):
        AnswerSet([]).checked("a.jsonl")
    assert AnswerSet([AnswerReply("0", None, error="x"), AnswerReply("1", "A cat.")]).checked(
        "a.jsonl"
    )


def test_an_unknown_metric_is_told_before_anything_is_opened(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "open_model", None)
    own = ("--release", RELEASE, "--questions", folder / "questions.jsonl")
    code, _, err = ran(capsys, "evaluate", *own, "--metrics", "anls,bleu")
    assert code == ExitCode.BAD_INPUT
    assert (
        "--metrics: 'bleu' is no metric; valid: exact_match, anls, wer, wer_normalised, choice"
        in err
    )


def test_every_kind_of_media_has_an_option() -> None:
    assert {*MEDIA_TYPES} <= {*MEDIA}
