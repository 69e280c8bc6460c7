"""A plugin of pytest that runs tests in a random order, whose seed it shows and takes.

Files follow each other in the order of a seed, and so do the tests within a file: what one test
leaves behind, another one soon meets. Nothing else is random: the same seed gives the same order.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test")

#: The value of `--order` that leaves files and tests as they are written.
WRITTEN = "written"
#: Seeds that are drawn are smaller.
SEEDS = 10_000
#: Folders, or beginnings of names, with the longest files of tests.
LONGEST = (*("train", "extending", "check", "release", "bench", "runtime", "models"),)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the seed."""
    parser.addoption(
        "--order",
        type=seed,
        metavar="SEED",
        help=f"run tests in the order of this seed; valid: a number, {WRITTEN}; default: a new one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw a seed where none is given; the processes of pytest-xdist get that of the first one."""
    given = getattr(config, "workerinput", {}).get("order", config.option.order)
    config.option.order = given or str(SystemRandom().randrange(SEEDS))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a process of pytest-xdist the seed."""
    node.workerinput["order"] = node.config.option.order


def pytest_report_header(config: pytest.Config) -> str:
    """The seed, at the head of a run."""
    return f"order: {config.option.order} (again: make test ORDER={config.option.order})"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The seed once more, below failures."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(pytest_report_header(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring tests into their order; pytest then groups those of a parameter of shared fixtures."""
    if config.option.order != WRITTEN:
        items[:] = shuffled(items, int(config.option.order), lambda item: _file(item.path))


def seed(text: str) -> str:
    """The value of `--order`."""
    if text != WRITTEN and not text.isdecimal():
        raise ArgumentTypeError(f"{text[:40]!r} is no seed; valid: a number, or {WRITTEN}")
    return text


def shuffled(tests: Iterable[Test], number: int, file_of: Callable[[Test], str]) -> list[Test]:
    """Tests in the order of a seed; those of a file stay together.

    Files of `LONGEST` begin in the first half: at the end, one process would run such a file while
    others have nothing to do.

    Args:
        number: the seed.
        file_of: the file of a test, relative to the folder of tests.
    """
    files: dict[str, list[Test]] = {}
    for test in tests:
        files.setdefault(file_of(test), []).append(test)
    return [
        test for name in _turns(sorted(files), number) for test in _drawn(files[name], number, name)
    ]


def _turns(files: Sequence[str], number: int) -> list[str]:
    random = Random(number)
    turns = {name: random.random() / (2 if name.startswith(LONGEST) else 1) for name in files}
    return sorted(files, key=turns.__getitem__)


def _drawn(tests: list[Test], number: int, file: str) -> list[Test]:
    """Tests of a file, in the same order whichever other files are run."""
    return Random(f"{number} {file}").sample(tests, len(tests))


def _file(path: Path) -> str:
    folder = Path(__file__).parents[1]
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
