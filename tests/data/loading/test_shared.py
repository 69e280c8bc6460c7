"""Shared memory of loaders: read back as it was written, and what is left behind is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from data.loading import shared
from data.loading.shared import FOLDER, own_for, owner_of, pack, prefix, remove_left, unpack
from tests.configs import ROOT

ARRAYS = arrays(
    st.sampled_from([np.int32, np.float32, np.uint8, np.bool_]),
    array_shapes(min_side=0, max_dims=3),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of any size are in shared memory."""
    monkeypatch.setattr(shared, "SMALL", 1)


def held(begin: str) -> list[str]:
    return sorted(path.name for path in FOLDER.glob(f"{begin}*"))


@given(st.lists(ARRAYS, min_size=1, max_size=4), st.sampled_from([1, shared.SMALL]))
def test_elements_arrive_as_they_were_sent(own: list[Any], least: int) -> None:
    begin, before = prefix(), shared.SMALL
    shared.SMALL = least
    try:
        packed = pack(begin, {"batch": own, "more": [own[0][::2], "text"]})
    finally:
        shared.SMALL = before
    assert len(held(begin)) == bool(packed[0])
    found = unpack(packed)
    assert held(begin) == []
    for sent, come in zip(own, found["batch"], strict=True):
        assert (sent.dtype, sent.shape) == (come.dtype, come.shape)
        assert np.array_equal(sent, come, equal_nan=sent.dtype == np.float32)
        assert come.flags.writeable
    assert found["more"][1] == "text"


def test_what_nobody_has_taken_is_removed_with_its_loader(small: None) -> None:
    first, other = prefix(), prefix()
    for begin in (first, first, other):
        pack(begin, np.zeros(10))
    shared.list_semaphores(first)
    assert len(held(first)) == 3
    shared.remove_own(first)
    assert (held(first), len(held(other))) == ([], 1)
    shared.remove_own(other)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[str]:
    """A run whose process was killed with its workers and all that they have started."""
    run = owner_of(tmp_path)
    words = [sys.executable, "-m", "tests.data.loading.left_workers", str(tmp_path), run]
    parent = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline().split()
        until = time.monotonic() + 60
        while len(held(f"mllm-jax-{run}-")) < 2 and time.monotonic() < until:
            time.sleep(0.05)  # until elements wait for the process
        os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    yield run
    remove_left(run)


def test_a_run_that_is_killed_leaves_nothing_behind_its_next_start(
    killed: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    mine = held(f"mllm-jax-{killed}-")
    (listed,) = [name for name in mine if name.endswith("semaphores")]
    semaphores = (FOLDER / listed).read_text().split()
    assert semaphores
    assert all((FOLDER / name).exists() for name in semaphores)
    assert len(mine) > 1
    remove_left(owner_of(ROOT))  # another run's start
    assert held(f"mllm-jax-{killed}-") == mine
    remove_left(killed)
    assert held(f"mllm-jax-{killed}-") == []
    assert not [name for name in semaphores if (FOLDER / name).exists()]
    assert f"{len(mine) + len(semaphores)} files (" in caplog.text
    caplog.clear()
    remove_left(killed)
    assert not caplog.text


def test_what_a_process_has_that_lives_is_left_alone(small: None, tmp_path: Path) -> None:
    """Another one of the same run, or one that has got the number of a process that is gone."""
    run = owner_of(tmp_path)
    own_for(run)
    try:
        begin = prefix()
    finally:
        own_for("none")
    pack(begin, np.zeros(10))
    gone = begin.replace(f"-{os.getpid()}-", f"-{os.getpid()}-1")
    pack(gone, np.zeros(10))
    strange = FOLDER / f"mllm-jax-{run}-x"
    strange.write_text("")
    remove_left(run)
    assert len(held(begin)) == 1
    assert held(gone) == []
    assert strange.exists()
    strange.unlink()
    shared.remove_own(begin)
