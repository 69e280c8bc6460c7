"""Rooms of tests and their seconds: those that a run shows, and those that the page lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.configs import ROOT
from tests.session.rooms import USUAL, seconds_of_rooms

PAGE = ROOT / "docs" / "extending" / "tests.md"
#: A row of the page's table: a room and its seconds.
ROW = re.compile(r"^\| `(?P<room>[\w/]+)` \| (?P<seconds>\d+) \|", re.MULTILINE)


def test_a_room_takes_as_long_as_its_longest_file_or_its_share_of_all() -> None:
    files = {"tests/a/test_x.py": 9.0, "tests/a/test_y.py": 1.0, "tests/b/test_z.py": 4.0}
    assert seconds_of_rooms(files, 3) == {"tests/a": 9.0, "tests/b": 4.0}
    assert seconds_of_rooms(files, 1) == {"tests/a": 10.0, "tests/b": 4.0}
    assert seconds_of_rooms(files, None) == seconds_of_rooms(files, 1)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_shows_its_rooms_if_it_is_asked_to(tmp_path: Path, processes: str) -> None:
    for room in ("one", "two"):
        (tmp_path / room).mkdir()
        test = "def test_it():\n    pass\n"
        (tmp_path / room / f"test_{room}.py").write_text(test)
    words = ["-q", "-p", "tests.session.rooms", "-n", processes, "-c", "/dev/null", "--rootdir"]
    command = [sys.executable, "-m", "pytest", *words, str(tmp_path), "--rooms", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"2 of 2 rooms take less than {USUAL} seconds" in done.stdout
    assert re.search(r" 0\.\d s  one\n", done.stdout)


def test_the_rooms_that_take_longer_exist() -> None:
    rows = [*ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    assert rows
    for row in rows:
        assert [*(ROOT / "tests" / row["room"]).rglob("test_*.py")], row["room"]
        assert int(row["seconds"]) >= USUAL, row["room"]
