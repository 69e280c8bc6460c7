"""Tests run in the order of a seed, which is shown, taken, and the same in all processes."""

from __future__ import annotations

import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest

from tests.configs import ROOT
from tests.session.order import LONGEST, seed, shuffled

#: Tests as they are written: their files, and their numbers within these.
FILES = [f"{folder}/test_{number}.py" for folder in ("data", "train") for number in range(20)]
WRITTEN = [(file, number) for file in FILES for number in range(6)]


def order(number: int, tests: Iterable[tuple[str, int]] = WRITTEN) -> list[tuple[str, int]]:
    return shuffled(tests, number, lambda test: test[0])


def test_a_seed_gives_an_order_of_files_and_of_the_tests_within_them() -> None:
    first, second = order(1), order(2)
    assert first == order(1)
    assert sorted(first) == sorted(second) == sorted(WRITTEN)
    files = [[file for file, _ in groupby(each, lambda test: test[0])] for each in (first, second)]
    assert len(files[0]) == len(FILES), "tests of a file stay together"
    assert FILES != files[0] != files[1]
    one = [[test for test in each if test[0] == FILES[0]] for each in (WRITTEN, first, second)]
    assert one[0] != one[1] != one[2]


def test_a_file_by_itself_has_the_order_that_it_has_among_others() -> None:
    assert order(7, WRITTEN[:6]) == [test for test in order(7) if test[0] == FILES[0]]


def test_long_files_begin_in_the_first_half() -> None:
    """Which half of the random numbers that is; short files lie before and between them."""
    files = [file for file, _ in groupby(order(3), lambda test: test[0])]
    long = [at for at, file in enumerate(files) if file.startswith("train")]
    assert "train" in LONGEST
    assert max(long) < 0.9 * len(files)
    assert long != [*range(len(long))]


def test_the_longest_files_are_there() -> None:
    folder = ROOT / "tests"
    for beginning in LONGEST:
        assert [*folder.glob(f"{beginning}*")], beginning


PAIR = """
import pytest

@pytest.fixture(scope="module", params=["a", "b"])
def shared(request):
    return request.param

@pytest.mark.parametrize("number", range(6))
def test_it(number, shared):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of tests with a shared fixture, and the plugin."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.session.order"]')
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text(PAIR)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """What pytest says of the folder."""
    command = [sys.executable, "-m", "pytest", "-v", "--rootdir", str(folder), *words, str(folder)]
    config = ("-c", str(folder / "pytest.ini"), "-p", "no:cacheprovider")
    return subprocess.run(
        [*command, *config], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


def names(said: str) -> list[str]:
    return re.findall(r"(test_\w+\.py::\S+) PASSED", said)


def test_a_run_shows_its_seed_and_is_repeated_by_it(folder: Path) -> None:
    first = run(folder, "-n", "0")
    (drawn,) = re.findall(r"^order: (\d+) \(again: make test ORDER=\1\)$", first, re.MULTILINE)
    found = names(first)
    assert len(found) == 24
    assert names(run(folder, "-n", "0", "--order", drawn)) == found
    shared = [(name.partition("::")[0], *re.findall(r"\b[ab]\b", name)) for name in found]
    assert len([*groupby(shared)]) == 4, "each shared fixture is made once"


@pytest.mark.slow
def test_all_processes_have_the_same_seed(folder: Path) -> None:
    """They refuse to run, otherwise."""
    said = run(folder, "-n", "2", "--dist", "loadfile")
    assert "24 passed" in said, said


@pytest.mark.parametrize("text", ["first", "-1", "1.5", "", "x" * 1000])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no seed; valid: a number, or written") as told:
        seed(text)
    assert len(str(told.value)) < 100
    assert (seed("0"), seed("written")) == ("0", "written")


@pytest.mark.parametrize(("given", "expected"), [("71", "--order 71"), ("", "pytest -n 3 -m")])
def test_make_gives_the_seed_to_pytest(given: str, expected: str) -> None:
    command = ["make", "-n", "test", f"ORDER={given}", "WORKERS=3"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert expected in said


def made_by(*given: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-n", "test", "WORKERS=3", *given]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("room", ["train/step", "mllm_jax/train/step/", "tests/train/step"])
def test_make_runs_the_tests_of_a_room(room: str) -> None:
    assert 'not slurm" tests/train/step' in made_by(f"ROOM={room}").stdout


def test_a_room_without_tests_is_refused() -> None:
    command = ["make", "--old-file", ".venv/.installed-test", "test", "ROOM=data/none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "ROOM=data/none: no folder tests/data/none; valid: a folder of tests/" in done.stdout
