"""Shared memory of loaders: read back as it was written, and what is left behind is removed."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing.synchronize
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from data.loading import shared_memory
from data.loading.shared_memory import (
    FOLDER,
    LoaderLock,
    loaders_of_run,
    name_prefix,
    owner_of,
    pack_element,
    remove_left,
    unpack_element,
)
from tests.configs import ROOT

ARRAYS = arrays(
    st.sampled_from([np.int32, np.float32, np.uint8, np.bool_]),
    array_shapes(min_side=0, max_dims=3),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of any size are in shared memory."""
    monkeypatch.setattr(shared_memory, "SMALL", 1)


def held(begin: str) -> list[str]:
    return sorted(path.name for path in FOLDER.glob(f"{begin}*"))


@given(st.lists(ARRAYS, min_size=1, max_size=4), st.sampled_from([1, shared_memory.SMALL]))
def test_elements_arrive_as_they_were_sent(own: list[Any], least: int) -> None:
    begin, before = name_prefix(), shared_memory.SMALL
    shared_memory.SMALL = least
    try:
        packed = pack_element(begin, {"batch": own, "more": [own[0][::2], "text"]})
    finally:
        shared_memory.SMALL = before
    assert len(held(begin)) == bool(packed[0])
    result = unpack_element(packed)
    assert held(begin) == []
    for sent, come in zip(own, result["batch"], strict=True):
        assert (sent.dtype, sent.shape) == (come.dtype, come.shape)
        assert np.array_equal(sent, come, equal_nan=sent.dtype == np.float32)
        assert come.flags.writeable
    assert result["more"][1] == "text"


def test_what_nobody_has_taken_is_removed_with_its_loader(small: None) -> None:
    first, other = LoaderLock(), LoaderLock()
    for hold in (first, first, other):
        pack_element(hold.begin, np.zeros(10))
    first.list_semaphores()
    assert len(held(first.begin)) == 3
    first.remove_elements()
    assert held(first.begin) == [f"{first.begin}lock"]
    assert len(held(other.begin)) == 2
    for hold in (first, first, other):
        hold.close()
        assert held(hold.begin) == []


@pytest.mark.parametrize("library", ["mp", "loky"])
def test_names_of_semaphores_are_those_of_now(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = count(os.getpid() * 1000)
    make = staticmethod(lambda: f"/{library}-{next(names)}-x")
    monkeypatch.setattr(multiprocessing.synchronize.SemLock, "_make_name", make)
    hold = LoaderLock()
    try:
        semaphore = multiprocessing.get_context("spawn").Semaphore()
        name = f"sem.{semaphore._semlock.name[1:]}"  # type: ignore[attr-defined]
        hold.list_semaphores()
        assert name in listed(hold)
        del semaphore
        gc.collect()
        hold.list_semaphores()
        assert name not in listed(hold)
    finally:
        hold.close()


def listed(hold: LoaderLock) -> set[str]:
    return {*(FOLDER / f"{hold.begin}lock").read_text().split("\n")}


@pytest.fixture(params=["a run", "no run"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An owner of shared memory, a run or none, that no other test has."""
    name = owner_of(tmp_path)
    if request.param == "no run":
        monkeypatch.setattr(shared_memory, "NO_RUN", name)
    return name


@pytest.fixture
def killed(run: str, tmp_path: Path) -> Iterator[str]:
    """What names begin with of a process that was killed with its workers and all others."""
    words = [sys.executable, "-m", "tests.data.loading.left_workers", str(tmp_path), run]
    parent = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    begin = f"mllm-jax-{run}-{parent.pid}-"
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.readline().split()
        until = time.monotonic() + 60
        while len(held(begin)) < 2 and time.monotonic() < until:
            time.sleep(0.05)  # until elements wait for the process
        remove_left(run)
        assert len(held(begin)) > 1, "it lives"
        os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    yield begin
    remove_left(run)


def test_what_is_killed_leaves_nothing_behind_the_next_start(
    run: str, killed: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    mine = held(killed)
    (lock,) = [name for name in mine if name.endswith("-lock")]
    semaphores = (FOLDER / lock).read_text().split()
    assert semaphores
    assert all((FOLDER / name).exists() for name in semaphores)
    assert len(mine) > 1
    remove_left(owner_of(ROOT))  # another run's start
    assert held(killed) == mine
    if run == shared_memory.NO_RUN:
        LoaderLock().close()  # a loader's, of any process
    else:
        remove_left(run)
    assert held(killed) == []
    assert not [name for name in semaphores if (FOLDER / name).exists()]
    assert " files (" in caplog.text
    assert (
        "an earlier command" if run == shared_memory.NO_RUN else "an earlier start of"
    ) in caplog.text
    caplog.clear()
    remove_left(run)
    assert not caplog.text


def test_what_a_process_has_that_lives_is_left_alone(small: None, run: str) -> None:
    """Also one of another container, whose number is here that of nobody, or of another process."""
    with loaders_of_run(run):
        hold = LoaderLock()
    pack_element(hold.begin, np.zeros(10))
    number, foreign = f"-{os.getpid()}-", f"-{os.getpid()}-1"
    gone = hold.begin.replace(number, foreign)
    pack_element(gone, np.zeros(10))
    lock = FOLDER / f"{gone}lock"
    lock.write_text("sem.mp-none\n../strange")
    strange = FOLDER / f"mllm-jax-{run}-x"
    strange.write_text("")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as its process has it, in a container of its own
        remove_left(run)
        assert len(held(gone)) == 2
    remove_left(run)
    assert held(gone) == []
    assert len(held(hold.begin)) == 2
    assert strange.exists()
    strange.unlink()
    hold.close()


def test_elements_without_a_lock_go_with_their_run_alone(small: None, run: str) -> None:
    """Of a run nobody else has processes; what is of none may be that of a process anywhere."""
    begin = name_prefix().replace("-none-", f"-{run}-").replace(f"-{os.getpid()}-", "-999999999-")
    pack_element(begin, np.zeros(10))
    remove_left(run)
    assert bool(held(begin)) == (run == shared_memory.NO_RUN)
    for name in held(begin):
        (FOLDER / name).unlink()


def test_a_lock_that_is_removed_before_it_is_taken_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumed: list[int] = []
    flock = fcntl.flock

    def late(file: int, how: int) -> None:
        if not consumed:
            (held_lock,) = held(f"mllm-jax-none-{os.getpid()}-")
            (FOLDER / held_lock).unlink()
        consumed.append(file)
        flock(file, how)

    with monkeypatch.context() as patch:
        patch.setattr(shared_memory, "remove_left", lambda run: None)
        patch.setattr(fcntl, "flock", late)
        hold = LoaderLock()
    assert len(consumed) == 2
    assert held(hold.begin) == [f"{hold.begin}lock"]
    hold.close()


def test_without_a_folder_for_them_there_are_no_locks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared_memory, "FOLDER", tmp_path / "none")
    hold = LoaderLock()
    hold.list_semaphores()
    hold.close()
    assert not [*tmp_path.iterdir()]
