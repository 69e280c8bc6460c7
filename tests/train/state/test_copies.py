"""Copies of checkpoints behind a URL: whole or not there, and never in the way of training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from data.sample import AwayError
from data.sources.formats import patience
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import IDENTITY, RunError, identity
from mllm_jax.train.records.resolved import keep
from mllm_jax.train.state import copies
from mllm_jax.train.state.copies import Store, copy_records, copying, fetch, saved_parameters
from mllm_jax.train.state.saved import NoCheckpointError
from tests.configs import config
from tests.stores import GOOGLE, S3, ObjectStore, object_store, soon
from tests.train.state.snapshots.test_memory import store
from tests.train.state.test_damage import files


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LOOK", 0.02)
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
    with copying(run):
        for step in steps:
            store(run, step)
            soon(partial(has_copy, run, step))


def has_copy(run: ExperimentConfig, step: int) -> bool:
    return step in [copy.step for copy in Store(run).copies()]


def test_a_machine_that_has_nothing_of_a_run_goes_on_from_the_newest_copy(run, tmp_path):
    saved(run, 1, 2, 3)
    assert [copy.step for copy in Store(run).copies()] == [3, 2]  # as many as in the folder
    there = elsewhere(run, tmp_path)
    fetch(there)
    assert [path.name for path in (there.run.path / "checkpoints").iterdir()] == ["3"]
    assert identity(there.run.path) == identity(run.run.path)
    for here in files(run.run.path / "checkpoints" / "3"):
        same = there.run.path / here.relative_to(run.run.path)
        assert same.read_bytes() == here.read_bytes()


def test_a_step_that_is_asked_for_is_fetched(run, tmp_path):
    saved(run, 1, 2)
    there = elsewhere(run, tmp_path)
    fetch(there, step=1)
    assert [path.name for path in (there.run.path / "checkpoints").iterdir()] == ["1"]


def test_a_course_that_the_run_has_left_does_not_come_back(run, tmp_path, caplog):
    """Back to step 2: what was saved after it is not fetched again, and is saved anew."""
    saved(run, 1, 2, 3)
    checkpoints, system = run.run.path / "checkpoints", Store(run)._system
    (checkpoints / "3").rename(checkpoints / "newer-3-1")
    before = {path.removeprefix("/") for path in system.find(f"{Store(run)._base}/3")}
    with copying(run):
        assert not has_copy(run, 3)
        fetch(run)
        assert not (checkpoints / "3").exists()
        store(run, 3)
        soon(partial(has_copy, run, 3))
    assert "copies of steps 3 in memory://" in caplog.text
    # Nothing is lost.
    aside = [path for path in system.find(Store(run)._base) if "/newer-3-" in path]
    assert len(aside) == len(before) + 1


def test_what_is_here_is_not_fetched(run):
    saved(run, 1, 2)
    before = {path: path.stat().st_mtime_ns for path in files(run.run.path)}
    fetch(run)
    assert {path: path.stat().st_mtime_ns for path in files(run.run.path)} == before


def test_a_folder_with_checkpoints_may_do_without_newer_ones(run, tmp_path):
    there = elsewhere(run, tmp_path)
    saved(run, 1)
    fetch(there, beside_others=False)
    saved(run, 2)
    fetch(there, beside_others=False)
    assert [path.name for path in (there.run.path / "checkpoints").iterdir()] == ["1"]


def test_records_of_a_run_are_copied_and_come_with_its_checkpoint(run, tmp_path):
    """Those that are here already stay."""
    own = run.run.path
    (own / "metrics.jsonl").write_text('{"step": 1}\n')
    keep(run)
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    keep(there)
    before = (there.run.path / "resolved.yaml").read_text()
    fetch(there)
    assert (there.run.path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert (there.run.path / "resolved.yaml").read_text() == before
    assert not (there.run.path / "summary.json").exists()
    (own / "summary.json").write_text('{"steps": 1}')
    copy_records(run)
    third = elsewhere(run, tmp_path)
    fetch(third)
    assert (third.run.path / "summary.json").read_text() == '{"steps": 1}'
    assert (third.run.path / "resolved.yaml").read_text() == (own / "resolved.yaml").read_text()


def test_what_reads_a_run_fetches_what_its_folder_lacks(run, tmp_path):
    saved(run, 1, 2)
    there = elsewhere(run, tmp_path)
    with pytest.raises(NoCheckpointError, match=r"fetch it: launch\.py evaluate --config FILE"):
        saved_parameters(there.run.path)
    keep(there)
    assert saved_parameters(there.run.path).step == 2
    assert identity(there.run.path) == identity(run.run.path)


def test_a_damaged_copy_gives_way_to_an_older_one(run, tmp_path, caplog):
    saved(run, 1, 2)
    system, base = fsspec.core.url_to_fs(str(run.checkpoint.copy_to))
    victim = next(path for path in system.find(f"{base}/{run.run.name}/2/state") if "/d/" in path)
    content = bytearray(system.cat_file(victim))
    content[len(content) // 2] ^= 1
    system.pipe_file(victim, bytes(content))
    there = elsewhere(run, tmp_path)
    fetch(there)
    assert [path.name for path in (there.run.path / "checkpoints").iterdir()] == ["1"]
    assert "the copy of step 2 in memory://" in caplog.text
    assert "has changed since it was written; trying an older one" in caplog.text


def test_a_copy_that_not_all_processes_have_made_is_none(run, tmp_path):
    store(run, 1)
    folder = run.run.path / "checkpoints" / "1"
    Store(run).put(folder, "r", (0, 2))
    assert Store(run).copies() == []
    Store(run).put(folder, "r", (1, 2))
    (copy,) = Store(run).copies()
    assert sorted(copy.files) == [path.relative_to(folder).as_posix() for path in files(folder)]
    there = elsewhere(run, tmp_path)
    fetch(there)
    assert (there.run.path / IDENTITY).read_text() == "r"


def test_copies_of_another_run_are_refused_by_name(run, tmp_path):
    saved(run, 1)
    there = elsewhere(run, tmp_path)
    own = identity(there.run.path)
    with pytest.raises(RunError) as refused:
        fetch(there)
    assert f"are of run {identity(run.run.path)}, and {there.run.path} is {own}; " in str(
        refused.value
    )


def test_a_place_out_of_reach_ends_no_run_and_what_has_no_copy_is_told(run, monkeypatch, caplog):
    saved(run, 1)
    system, _ = fsspec.core.url_to_fs(str(run.checkpoint.copy_to))

    def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to host")

    with copying(run):
        monkeypatch.setattr(type(system), "put_file", away)
        store(run, 2)
        soon(lambda: "the checkpoint of step 2 has no copy in memory://" in caplog.text)
        monkeypatch.undo()
        monkeypatch.setattr(copies, "LOOK", 0.02)
        store(run, 3)
    assert "out of reach for 0.3 s (retry_seconds), at last with ConnectionError" in caplog.text
    assert "the newest there is that of step 1, and training goes on" in caplog.text
    assert Store(run).copies()[0].step == 3


def test_a_start_waits_for_a_place_that_is_away_and_then_says_so(run, tmp_path, monkeypatch):
    saved(run, 1)
    system, _ = fsspec.core.url_to_fs(str(run.checkpoint.copy_to))

    def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(type(system), "glob", away)
    with pytest.raises(AwayError, match=r"checkpoint\.copy_to: .* out of reach for 0\.3 s"):
        fetch(elsewhere(run, tmp_path))


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
    assert [copy.step for copy in Store(run).copies()] == [3, 2]
    there = elsewhere(run, tmp_path)
    fetch(there)
    for here in files(run.run.path / "checkpoints" / "3"):
        assert (there.run.path / here.relative_to(run.run.path)).read_bytes() == here.read_bytes()


def test_a_store_that_goes_away_ends_no_run_and_gets_the_next_checkpoint(objects, tmp_path, caplog):
    run = run_with(tmp_path / "here", f"{objects.url}/of/mine")
    with copying(run):
        store(run, 1)
        soon(partial(has_copy, run, 1))
        objects.stop()
        store(run, 2)
        soon(lambda: "the checkpoint of step 2 has no copy in s3://" in caplog.text)
        objects.start()
        store(run, 3)
    assert "is out of reach, and is tried again for 0 s" in caplog.text
    assert "the newest there is that of step 1, and training goes on" in caplog.text
    assert Store(run).copies()[0].step == 3
