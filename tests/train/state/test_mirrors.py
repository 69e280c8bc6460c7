"""Copies of checkpoints at a URL: whole or not there, and never in the way of training."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import fsspec
import jax
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from data.sample import StorageError, UnreachableError
from data.sources.formats import patience
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import IDENTITY, RunError, ensure_identity, steps_in
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.train.records.resolved import write_resolved
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors import copier
from mllm_jax.train.state.mirrors.copier import copy_records, copying_checkpoints
from mllm_jax.train.state.mirrors.remote_checkpoints import (
    fetch_newest,
    open_remote_checkpoints,
    saved_parameters,
)
from mllm_jax.train.state.mirrors.store import MirrorStore
from mllm_jax.train.state.saved import CheckpointError, NoCheckpointError
from tests.configs import config
from tests.stores.object_store import GOOGLE, S3, ObjectStore, object_store
from tests.timing import PATIENCE, soon
from tests.train.state.snapshots.test_memory import REGROUPING, store
from tests.train.state.test_damage import abstract, files, state


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(patience, "FIRST", 0.02)


@pytest.fixture
def run(tmp_path: Path) -> ExperimentConfig:
    return run_with(tmp_path / "here", f"memory://{uuid4()}")


def run_with(directory: Path, url: str, **checkpoint: Any) -> ExperimentConfig:
    """A run, the same wherever its folder is."""
    own = {"copy_to": url, "retry_seconds": 0.3, "local_every": None, **checkpoint}
    made = config(run__directory=str(directory), checkpoint=own)
    made.run.path.mkdir(parents=True)
    return made


def elsewhere(run: ExperimentConfig, tmp_path: Path) -> ExperimentConfig:
    """The same run on a machine that has nothing of it."""
    return run_with(tmp_path / str(uuid4()), str(run.checkpoint.copy_to))


def saved(run: ExperimentConfig, *steps: int) -> None:
    """Save checkpoints, the first of which is copied before the last is saved."""
    with beside(run):
        for step in steps:
            store(run, step)
            soon(partial(has_copy, run, step))


def beside(run: ExperimentConfig) -> AbstractContextManager[None]:
    """Context of a start that goes on from the newest checkpoint here."""
    return copying_checkpoints(
        open_remote_checkpoints(run, None), max(steps_in(run.run.path), default=0)
    )


def start(run: ExperimentConfig, step: int | None = None) -> int | None:
    """The step that a start goes on from, whose state is as it was saved."""
    checkpoints = CheckpointManager(run.run.path / "checkpoints", run.checkpoint, REGROUPING)
    try:
        found = checkpoints.restore_state(
            abstract(state(0)), step, remote=open_remote_checkpoints(run, step)
        )
    finally:
        checkpoints.close()
    if found is None:
        return None
    jax.tree.map(np.testing.assert_array_equal, found.state, state(found.step))
    return found.step


def damage(system: Any, folder: str) -> None:
    """Flip a bit of the arrays of a checkpoint."""
    victim = next(path for path in sorted(system.find(f"{folder}/state")) if "/d/" in path)
    content = bytearray(system.cat_file(victim))
    content[len(content) // 2] ^= 1
    system.pipe_file(victim, bytes(content))


def damage_here(run: ExperimentConfig, step: int) -> None:
    damage(fsspec.filesystem("file"), str(run.run.path / "checkpoints" / str(step)))


def damage_there(run: ExperimentConfig, step: int) -> None:
    damage(MirrorStore(run)._system, f"{MirrorStore(run)._base}/{step}")


def here(run: ExperimentConfig) -> set[str]:
    """Checkpoints of a run's folder, those that were set aside without their time."""
    return {
        path.name.rpartition("-")[0] or path.name
        for path in (run.run.path / "checkpoints").iterdir()
    }


@contextmanager
def away(*methods: str, error: type[OSError] = ConnectionError) -> Iterator[None]:
    """Context in which what is in memory is out of reach, or refuses."""

    def fail(*_: Any, **__: Any) -> None:
        raise error("no route to host")

    with pytest.MonkeyPatch.context() as patch:
        for method in methods:
            patch.setattr(MemoryFileSystem, method, fail)
        yield


def has_copy(run: ExperimentConfig, step: int) -> bool:
    return step in [copy.step for copy in MirrorStore(run).list_copies()]


def test_a_machine_that_has_nothing_of_a_run_goes_on_from_the_newest_copy(run, tmp_path):
    saved(run, 1, 2, 3)
    assert [copy.step for copy in MirrorStore(run).list_copies()] == [
        3,
        2,
    ]  # as many as in the folder
    there = elsewhere(run, tmp_path)
    assert start(there) == 3
    assert here(there) == {"3"}
    assert ensure_identity(there.run.path) == ensure_identity(run.run.path)
    for own in files(run.run.path / "checkpoints" / "3"):
        same = there.run.path / own.relative_to(run.run.path)
        assert same.read_bytes() == own.read_bytes()


def test_a_step_that_is_asked_for_is_fetched(run, tmp_path):
    saved(run, 1, 2)
    there = elsewhere(run, tmp_path)
    assert start(there, step=1) == 1
    assert here(there) == {"1"}
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 3; there .* steps 1, 2$"):
        start(there, step=3)


def test_a_course_that_the_run_has_left_does_not_come_back(run, tmp_path, caplog):
    """Back to step 2: what was saved after it is not fetched again, and is saved anew."""
    saved(run, 1, 2, 3)
    checkpoints, system = run.run.path / "checkpoints", MirrorStore(run)._system
    (checkpoints / "3").rename(checkpoints / "newer-3-1")
    before = {path.removeprefix("/") for path in system.find(f"{MirrorStore(run)._base}/3")}
    with beside(run):
        assert not has_copy(run, 3)
        assert start(run) == 2
        store(run, 3)
        soon(partial(has_copy, run, 3))
    assert "copies of steps 3 in memory://" in caplog.text
    # Nothing is lost.
    aside = [path for path in system.find(MirrorStore(run)._base) if "/newer-3-" in path]
    assert len(aside) == len(before) + 1


def test_what_is_here_is_not_fetched(run):
    saved(run, 1, 2)
    before = {path: path.stat().st_mtime_ns for path in files(run.run.path)}
    assert start(run) == 2
    assert {path: path.stat().st_mtime_ns for path in files(run.run.path)} == before


def test_what_only_reads_a_run_does_without_newer_ones(run, tmp_path):
    there = elsewhere(run, tmp_path)
    saved(run, 1)
    fetch_newest(there)
    saved(run, 2)
    fetch_newest(there)
    assert here(there) == {"1"}


def test_records_of_a_run_are_copied_and_come_with_its_checkpoint(run, tmp_path):
    """Those that are here already stay."""
    own = run.run.path
    (own / "metrics.jsonl").write_text('{"step": 1}\n')
    write_resolved(run)
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    write_resolved(there)
    before = (there.run.path / "resolved.yaml").read_text()
    fetch_newest(there)
    assert (there.run.path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert (there.run.path / "resolved.yaml").read_text() == before
    assert not (there.run.path / "summary.json").exists()
    (own / "summary.json").write_text('{"steps": 1}')
    copy_records(open_remote_checkpoints(run, None))
    third = elsewhere(run, tmp_path)
    fetch_newest(third)
    assert (third.run.path / "summary.json").read_text() == '{"steps": 1}'
    assert (third.run.path / "resolved.yaml").read_text() == (own / "resolved.yaml").read_text()


def test_what_reads_a_run_fetches_what_its_folder_lacks(run, tmp_path):
    saved(run, 1, 2)
    there = elsewhere(run, tmp_path)
    with pytest.raises(NoCheckpointError, match=r"fetch it: launch\.py evaluate --config FILE"):
        saved_parameters(there.run.path)
    write_resolved(there)
    assert saved_parameters(there.run.path).step == 2
    assert ensure_identity(there.run.path) == ensure_identity(run.run.path)


def test_a_damaged_copy_gives_way_to_an_older_one(run, tmp_path, caplog):
    saved(run, 1, 2)
    damage_there(run, 2)
    there = elsewhere(run, tmp_path)
    assert start(there) == 1
    assert here(there) == {"1"}
    assert re.search(r"step 2 in memory://.*was written; trying the copy of step 1 in", caplog.text)
    fetch_newest(third := elsewhere(run, tmp_path))
    assert here(third) == {"1"}


def test_a_whole_copy_takes_the_place_of_a_damaged_checkpoint(run, caplog):
    """All checkpoints here are damaged, and one of the copies."""
    saved(run, 1, 2, 3)
    for step in (2, 3):
        damage_here(run, step)
    assert start(run) == 3
    assert here(run) == {"2", "3", "damaged-3"}
    assert "step 3: leaf" in caplog.text
    assert "trying the copy of step 3 in memory://" in caplog.text
    damage_here(run, 3)
    damage_there(run, 3)
    assert start(run) == 2
    assert here(run) == {"2", "damaged-2", "damaged-3"}
    damage_here(run, 2)
    damage_there(run, 2)
    with pytest.raises(CheckpointError, match=r"step 2: .*\n.* 2 in memory.*\n.*, and memory://"):
        start(run)
    assert here(run) == {"2", "damaged-2", "damaged-3"}


def test_a_damaged_step_that_is_asked_for_is_taken_from_its_copy(run):
    saved(run, 1, 2)
    damage_here(run, 1)
    assert start(run, step=1) == 1
    assert here(run) == {"1", "damaged-1", "newer-2"}


def test_a_copy_that_not_all_processes_have_made_is_none(run, tmp_path):
    store(run, 1)
    folder = run.run.path / "checkpoints" / "1"
    MirrorStore(run).copy_part(folder, "r", (0, 2))
    assert MirrorStore(run).list_copies() == []
    MirrorStore(run).copy_part(folder, "r", (1, 2))
    (copy,) = MirrorStore(run).list_copies()
    assert sorted(copy.files) == [path.relative_to(folder).as_posix() for path in files(folder)]
    MirrorStore(run).copy_part(folder, "r", (1, 2), "another start")
    assert MirrorStore(run).list_copies() == []
    MirrorStore(run).copy_part(folder, "r", (1, 2))
    there = elsewhere(run, tmp_path)
    fetch_newest(there)
    assert ensure_identity(there.run.path) == "r"


def test_a_run_whose_identity_is_damaged_has_that_of_its_copies(run, tmp_path):
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    (there.run.path / IDENTITY).write_bytes(b"\xb7" * 16)
    fetch_newest(there)
    assert ensure_identity(there.run.path) == ensure_identity(run.run.path)


def test_copies_of_another_run_are_refused_by_name(run, tmp_path):
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    own = ensure_identity(there.run.path)
    with pytest.raises(RunError) as refused:
        start(there)
    assert f"are of run {ensure_identity(run.run.path)}, and {there.run.path} is {own}; " in str(
        refused.value
    )


def test_a_place_out_of_reach_ends_no_run_and_what_has_no_copy_is_told(run, caplog):
    saved(run, 1)
    with beside(run):
        with away("put_file"):
            store(run, 2)
            soon(lambda: "the checkpoint of step 2 has no copy in memory://" in caplog.text)
        store(run, 3)
    assert " s (retry_seconds 0.3), at last with ConnectionError" in caplog.text
    assert "the newest there is that of step 1, and training goes on" in caplog.text
    assert MirrorStore(run).list_copies()[0].step == 3


def test_older_checkpoints_are_copied_after_the_newest_and_what_is_lost_is_told(
    run, caplog, monkeypatch
):
    """All that come while the place takes a while, but for one that is removed here."""
    put, order = MirrorStore.copy_part, list[str]()
    begun, go_on = Event(), Event()

    def slow(self: MirrorStore, folder: Path, *rest: Any) -> None:
        order.append(folder.name)
        begun.set()
        assert go_on.wait(PATIENCE)
        put(self, folder, *rest)

    monkeypatch.setattr(MirrorStore, "copy_part", slow)
    with beside(run):
        store(run, 10)
        assert begun.wait(PATIENCE)
        for step in (20, 30, 40):
            own = run.run.path / "checkpoints"
            shutil.copytree(own / "10", own / str(step))
        monkeypatch.setattr(copier, "steps_in", lambda folder: sorted([*steps_in(folder), 25]))
        go_on.set()
        soon(lambda: len(order) > 1)
        monkeypatch.setattr(copier, "steps_in", steps_in)
    assert [step for step in order if step != "25"] == ["10", "40", "30", "20"]
    assert {copy.step for copy in MirrorStore(run).list_copies()} == {10, 20, 30, 40}
    assert "that of step 25 was removed here before its turn" in caplog.text


def test_a_copy_that_has_failed_is_tried_again(run, caplog, monkeypatch):
    """Some time later, or once another one has succeeded."""
    monkeypatch.setattr(copier, "AGAIN", 0.1)
    with beside(run):
        with away("put_file"):
            store(run, 1)
            soon(lambda: "the checkpoint of step 1 has no copy" in caplog.text)
        soon(partial(has_copy, run, 1))
        monkeypatch.setattr(copier, "AGAIN", 1e9)
        with away("put_file"):
            store(run, 2)
            soon(lambda: "the checkpoint of step 2 has no copy" in caplog.text)
        store(run, 3)
    assert has_copy(run, 2)
    assert caplog.text.count("has no copy") == 2


def test_a_place_that_lets_nothing_be_removed_gets_all_copies(run, caplog):
    """As S3 without the right to delete."""
    with beside(run), away("rm", error=PermissionError):
        for step in (1, 2, 3, 4):
            store(run, step)
            soon(partial(has_copy, run, step))
    told = "copies of older checkpoints are left in memory://"
    assert [told in own for own in caplog.messages].count(True) == 1
    assert "PermissionError: no route to host" in caplog.text


def test_no_error_ends_the_copying(run, monkeypatch, caplog):
    """Such as one of the disk that the run's folder is on."""
    looks = iter([ValueError("x")])

    def steps(folder: Path) -> list[int]:
        for error in looks:
            raise error
        return steps_in(folder)

    with beside(run):
        monkeypatch.setattr(copier, "steps_in", steps)
        soon(lambda: "has failed: ValueError: x; it is tried again" in caplog.text)
        store(run, 1)
    assert has_copy(run, 1)


def test_an_error_before_a_copy_is_told(run, caplog):
    def fails(*_: object) -> None:
        raise ValueError("x")

    with away("put_file"), pytest.raises(ValueError, match="x"), beside(run):
        fails(store(run, 1))
    told = "an error ends this process before the checkpoint of step 1 has a copy in memory://"
    assert told in caplog.text
    saved(run, 2)
    caplog.clear()
    with pytest.raises(ValueError, match="x"), beside(run):
        fails(soon(partial(has_copy, run, 2)))
    assert told[:30] not in caplog.text
    # Nothing goes on looking at the folder in a process that goes on all the same.
    soon(lambda: all(thread.name != "copies" for thread in threading.enumerate()))


def test_an_interruption_waits_for_the_copy_of_what_it_has_saved(run, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(copier, "POLL_SECONDS", 0.5)
    with pytest.raises(KeyboardInterrupt), beside(run):
        interrupted(store(run, 1))
    assert has_copy(run, 1)


def test_records_that_have_no_copy_are_told_without_what_gives_access(run, monkeypatch, caplog):
    """The run has ended well all the same."""

    def refuses(*_: object, **__: object) -> None:
        raise PermissionError("https://h/x?sig=s3cret")

    (run.run.path / "metrics.jsonl").write_text("{}")
    monkeypatch.setattr(MemoryFileSystem, "put_file", refuses)
    copy_records(open_remote_checkpoints(run, None))
    assert "the records of the run have no copy in memory://" in caplog.text
    assert "PermissionError: https://h/x?sig=..." in caplog.text
    assert "s3cret" not in caplog.text


def test_what_a_start_that_was_killed_has_fetched_is_removed(run):
    saved(run, 1)
    (run.run.path / "checkpoints" / "fetched-2-other-77" / "2").mkdir(parents=True)
    assert start(run) == 1
    assert here(run) == {"1"}


def test_a_first_start_waits_for_a_place_that_is_away_and_then_says_so(run, tmp_path):
    """Before anything tells the run in the folder from that of the copies."""
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    with (
        away("glob"),
        pytest.raises(UnreachableError, match=r"checkpoint\.copy_to: .* s \(retry_seconds 0\.3\)"),
    ):
        open_remote_checkpoints(there, None)
    with (
        away("glob"),
        pytest.raises(UnreachableError, match=r"checkpoint\.copy_to: .* s \(retry_seconds 0\.3\)"),
    ):
        fetch_newest(there)
    assert start(there) == 1


def test_a_start_goes_on_from_what_is_here_if_the_place_is_away(run, caplog):
    """What is newer there is set aside once it is back, before anything is copied."""
    saved(run, 1, 2)
    (run.run.path / "checkpoints" / "2").rename(run.run.path / "2")
    with away("glob"):
        assert start(run) == 1
        assert "has newer copies is unknown: checkpoint.copy_to: memory://" in caplog.text
        with pytest.raises(UnreachableError, match=r"--from-step 1 needs that place"):
            start(run, step=1)
        copying_beside = beside(run)
        copying_beside.__enter__()
        soon(lambda: "the checkpoint of step 1 has no copy in memory://" in caplog.text)
        assert "what is there is not known" in caplog.text
    assert has_copy(run, 2)
    store(run, 3)
    copying_beside.__exit__(None, None, None)
    assert "goes on after step 1: copies of steps 2 in memory://" in caplog.text
    assert [copy.step for copy in MirrorStore(run).list_copies()] == [3, 1]


def test_copies_of_another_run_that_are_seen_late_are_told_and_left(run, tmp_path, caplog):
    saved(run, 1)
    other = elsewhere(run, tmp_path)
    ensure_identity(other.run.path)
    with away("glob"):
        copying_beside = beside(other)
    with copying_beside:
        store(other, 2)
        soon(lambda: "the checkpoint of step 2 has no copy in memory://" in caplog.text)
    assert f"are of run {ensure_identity(run.run.path)}, and {other.run.path} is " in caplog.text
    assert "it is tried again" not in caplog.text
    assert [copy.step for copy in MirrorStore(run).list_copies()] == [1]


def test_a_start_without_anything_whole_waits_for_a_place_that_is_away(run):
    """It may have what is not here, so that a later start goes on."""
    saved(run, 1)
    damage_here(run, 1)
    with away("glob"), pytest.raises(UnreachableError, match="out of reach"):
        start(run)
    with away("get_file"), pytest.raises(UnreachableError, match="out of reach"):
        start(run)
    with away("get_file", error=PermissionError), pytest.raises(StorageError, match="PermissionE"):
        start(run)
    assert start(run) == 1


def test_other_processes_copy_once_the_first_has_set_aside_what_is_left(run, monkeypatch):
    """After a start at which the place was away; step 2 there is of a course that was left."""
    store(run, 1)
    store(run, 2)
    for process in (0, 1):
        folder = run.run.path / "checkpoints" / "2"
        MirrorStore(run).copy_part(
            folder, ensure_identity(run.run.path), (process, 2), "an earlier start"
        )
    found: Any = SimpleNamespace(
        store=MirrorStore(run), run=run.run.path, has_answered=False, requested_step=None
    )
    with ExitStack() as both:
        for index in (1, 0):
            part: Any = RunPeers()
            part.index, part.count, part.gather_values = index, 2, lambda *_: ["this start"]
            monkeypatch.setattr(copier, "current_peers", lambda part=part: part)
            both.enter_context(copying_checkpoints(found, 1))
            time.sleep(0.1)
    assert [copy.step for copy in MirrorStore(run).list_copies()] == [2, 1]


@pytest.fixture
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """A server that speaks S3, or as Google Cloud Storage."""
    with object_store(getattr(request, "param", S3), tmp_path / "server.log") as store:
        yield store


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # of gcsfs
@pytest.mark.parametrize("objects", [S3, GOOGLE], ids=lambda own: own.scheme, indirect=True)
def test_a_run_goes_on_from_an_object_store(objects, tmp_path):
    run = run_with(tmp_path / "here", f"{objects.url}/of/mine")
    saved(run, 1, 2, 3)
    assert [copy.step for copy in MirrorStore(run).list_copies()] == [3, 2]
    there = elsewhere(run, tmp_path)
    fetch_newest(there)
    for own in files(run.run.path / "checkpoints" / "3"):
        assert (there.run.path / own.relative_to(run.run.path)).read_bytes() == own.read_bytes()


def test_a_store_that_goes_away_ends_no_run_and_gets_the_next_checkpoint(objects, tmp_path, caplog):
    run = run_with(tmp_path / "here", f"{objects.url}/of/mine")
    with beside(run):
        store(run, 1)
        soon(partial(has_copy, run, 1))
        objects.stop()
        store(run, 2)
        soon(lambda: "the checkpoint of step 2 has no copy in s3://" in caplog.text)
        objects.start()
        store(run, 3)
    assert "is out of reach, and is tried again for 0 s" in caplog.text
    assert "the newest there is that of step 1, and training goes on" in caplog.text
    assert MirrorStore(run).list_copies()[0].step == 3
