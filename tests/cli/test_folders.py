"""Folders that commands are given are looked at before anything is loaded that computes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from mllm_jax.cli.folders import FOLDERS, check_folder
from mllm_jax.cli.options import make_parser
from mllm_jax.cli.table import COMMANDS
from mllm_jax.runtime.folder import RunError
from tests.configs import ROOT

#: Options that name a folder to write.
WRITTEN = {"output", "out", "save", "write_batch", "write_keys", "calibrations"}
#: Runs every command with every folder that it takes, as if it was not there, and tells what was
#: loaded meanwhile.
PROGRAM = """
import sys
import launch
for line in sys.stdin.read().splitlines():
    print("exit", launch.main(line.split("\\t")), flush=True)
print("loaded", *sorted({"jax", "torch", "orbax", "matplotlib"} & {*sys.modules}))
"""
#: What else a command needs.
REST = {
    "report": [],
    "export": ["--out", "{out}"],
    "import": ["--out", "{out}"],
    "generate": ["--prompt", "x"],
    "evaluate": ["--questions", "{out}"],
}


def options_for_folders() -> dict[str, list[str]]:
    """By command, its options that name a folder which is read."""
    parser = make_parser(COMMANDS)
    (commands,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    found: dict[str, list[str]] = {}
    for name, own in commands.choices.items():
        for action in own._actions:
            folder = str(action.metavar) in ("DIR", "FOLDER")
            if folder and action.dest not in WRITTEN:
                found.setdefault(name, []).append(action.dest)
    return found


def test_every_option_that_names_a_folder_is_looked_at() -> None:
    expected = options_for_folders()
    assert {name: [*own] for name, own in FOLDERS.items()} == expected
    assert set(REST) == set(expected)


def test_a_wrong_folder_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    lines, expected = [], []
    for name, given in options_for_folders().items():
        rest = [word.format(out=tmp_path / "out") for word in REST[name]]
        for option in given:
            flag = {"source": "from"}.get(option, option)
            for folder, why in (("none", "no such folder"), ("empty", "in it"), ("file", "a file")):
                if option == "media" and folder == "empty":
                    continue
                lines.append("\t".join([name, f"--{flag}", str(tmp_path / folder), *rest]))
                expected.append((f"error: --{flag} {tmp_path / folder}: ", why))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    *codes, loaded = done.stdout.splitlines()
    assert codes == ["exit 2"] * len(lines)
    assert loaded == "loaded"
    told = [" ".join(part.split()) for part in done.stderr.split("error: ")[1:]]
    assert len(told) == len(expected)
    for text, (begin, why) in zip(told, expected, strict=True):
        assert f"error: {text}".startswith(begin)
        assert why in text
        assert "; valid: " in text


def test_a_message_names_runs_beside_inside_and_above(tmp_path: Path) -> None:
    # Folders two above are looked at, and other tests have runs beside `tmp_path`.
    place = tmp_path / "place" / "of" / "runs"
    for name in ("demo", "mine", "empty"):
        (place / name / "checkpoints").mkdir(parents=True)
    for name in ("demo", "mine"):
        (place / name / "metrics.jsonl").write_text("")
        (place / name / "checkpoints" / "20").mkdir()
    for wrong, right in (
        ("dmeo", "demo, mine"),
        ("empty", "demo, mine"),
        (".", "demo, mine"),
        ("demo/checkpoints", "demo"),
        ("demo/checkpoints/20", "demo"),
    ):
        for kind in ("run", "checkpoints"):
            with pytest.raises(RunError) as refused:
                check_folder("--run", place / wrong, kind)
            named = str(refused.value).rpartition(": ")[2]
            assert named.replace(f"{place}/", "") == right, wrong
    for n in range(20):
        (place / f"z{n:02}").mkdir()
        (place / f"z{n:02}" / "metrics.jsonl").write_text("")
    with pytest.raises(RunError, match=r"z02 and 17 more$"):
        check_folder("--run", place / "none", "run")


def test_a_run_whose_checkpoints_are_at_a_url_may_have_some(tmp_path: Path) -> None:
    kept = tmp_path / "resolved.yaml"
    kept.write_text("checkpoint:\n  copy_to: s3://bucket/runs\n")
    check_folder("--run", tmp_path, "checkpoints")
    kept.write_text("checkpoint:\n  copy_to: null\n")
    with pytest.raises(RunError, match="there is no checkpoint in it"):
        check_folder("--run", tmp_path, "checkpoints")


@pytest.mark.parametrize("words", [["experts", "--routes"]])
def test_work_on_shapes_looks_for_no_accelerator(words: list[str], tmp_path: Path) -> None:
    """Looking for one may take long, and libtpu tells of its own search."""
    changed = [
        *(f"run.directory={tmp_path}", "model.decoder.family=mixtral"),
        "model.decoder.experts={count: 2, top_k: 2, d_ff: 8}",
    ]
    program = (
        "import sys, launch; code = launch.main(sys.argv[1:]); import jax; "
        "print(code, jax.config.jax_platforms)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--config", "configs/demo.yaml", *changed],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.splitlines()[-1] == "0 cpu", done.stderr
    assert "TPU" not in done.stderr
