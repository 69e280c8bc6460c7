"""Saves that fail: told, tried again and forgotten once one succeeds, without a model or a disk."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data.planning.stream import LoaderState
from mllm_jax.train.components.checkpoint_saver import CheckpointSaver, SaveError
from mllm_jax.train.state.progress import Progress
from tests.configs import config

STATE = {"x": np.zeros(8, np.float32)}
#: Where a save fails: nowhere, as it begins, or in the background.
WELL, BEGINS, BACKGROUND = "well", "begins", "background"


class Written:
    """Checkpoints whose saves go as they are told."""

    def __init__(self, directory: Path, fates: list[str], whole: tuple[int, ...] = ()) -> None:
        self.directory, self.steps = directory, list(whole)
        self.retention = SimpleNamespace(good=None)
        self.opened = 0
        self._fates, self._running = iter(fates), (0, WELL)

    def save_state(self, step: int, state: Any, progress: Any, config: Any) -> None:
        assert state is STATE
        assert progress["step"] == step
        self._running = step, next(self._fates, WELL)
        if self._running[1] == BEGINS:
            raise OSError("the disk is at fault")

    def wait_for_saves(self) -> None:
        step, fate = self._running
        if fate == BACKGROUND:
            raise OSError("the disk is at fault")
        self.steps.append(step)

    def reset_after_failure(self) -> None:
        self.opened += 1


def made(
    directory: Path,
    fates: list[str],
    allowed: int = 3,
    whole: tuple[int, ...] = (),
    resumed: int = 0,
    good: int | None = None,
) -> tuple[CheckpointSaver, Written]:
    own = config(checkpoint__failures=allowed)
    written = Written(directory, fates, whole)
    progress = Progress(resumed, LoaderState(0), good=good)
    return CheckpointSaver(written, own, progress), written  # type: ignore[arg-type]


def save(
    own: CheckpointSaver, step: int, usual_step: int | None = None, **changes: Any
) -> Progress:
    progress = Progress(step, LoaderState(0))
    own.save_state(STATE, progress, step if usual_step is None else usual_step, **changes)
    return progress


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    told: list[float] = []
    monkeypatch.setattr("mllm_jax.train.components.checkpoint_saver.time.sleep", told.append)
    return told


@given(
    fates=st.lists(st.sampled_from([WELL, BEGINS, BACKGROUND]), max_size=12),
    allowed=st.integers(0, 3),
)
@example(fates=[BACKGROUND, WELL] * 6, allowed=1)
@example(fates=[BEGINS, WELL] * 6, allowed=1)
def test_only_failures_in_a_row_end_a_run(
    fates: list[str], allowed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own, written = made(tmp_path_factory.getbasetemp(), fates, allowed)
    row, opened, over = 0, 0, None
    for step, fate in enumerate(fates, 1):
        opened += row > 0
        row = 0 if fate == WELL else row + 1
        if row > allowed:
            over = step
            break

    def run() -> None:
        for step in range(1, len(fates) + 1):
            save(own, step)
            own.wait_for_save()

    if over is None:
        run()
    else:
        with pytest.raises(SaveError) as error:
            run()
        told = str(error.value)
        newest = f"that of step {written.steps[-1]}" if written.steps else "none"
        assert f"the checkpoint of step {over} cannot be saved: the disk is at fault" in told
        assert f"; {allowed + 1} saves in a row have failed, and checkpoint.failures" in told
        assert f"allows {allowed}. Newest checkpoint of this process: {newest}." in told
    assert written.opened == opened
    assert written.steps == [n for n, fate in enumerate(fates[: over or 99], 1) if fate == WELL]


def test_what_becomes_of_a_save_is_seen_at_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, written = made(tmp_path, [BACKGROUND])
    save(own, 1)
    assert not caplog.records
    save(own, 2)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == (
        "the checkpoint of step 1 cannot be saved: the disk is at fault; it is tried again with "
        "the next one"
    )
    assert written.steps == []
    own.wait_for_save()
    assert written.steps == [2]


def test_a_step_is_saved_once(tmp_path: Path) -> None:
    own, written = made(tmp_path, [], whole=(4, 7), resumed=4)
    save(own, 4)
    own.wait_for_save()
    assert written.steps == [4, 7]
    save(own, 5)
    save(own, 5, last=True)
    assert written.steps == [4, 7, 5]


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_the_last_save_is_tried_till_it_is_done_with_growing_pauses(
    tmp_path: Path, pauses: list[float], failures: int
) -> None:
    own, written = made(tmp_path, [BEGINS, BACKGROUND, BACKGROUND][:failures])
    save(own, 6, last=True)
    assert written.steps == [6]
    assert pauses == [1.0, 2.0, 4.0][:failures]


def test_a_checkpoint_is_good_once_a_later_step_has_a_sane_loss(tmp_path: Path) -> None:
    own, written = made(tmp_path, [], whole=(2,), resumed=2, good=1)
    assert written.retention.good == 1
    assert save(own, 3, usual_step=2).good == 1
    assert written.retention.good == 1
    assert save(own, 4, usual_step=3).good == 1
    assert save(own, 5, usual_step=5).good == 4
    own.wait_for_save()
    assert "is that of step 5: go on from it with --from-step 5" in own.give_advice(usual_step=6)
    written.steps.clear()
    assert "No checkpoint of the run is known to be good" in own.give_advice(usual_step=6)


@pytest.mark.parametrize(("free", "fits"), [(31, False), (32, True)])
def test_a_save_needs_room_for_the_whole_state(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    free: int,
    fits: bool,
) -> None:
    usage: Any = shutil._ntuple_diskusage(100, 0, free)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    own, written = made(tmp_path, [])
    save(own, 1)
    own.wait_for_save()
    assert bool(written.steps) == fits
    assert ("No space left on device: 0 MiB are free, and 0 MiB needed" in caplog.text) != fits


def test_a_folder_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own, written = made(tmp_path / "gone", [])
    save(own, 1)
    assert "step 1 cannot be saved: [Errno 2] the folder is gone" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert written.steps == []
