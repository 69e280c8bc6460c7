"""A plugin of pytest that shows how long the tests of each room take: `make test ARGS=--rooms`.

A room is a folder with files of tests, as `make test ROOM=...` takes it. What it takes alone is
predicted from a run of all: a file's tests run in one process, and files share the processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import pytest

#: Seconds that most rooms take less than.
USUAL = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--rooms`."""
    parser.addoption("--rooms", action="store_true", help="show the seconds of every room of tests")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show rooms, the longest first, and how many of them take less than `USUAL` seconds."""
    if not config.option.rooms:
        return
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    rooms = seconds_of_rooms(seconds_of_files(reports), getattr(config.option, "numprocesses", 1))
    quick = sum(seconds < USUAL for seconds in rooms.values())
    terminalreporter.section(f"{quick} of {len(rooms)} rooms take less than {USUAL} seconds")
    for room, seconds in sorted(rooms.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{seconds:7.1f} s  {room}")


def seconds_of_files(reports: Iterable[Any]) -> Counter[str]:
    """Seconds of the files of tests, from the reports of setups, calls and teardowns."""
    seconds: Counter[str] = Counter()
    for report in reports:
        if hasattr(report, "duration") and hasattr(report, "nodeid"):
            seconds[report.nodeid.split("::")[0]] += report.duration
    return seconds


def seconds_of_rooms(files: Mapping[str, float], processes: int | None) -> dict[str, float]:
    """Seconds of each room alone: of its longest file, or of all over the processes.

    >>> seconds_of_rooms({"tests/a/test_x.py": 4.0, "tests/a/test_y.py": 5.0}, processes=3)
    {'tests/a': 5.0}
    """
    rooms: dict[str, list[float]] = {}
    for file, seconds in files.items():
        rooms.setdefault(str(PurePath(file).parent), []).append(seconds)
    return {room: max(max(own), sum(own) / (processes or 1)) for room, own in rooms.items()}
