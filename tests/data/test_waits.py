"""A call to a place that is out of reach is seen by the process that trains, whoever makes it."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from data import waits
from data.sample import UnreachableError
from data.sources.formats import patience
from data.sources.formats.patience import PatientFileSystem
from data.waits import SLOT, SOURCE, RetriedCall, Table, current, waiting
from tests.configs import ROOT
from tests.timing import Clock

WORKER = """
import sys
from data.waits import SLOT, tell_in, waiting
tell_in(sys.argv[1], 1)
with waiting("data.source", "s3://bucket/" + "x" * SLOT, 300.0):
    print("waits", flush=True)
    sys.stdin.readline()
print("goes on", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "SHOWN", -1.0)


def away(seen: list[RetriedCall | None]) -> Any:
    """A file system that is out of reach, and notes who waits for it."""

    def info(path: str) -> None:
        seen.append(current(SOURCE))
        raise OSError(f"no route to the host of {path}")

    return SimpleNamespace(info=info, unstrip_protocol=lambda path: f"s3://{path}")


def test_a_place_that_is_tried_again_is_waited_for_since_the_first_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, seen = Clock(), list[RetriedCall | None]()
    clock.sleep(100.0)
    for module in (patience, waits):
        monkeypatch.setattr(module, "time", clock)
    with pytest.raises(UnreachableError):
        PatientFileSystem(away(seen), 60.0).info("bucket/train.jsonl")
    assert current(SOURCE) is None
    assert len(seen) > 2
    assert len({*seen}) == 1
    assert seen[0] is not None
    assert (seen[0].key, seen[0].place) == (SOURCE, "s3://bucket/train.jsonl")
    assert (seen[0].seconds, seen[0].since) == (60.0, 100.0)


def test_a_place_that_is_not_tried_again_holds_nothing_up() -> None:
    seen: list[RetriedCall | None] = []
    with pytest.raises(UnreachableError):
        PatientFileSystem(away(seen), 0.0).info("bucket/train.jsonl")
    assert seen == [None]


def test_the_oldest_call_of_a_key_counts_and_none_that_is_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with waiting(SOURCE, "a", 1.0), waiting("checkpoint.copy_to", "b", 2.0):
        with waiting(SOURCE, "c", 3.0):
            message = [current(key) for key in (SOURCE, "checkpoint.copy_to", "elsewhere")]
        assert [wait and wait.place for wait in message] == ["a", "b", None]
        monkeypatch.setattr(waits, "SHOWN", 5.0)
        assert current(SOURCE) is None


def test_a_call_of_a_worker_is_seen_until_it_is_over() -> None:
    table = Table()
    words = [sys.executable, "-c", WORKER, table.path]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=ROOT, text=True, **pipes) as worker:
        assert worker.stdin
        assert worker.stdout
        assert worker.stdout.readline() == "waits\n"
        result = current(SOURCE)
        assert result is not None
        assert result.place == "s3://bucket/" + "x" * (waits.PLACE - len("s3://bucket/"))
        assert result.seconds == 300.0
        assert result.since <= time.monotonic()
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "goes on\n"
        assert current(SOURCE) is None
        worker.stdin.write("\n")
        worker.stdin.flush()
    table.close()
    table.close()
    assert SLOT > waits.TOLD * (waits.PLACE + 100)
