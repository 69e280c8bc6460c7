"""Whoever waits for the files of a checkpoint tells how much of them is written."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data.planning.stream import LoaderState
from mllm_jax.runtime import run_peers
from mllm_jax.runtime.run_peers import ProcessActivity, current_peers
from mllm_jax.train.components import checkpoint_saver as module
from mllm_jax.train.components.checkpoint_saver import CheckpointSaver
from mllm_jax.train.state import checkpoint
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.stored_names import StoredNames
from tests.configs import config
from tests.timing import soon

MIB = bytes(2**20)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[ProcessActivity]:
    """The activities of this process from now on; looks at files follow each other quickly."""
    told: list[ProcessActivity] = []
    monkeypatch.setattr(checkpoint, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(run_peers, "_on_event", lambda: told.append(current_peers().activity))
    current_peers().note_activity("saving after step 5")
    told.clear()
    return told


def slowly(folder: Path, events: list[ProcessActivity]) -> None:
    """Write two files of a checkpoint, and rename it at the end."""
    draft = folder / "5.orbax-checkpoint-tmp" / "state" / "d"
    draft.mkdir(parents=True)
    for number in (1, 2):
        (draft / str(number)).write_bytes(MIB)
        while f"{number} MiB" not in events[-1].event:
            time.sleep(0.01)
    time.sleep(0.05)  # in which nothing more is written
    (folder / "5.orbax-checkpoint-tmp").rename(folder / "5")


@pytest.mark.parametrize("asynchronous", [True, False])
def test_files_that_grow_are_events_that_may_take_long(
    tmp_path: Path, events: list[ProcessActivity], asynchronous: bool
) -> None:
    own = CheckpointManager.__new__(CheckpointManager)
    own.directory, own._asynchronous, own._read_only = tmp_path, asynchronous, False
    own._names = StoredNames()

    def write(*_: object, **__: object) -> None:
        slowly(tmp_path, events)

    own._manager = SimpleNamespace(save=write, wait_until_finished=write, close=write)
    if asynchronous:
        own.wait_for_saves()
    else:
        own.save_state(5, {}, {}, {})
    *written, last = events
    told = [f"writing a checkpoint, {size} MiB so far" for size in (0, 1, 2)]
    assert [event.event for event in written] == told
    assert not any(event.limited for event in written)
    assert last.event == "saving after step 5"
    assert last.limited
    (tmp_path / "5").rename(tmp_path / "4")
    events.clear()
    own.close()
    assert told == [event.event for event in events[:3]]


def test_a_draft_may_be_renamed_while_it_is_looked_at(
    tmp_path: Path, events: list[ProcessActivity], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "5.orbax-checkpoint-tmp" / "state").mkdir(parents=True)
    scan, looks = os.scandir, list[str]()

    def renamed(place: Any) -> Any:
        if "orbax" in str(place):
            looks.append(str(place))
            raise FileNotFoundError(place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", renamed)
    with checkpoint.report_write_progress(tmp_path):
        soon(lambda: len(looks) > 2)


def test_a_pause_before_the_last_save_is_tried_again_may_take_long(
    tmp_path: Path, events: list[ProcessActivity], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    fails = iter([OSError(errno.EIO, "input/output error"), None])

    def save(*_: object) -> None:
        if error := next(fails):
            raise error

    own: Any = SimpleNamespace(
        steps=[], retention=SimpleNamespace(good=None), directory=tmp_path, save_state=save
    )
    own.wait_for_saves = own.reset_after_failure = lambda: None
    CheckpointSaver(own, config(), Progress(0, LoaderState(0))).save_state(
        {}, Progress(5, LoaderState(0)), 5, last=True
    )
    assert [(event.event, event.limited) for event in events] == [
        ("saving step 5 again in 0.01 s", False),
        ("saving after step 5", True),
    ]
