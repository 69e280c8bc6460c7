"""What lies at the place of a run's copies, one operation at a time."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from data.sample import StorageError
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import RunError, read_identity, steps_in
from mllm_jax.train.state.mirrors.store import CheckpointMirror, MirrorStore
from tests.configs import config


@pytest.fixture
def run(tmp_path: Path) -> ExperimentConfig:
    own = {"copy_to": f"memory://{uuid4()}", "retry_seconds": 0.3, "local_every": None}
    made = config(run__directory=str(tmp_path / "runs"), checkpoint=own)
    made.run.path.mkdir(parents=True)
    return made


@pytest.fixture
def store(run: ExperimentConfig) -> MirrorStore:
    return MirrorStore(run)


def put(
    store: MirrorStore, folder: Path, step: int, count: int = 1, only: int = 9, start: str = "s"
) -> None:
    """Copy a checkpoint of five files by the first `only` of so many processes."""
    whole = folder / str(step)
    for n in range(5):
        (whole / f"d{n % 2}").mkdir(parents=True, exist_ok=True)
        (whole / f"d{n % 2}" / f"f{n}").write_text(f"{step} {n}")
    for process in range(min(count, only)):
        store.copy_part(whole, "run", (process, count), start)


def steps(store: MirrorStore) -> list[int]:
    return [copy.step for copy in store.list_copies()]


def files(store: MirrorStore) -> set[str]:
    """Steps of which files lie there."""
    found = store._system.glob(f"{store._base}/*")
    return {path.rpartition("/")[2] for path in found if not path.endswith(".json")}


@pytest.mark.parametrize("kept", [[], [10], [20], [10, 20], [99]])
def test_the_newest_copy_is_kept_whatever_else_is(
    store: MirrorStore, tmp_path: Path, kept: list[int]
) -> None:
    for step in (10, 20, 30):
        put(store, tmp_path, step)
    store.keep_steps(kept)
    assert steps(store) == sorted({30, *kept} - {99}, reverse=True)
    assert files(store) == {str(step) for step in steps(store)}


def test_the_newest_whole_copy_is_kept_and_not_one_that_is_being_made(
    store: MirrorStore, tmp_path: Path
) -> None:
    put(store, tmp_path, 10)
    put(store, tmp_path, 20)
    put(store, tmp_path, 30, count=2, only=1)
    store.keep_steps([30])
    assert steps(store) == [20]
    assert files(store) == {"20", "30"}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_processes_copy_each_file_once(store: MirrorStore, tmp_path: Path, count: int) -> None:
    put(store, tmp_path, 10, count, only=count - 1)
    assert steps(store) == []
    put(store, tmp_path, 10, count)
    (copy,) = store.list_copies()
    assert (copy.step, copy.run) == (10, "run")
    assert sorted(copy.files) == [f"d{n % 2}/f{n}" for n in (0, 2, 4, 1, 3)]


def test_notes_of_two_starts_make_no_copy(store: MirrorStore, tmp_path: Path) -> None:
    put(store, tmp_path, 10, count=2, start="first")
    note = f"{store._base}/10-1-of-2.json"
    content = store._system.cat_file(note)
    store._system.pipe_file(note, content.replace(b"first", b"other"))
    assert steps(store) == []


def test_what_another_start_has_left_behind_a_step_is_told_and_set_aside(
    store: MirrorStore, tmp_path: Path
) -> None:
    for step in (10, 20, 30):
        put(store, tmp_path, step, start="old")
    put(store, tmp_path, 40, start="new")
    assert store.steps_of_other_starts(10, "new") == [20, 30]
    assert store.steps_of_other_starts(10, "old") == [40]
    assert store.steps_of_other_starts(9, "new") == [10, 20, 30]
    assert store.steps_of_other_starts(40, "none") == []
    assert store.quarantine_newer(20) == [30, 40]
    assert steps(store) == [20, 10]
    assert store.steps_of_other_starts(0, "new") == [10, 20]
    assert {name.rpartition("-")[0] for name in files(store)} == {"", "newer-30", "newer-40"}
    store.remove_all()
    store.remove_all()
    assert steps(store) == []


def test_copies_of_another_run_are_refused_and_a_run_without_a_past_takes_them(
    store: MirrorStore, tmp_path: Path
) -> None:
    run = tmp_path / "elsewhere"
    store.check_same(run, [])
    assert not run.exists()
    copies = [CheckpointMirror(10, "that", ()), CheckpointMirror(5, "that", ())]
    store.check_same(run, copies)
    assert read_identity(run) == "that"
    store.check_same(run, copies)
    with pytest.raises(
        RunError, match=r"are of run this, and .* is that; choose another run\.name"
    ):
        store.check_same(run, [CheckpointMirror(10, "this", ())])


def test_records_are_fetched_where_there_are_none(store: MirrorStore, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    for name in ("metrics.jsonl", "summary.json", "other.txt"):
        (one / name).write_text(f"one's {name}")
    store.put_records(one)
    (other / "summary.json").write_text("own")
    store.fetch_records(other)
    assert {path.name: path.read_text() for path in other.iterdir()} == {
        "metrics.jsonl": "one's metrics.jsonl",
        "summary.json": "own",
    }


def test_a_copy_is_fetched_whole_or_not_at_all(
    store: MirrorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mllm_jax.train.state.mirrors.store.verify_checkpoint", lambda folder: None)
    put(store, tmp_path / "from", 10)
    (copy,) = store.list_copies()
    into = tmp_path / "checkpoints"
    store.fetch_checkpoint(copy, into)
    assert [path.name for path in into.iterdir()] == ["10"]
    assert steps_in(tmp_path) == [10]
    (into / "10" / "d0" / "f0").write_text("another")
    store.fetch_checkpoint(copy, into)
    assert (into / "10" / "d0" / "f0").read_text() == "another"
    store.fetch_checkpoint(copy, into, replaces=True)
    assert (into / "10" / "d0" / "f0").read_text() == "10 0"
    assert {path.name[:10] for path in into.iterdir()} == {"10", "damaged-10"}
    lost = CheckpointMirror(20, "run", ("d0/f0",))
    with pytest.raises(StorageError, match=r"checkpoint\.copy_to"):
        store.fetch_checkpoint(lost, into)
    assert not [*into.glob("fetched-*")]
