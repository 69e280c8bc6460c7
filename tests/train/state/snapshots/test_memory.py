"""Snapshots in memory: the newest whole one of this run comes back, and no other."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import IDENTITY, RunError, ensure_identity
from mllm_jax.train.state.checkpoint import CheckpointManager, RestoredState
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.regroup import LayerRegrouping
from mllm_jax.train.state.saved import CheckpointError
from mllm_jax.train.state.snapshots import folder as snapshot_folder
from mllm_jax.train.state.snapshots.folder import folder_of, make_folder
from mllm_jax.train.state.snapshots.memory import SnapshotMemory, open_snapshots
from tests.configs import config
from tests.timing import PATIENCE
from tests.train.state.test_damage import abstract, flipped, state

REGROUPING = LayerRegrouping(64, None)


@pytest.fixture
def run(tmp_path: Path) -> ExperimentConfig:
    made = config(run__directory=str(tmp_path), checkpoint__local_folder=str(tmp_path / "memory"))
    made.run.path.mkdir()
    return made


@pytest.fixture
def start(run: ExperimentConfig) -> Callable[[], SnapshotMemory]:
    """A start of the run."""

    def begin() -> SnapshotMemory:
        folder = folder_of(run)
        assert folder is not None
        return SnapshotMemory(run, folder)

    return begin


def progress(step: int) -> dict[str, Any]:
    return Progress(step, LoaderState(0, step=step), seconds=1.5, loss=2.5).to_json()


def take(memory: SnapshotMemory, *steps: int) -> None:
    """Take snapshots, each once the one before is whole."""
    for step in steps:
        memory.take_snapshot(step, state(step), progress(step))
        memory._work.wait_for_end(10)  # type: ignore[union-attr]


def restore(
    run: ExperimentConfig, memory: SnapshotMemory, target: Any = None, step: int | None = None
) -> RestoredState | None:
    checkpoints = CheckpointManager(run.run.path / "checkpoints", run.checkpoint, REGROUPING)
    try:
        target = abstract(state(0)) if target is None else target
        return checkpoints.restore_state(target, step, memory=memory)
    finally:
        checkpoints.close()


def store(run: ExperimentConfig, step: int) -> None:
    checkpoints = CheckpointManager(run.run.path / "checkpoints", run.checkpoint, REGROUPING)
    checkpoints.save_state(step, state(step), progress(step), run.model_dump(mode="json"))
    checkpoints.close()


def as_taken(run: ExperimentConfig, found: RestoredState | None) -> int:
    assert found is not None
    jax.tree.map(np.testing.assert_array_equal, found.state, state(found.step))
    assert found.progress == Progress(found.step, LoaderState(0, step=found.step), 1.5, loss=2.5)
    assert found.config == run.model_dump(mode="json")
    return found.step


def data_of(run: ExperimentConfig) -> dict[int, Path]:
    """Files of the slots that are there."""
    folder = folder_of(run)
    assert folder is not None
    return {int(path.parent.name): path for path in folder.rglob("data")}


def test_a_start_goes_on_from_the_newest_snapshot_and_keeps_it_till_the_next_is_whole(run, start):
    take(start(), 10, 20, 30)
    second = start()
    assert as_taken(run, restore(run, second)) == 30
    assert len(data_of(run)) == 1
    second.take_snapshot(40, state(40), progress(40))
    second._work.wait_for_end(10)
    assert as_taken(run, restore(run, start())) == 40


def test_a_snapshot_that_is_not_complete_gives_way_to_the_one_before(run, start):
    memory = start()
    take(memory, 10, 20)
    memory._complete_snapshot = lambda *_: (
        None
    )  # the process is killed before it could seal the next one
    take(memory, 30)
    assert as_taken(run, restore(run, start())) == 20


@pytest.mark.parametrize("steps", [(10,), (10, 20), (10, 20, 30)])
def test_the_snapshot_that_a_start_went_on_from_outlives_the_next_one(run, start, steps):
    """The first snapshot of a start goes into the other slot, whichever that is."""
    take(start(), *steps)
    second = start()
    assert as_taken(run, restore(run, second)) == steps[-1]
    second._complete_snapshot = lambda *_: (
        None
    )  # the process is killed before it could seal its first one
    take(second, 40)
    assert as_taken(run, restore(run, start())) == steps[-1]


@pytest.mark.parametrize("at", [0, 1_000_000, -1])
def test_a_flipped_bit_is_noticed_and_the_one_before_is_taken(run, start, caplog, at):
    take(start(), 10, 20)
    path = data_of(run)[1]
    size = path.stat().st_size
    flipped(path, at % size if at >= 0 else last_byte(), 3)
    assert as_taken(run, restore(run, start())) == 10
    assert "the snapshot of step 20 in the memory of the hosts: leaf " in caplog.text
    assert "has changed since it was written" in caplog.text


def last_byte() -> int:
    """Of the table, as after the last leaf there may be a gap."""
    return 4 * 360_000 - 1


def test_a_changed_index_is_noticed(run, start, caplog):
    take(start(), 10, 20)
    index = data_of(run)[1].with_name("index.json")
    text = index.read_text()
    index.write_text(text.replace('"step":20', '"step":21'))
    assert as_taken(run, restore(run, start())) == 10
    assert "index.json has changed since it was written" in caplog.text


def test_the_newest_of_memory_and_storage_is_taken(run, start, caplog):
    take(start(), 10, 20)
    store(run, 15)
    assert as_taken(run, restore(run, start())) == 20
    store(run, 25)
    assert as_taken(run, restore(run, start())) == 25
    assert not data_of(run)
    assert "trying" not in caplog.text


def test_a_step_that_is_asked_for_comes_from_storage(run, start):
    store(run, 20)
    take(start(), 10, 20, 30)
    memory = start()
    assert as_taken(run, restore(run, memory, step=20)) == 20
    assert not data_of(run)


def test_snapshots_of_another_run_of_the_same_folder_are_refused_by_name(run, start, caplog):
    take(start(), 10, 20)
    before = ensure_identity(run.run.path)
    (run.run.path / IDENTITY).unlink()
    assert restore(run, start()) is None
    now = ensure_identity(run.run.path)
    assert "refused: the snapshot of step 20 in " in caplog.text
    assert f"is of run {before} ({run.run.path}), and this run is {now}" in caplog.text


def test_a_snapshot_of_another_model_is_refused_by_leaf(run, start):
    take(start(), 10)
    other = abstract(state(0))
    table = other["params"].pop("table")
    other["params"]["tables"] = table
    with pytest.raises(
        CheckpointError, match=r"step 10 in the memory .*another model(.*\n)+"
    ) as told:
        restore(run, start(), other)
    assert "params.tables: missing in the checkpoint" in str(told.value)


def test_a_snapshot_is_read_under_another_plan(run, start):
    take(start(), 10)
    target = abstract(state(0))
    mesh = Mesh(np.array(jax.devices()[:6]), ("x",))
    for name, spec in (("table", PartitionSpec("x")), ("scale", PartitionSpec())):
        leaf = target["params"][name]
        layout = NamedSharding(mesh, spec)
        target["params"][name] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=layout)
    found = restore(run, start(), target)
    assert as_taken(run, found) == 10
    assert len(found.state["params"]["table"].sharding.device_set) == 6


def test_memory_without_room_costs_no_step_and_is_told_once(run, start, monkeypatch, caplog):
    memory = start()
    take(memory, 10)
    full = shutil._ntuple_diskusage(10, 9, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    take(memory, 20, 30, 40)
    monkeypatch.undo()
    warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warned) == 1
    assert "the snapshot of step 20 is not kept: process 0: [Errno 28] no room: " in warned[0]
    assert as_taken(run, restore(run, start())) == 10


def test_a_snapshot_that_is_still_copied_when_the_next_is_due_is_not_waited_for(run, start, caplog):
    memory, go = start(), threading.Event()
    complete = memory._complete_snapshot

    def later(*arguments: Any) -> None:
        go.wait(PATIENCE)
        complete(*arguments)

    memory._complete_snapshot = later
    memory.take_snapshot(10, state(10), progress(10))
    memory.take_snapshot(20, state(20), progress(20))
    assert "step 20 is left out: that of step 10 is still being copied by process 0" in caplog.text
    go.set()
    take(memory, 30)
    assert as_taken(run, restore(run, start())) == 30


class WentWrongError(Exception):
    pass


@pytest.mark.parametrize(("error", "left"), [(None, 0), (WentWrongError, 0), (OSError, 1)])
def test_snapshots_stay_only_where_a_start_may_go_on_from_them(run, error, left):
    def go_on() -> Iterator[None]:
        with open_snapshots(run, final_errors=(WentWrongError,)) as memory:
            assert memory is not None
            take(memory, 10)
            if error:
                raise error
            yield

    with suppress(WentWrongError, OSError):
        list(go_on())
    assert len(list(Path(run.checkpoint.local_folder).rglob("data"))) == left


def test_no_snapshots_are_taken_where_none_are_wanted(run):
    none = run.model_copy(
        update={"checkpoint": run.checkpoint.model_copy(update={"local_every": None})}
    )
    with open_snapshots(none, final_errors=()) as memory:
        assert memory is None


def test_a_folder_that_others_can_write_is_refused(run, tmp_path, monkeypatch):
    auto = run.checkpoint.model_copy(update={"local_folder": "auto"})
    monkeypatch.setattr(snapshot_folder, "MEMORY", tmp_path / "shm")
    own = run.model_copy(update={"checkpoint": auto})
    folder = folder_of(own)
    assert folder is not None
    assert not folder.parent.exists()
    make_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.parent.chmod(0o777)
    with pytest.raises(RunError, match="can be written by others; remove it, or choose another"):
        folder_of(own)
