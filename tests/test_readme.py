"""Every command in README.md and docs/ is one that exists.

Commands that take seconds are run. The others are checked without running: `make` targets by
make's own dry run, `launch.py` lines by parsing them and loading their configuration.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import launch
from mllm_jax.config import load
from tests.configs import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Lines of the ```sh blocks, continued lines joined, without comments."""
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def links() -> list[tuple[Path, str]]:
    """Relative link targets of every page."""
    found = [
        (page, target) for page in PAGES for target in re.findall(r"\]\(([^)#]+)", page.read_text())
    ]
    return [(page, target) for page, target in found if "://" not in target]


def check_make(words: list[str]) -> None:
    """make knows the target and its variables are among those that the Makefile reads."""
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        if "=" in word:
            assert re.search(rf"^{word.split('=')[0]} \?=", makefile, re.MULTILINE), word
    subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True, capture_output=True)


def check_launch(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The line parses and its configuration loads; `config` is run."""
    args = launch._parse(words)
    if args.config:
        load(ROOT / args.config, args.overrides)
    if args.name == "config":
        assert launch.main(words) == launch.OK
        assert capsys.readouterr().out


@pytest.mark.parametrize("command", commands())
def test_the_command_exists(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    first, *words = shlex.split(command)
    if first == "make":
        check_make(words)
    elif first in (".venv/bin/mllm-jax", "mllm-jax"):
        check_launch(words, capsys)
    elif first == ".venv/bin/python" and words[0] == "launch.py":
        check_launch(words[1:], capsys)
    elif first == "git":
        assert words[0] == "clone"
    elif first == "cd":
        assert len(words) == 1
    else:
        pytest.fail(f"no check for {command!r}: add one here, or correct the page")


def test_the_pages_have_commands() -> None:
    assert {"make train", "make test"} <= set(commands())


@pytest.mark.parametrize(("page", "target"), links())
def test_the_link_leads_somewhere(page: Path, target: str) -> None:
    assert (page.parent / target).exists()


@pytest.mark.parametrize("wrong", ["make tain", "make train NOTHING=1"])
def test_a_wrong_make_command_is_noticed(wrong: str) -> None:
    with pytest.raises((subprocess.CalledProcessError, AssertionError)):
        check_make(shlex.split(wrong)[1:])
