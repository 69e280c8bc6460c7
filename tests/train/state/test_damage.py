"""Checkpoints that are damaged on disk: whatever has changed is noticed, or changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from data.planning.stream import LoaderState
from mllm_jax.config.sections import CheckpointConfig
from mllm_jax.train.state.checkpoint import CheckpointManager, RestoredState
from mllm_jax.train.state.checksums import leaf_extents
from mllm_jax.train.state.items import DrainingArrayHandler
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.regroup import LayerRegrouping
from mllm_jax.train.state.saved import CheckpointError, SavedParameters
from mllm_jax.train.state.snapshots.memory import LocalSnapshot
from mllm_jax.train.state.snapshots.shard import ShardError

CONFIG = {name: {"x": 1} for name in ("run", "model", "data", "train")}
KEEP = CheckpointConfig(keep=5)


def state(step: int, devices: int = 4) -> Any:
    """A tree of a small and a large array on some devices, and one on all of them."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    make = np.random.default_rng(step)
    values = {
        "params": {
            "table": make.normal(size=(devices * 90_000,)).astype(np.float32),
            "scale": make.normal(size=(64, 80)).astype(np.float32),
        },
        "step": np.int32(step),
    }
    specs = {
        "params": {"table": PartitionSpec("x"), "scale": PartitionSpec(None, "x")},
        "step": PartitionSpec(),
    }
    layout = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.tree.map(jax.device_put, values, layout)


def abstract(like: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), like)


def restore(folder: Path, step: int | None = None) -> RestoredState | None:
    checkpoints = CheckpointManager(folder, KEEP, LayerRegrouping(1, None))
    try:
        return checkpoints.restore_state(abstract(state(0)), step)
    finally:
        checkpoints.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Checkpoints of steps 1 and 2."""
    folder = tmp_path_factory.mktemp("saved")
    checkpoints = CheckpointManager(folder, KEEP, LayerRegrouping(1, None))
    for step in (1, 2):
        progress = Progress(step, LoaderState(0, step=step), seconds=1.5, loss=2.5)
        checkpoints.save_state(step, state(step), progress.to_json(), CONFIG)
    checkpoints.close()
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "checkpoints"))


def as_saved(found: RestoredState | None) -> int:
    """Step of a checkpoint that is what was saved."""
    assert found is not None
    jax.tree.map(np.testing.assert_array_equal, found.state, state(found.step))
    progress = Progress(found.step, LoaderState(0, step=found.step), seconds=1.5, loss=2.5)
    assert (found.progress, found.config) == (progress, CONFIG)
    return found.step


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flipped(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def test_whole_checkpoints_are_restored(saved):
    assert as_saved(restore(saved)) == 2


@pytest.fixture(scope="module")
def scratch(saved, tmp_path_factory) -> Callable[[Path, int, int], tuple[int, int]]:
    """Step that is restored, and what `SavedParameters` chooses, with one bit of step 2 flipped."""
    folder = Path(shutil.copytree(saved, tmp_path_factory.mktemp("scratch") / "checkpoints"))

    def once(name: Path, at: int, bit: int) -> tuple[int, int]:
        path = folder / "2" / name
        flipped(path, at, bit)
        try:
            parameters = SavedParameters(folder)
            expected = state(parameters.step)["params"]["table"]
            np.testing.assert_array_equal(parameters["table"], expected)
            return as_saved(restore(folder)), parameters.step
        finally:
            for aside in folder.glob("damaged-2-*"):
                aside.rename(folder / "2")
            flipped(path, at, bit)

    return once


@settings(max_examples=20)
@given(data=st.data())
def test_any_flipped_bit_of_the_arrays_is_noticed(saved, scratch, data):
    sizes = {path: path.stat().st_size for path in files(saved / "2" / "state")}
    arrays = [path for path in sizes if path.parent.name == "d"]
    path = data.draw(st.sampled_from(arrays))
    at, bit = data.draw(st.integers(0, sizes[path] - 1)), data.draw(st.integers(0, 7))
    restored, _ = scratch(path.relative_to(saved / "2"), at, bit)
    assert restored == 1


@pytest.mark.slow
def test_a_flipped_bit_of_any_other_file_is_noticed_or_changes_nothing(saved, scratch):
    """The other files, which Orbax writes after the checksums, hold only times of writing."""
    harmless = {"commit_success.txt", "_CHECKPOINT_METADATA"}
    for path in files(saved / "2"):
        name, size = path.relative_to(saved / "2"), path.stat().st_size
        if path.parent.name == "d":
            continue
        for at in {0, size // 3, size - 1} if size else ():
            restored, exported = scratch(name, at, at % 8)
            assert path.name in harmless or (restored, exported) == (1, 1), (name, at)


def test_a_changed_leaf_is_named_and_its_checkpoint_set_aside(copy, caplog):
    (extent,) = leaf_extents(copy / "2" / "state")["params.scale"][:1]
    flipped(copy / "2" / "state" / extent.file, extent.start + 20, 3)
    assert as_saved(restore(copy)) == 1
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "step 2: leaf params.scale" in warning
    assert "has changed since it was written" in warning
    assert len(list(copy.glob("damaged-2-*"))) == 1


def test_a_lost_file_of_checksums_is_noticed(copy, caplog):
    (copy / "2" / "state" / "checksums-0.json").unlink()
    assert as_saved(restore(copy)) == 1
    assert "has no checksum" in caplog.text


def test_a_disk_that_fails_while_it_is_read_leads_to_an_older_checkpoint(copy, monkeypatch):
    def failing(folder, *arguments):
        if folder.parts[-2] == "2":
            raise OSError(5, "Input/output error")
        return []

    monkeypatch.setattr("mllm_jax.train.state.saved.damaged_blocks", failing)
    assert as_saved(restore(copy)) == 1


def test_blocks_of_large_files_are_verified_one_by_one(copy, caplog):
    found = leaf_extents(copy / "2" / "state")
    places = found["params.table"]
    assert len({block for place in places for block in place.blocks}) > 1
    # How many files there are, and which leaves share a block, depends on timing.
    last = max(places, key=lambda place: place.end)
    block = max(last.blocks)
    flipped(copy / "2" / "state" / last.file, last.end - 1, 0)
    assert as_saved(restore(copy)) == 1
    sharing = [
        leaf
        for leaf, own in found.items()
        if any(place.file == last.file and block in place.blocks for place in own)
    ]
    assert "params.table" in sharing
    assert any(f"leaf {leaf}" in caplog.text for leaf in sharing)


def test_a_checkpoint_without_checksums_is_restored_with_a_warning(copy, caplog):
    for path in copy.rglob("checksums*.json"):
        path.unlink()
    assert as_saved(restore(copy)) == 2
    assert "has no checksums: whether it is whole is unknown" in caplog.text
    assert SavedParameters(copy).step == 2


def test_checkpoints_of_earlier_versions_are_restored(tmp_path, caplog):
    """Orbax' standard handlers wrote such checkpoints, with the progress of that time."""
    later = ("skipped_updates", "good", "usual_loss", "sources")
    handlers = {
        "state": ocp.StandardCheckpointHandler(),
        "progress": ocp.JsonCheckpointHandler(),
        "config": ocp.JsonCheckpointHandler(),
    }
    progress = Progress(1, LoaderState(0, step=1), seconds=1.5, loss=2.5).to_json()
    progress = {name: value for name, value in progress.items() if name not in later}
    with ocp.CheckpointManager(tmp_path / "checkpoints", item_handlers=handlers) as manager:
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(state(1)),
            progress=ocp.args.JsonSave(progress),
            config=ocp.args.JsonSave(CONFIG),
        )
        manager.save(1, args=items)
    assert as_saved(restore(tmp_path / "checkpoints")) == 1
    assert "no checksums" in caplog.text


def without(key: str) -> Callable[[Any], Any]:
    return lambda value: {name: own for name, own in value.items() if name != key}


def with_loader(**wrong: Any) -> Callable[[Any], Any]:
    return lambda value: value | {"loader": value["loader"] | wrong}


@pytest.mark.parametrize(
    ("item", "change", "reason"),
    [
        ("progress", lambda value: None, "its progress is not that of a run"),
        ("progress", lambda value: {}, r"step: Field required"),
        ("progress", without("loader"), "loader: Field required"),
        ("progress", lambda value: value | {"stepp": 1}, "stepp: Extra inputs"),
        ("progress", lambda value: value | {"step": "2"}, "step: Input should be a valid integer"),
        ("progress", lambda value: value | {"step": 7}, "its progress is that of step 7"),
        ("progress", lambda value: value | {"seconds": None}, "seconds: Input should be"),
        ("progress", lambda value: value | {"loader": {"seed": 1}}, "not a loader state"),
        *(
            ("progress", with_loader(**wrong), "not a loader state")
            for wrong in ({"carry": ["a"]}, {"carry": [None]}, {"carry": [1.5]}, {"position": -7})
        ),
        ("progress", lambda value: value | {"figures": {"steps": 1, "z": 2}}, "figures.z: "),
        ("progress", lambda value: value | {"skipped": {"bad": 1.5}}, "skipped.bad: "),
        ("config", lambda value: {}, "no section run, model, data, train"),
        ("config", lambda value: [1], "no section run, model"),
        ("config", without("model"), "no section model"),
    ],
)
def test_json_that_no_run_has_saved_gives_way_to_an_older_checkpoint(
    copy, caplog, item, change, reason
):
    """The checkpoints have no checksums, which would notice any change."""
    for path in copy.rglob("checksums*.json"):
        path.unlink()
    path = copy / "2" / item / "metadata"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert SavedParameters(copy).step == 1
    assert as_saved(restore(copy)) == 1
    warnings = [r.getMessage() for r in caplog.records if "step 2" in r.getMessage()]
    assert len(warnings) == 2
    assert reason in warnings[0]
    assert reason in warnings[1]


def truncate(folder: Path) -> None:
    """Cut the files of values in half."""
    for path in folder.glob("state/ocdbt.process_0/d/*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("summed", [True, False])
def test_falling_back_says_one_thing(copy, caplog, capfd, summed):
    """Neither Orbax nor its event loop adds to the one warning."""
    truncate(copy / "2")
    if not summed:
        for path in copy.rglob("checksums*.json"):
            path.unlink()
    assert as_saved(restore(copy)) == 1
    told = [r.getMessage() for r in caplog.records if "no checksums" not in r.getMessage()]
    assert len(told) == 1
    assert "step 2: leaf params." in told[0]
    assert capfd.readouterr().err == ""


def test_reads_that_begin_after_the_first_error_end_before_it_is_told(monkeypatch):
    ended = []

    async def read():
        await asyncio.sleep(0.02)
        ended.append("read")

    async def array():
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(read()))
        raise OSError("another read of this array")

    async def deserialize(*_):
        tasks.append(asyncio.create_task(array()))
        raise OSError("the first")

    tasks: list[asyncio.Task[None]] = []
    monkeypatch.setattr(ocp.type_handlers.ArrayHandler, "deserialize", deserialize)
    with pytest.raises(OSError, match="the first"):
        asyncio.run(DrainingArrayHandler().deserialize([]))
    assert ended == ["read"]


def test_a_lost_snapshot_does_not_hide_that_all_checkpoints_are_damaged(copy):
    """A run would begin afresh; where nothing was, it does."""

    class Lost:
        """Memory with a snapshot that cannot be read."""

        def list_snapshots(self):
            return [LocalSnapshot(3, "series", ())]

        def open_reader(self, kept):
            raise ShardError("no host has a shard of it any more")

        def resume_from(self, kept):
            assert kept is None

    def began(folder):
        checkpoints = CheckpointManager(folder, KEEP, LayerRegrouping(1, None))
        try:
            return checkpoints.restore_state(abstract(state(0)), memory=Lost())
        finally:
            checkpoints.close()

    assert restore(copy.parent / "nothing") is None
    assert began(copy.parent / "nothing") is None
    for step in ("1", "2"):
        truncate(copy / step)
    with pytest.raises(CheckpointError, match=r"no readable checkpoint in [^:]*:\n  the snapshot"):
        began(copy)


def test_who_only_reads_changes_nothing(copy, caplog):
    """Neither what is damaged, nor what a run that goes on is about to save."""
    truncate(copy / "2")
    (copy / "3.orbax-checkpoint-tmp" / "state").mkdir(parents=True)
    before = files(copy)
    checkpoints = CheckpointManager(copy, KEEP, LayerRegrouping(1, None), read_only=True)
    assert as_saved(checkpoints.restore_state(abstract(state(0)))) == 1
    checkpoints.close()
    assert files(copy) == before
    assert (copy / "3.orbax-checkpoint-tmp" / "state").is_dir()
    assert len(caplog.records) == 1


def test_one_step_can_be_asked_for_and_newer_ones_are_set_aside(copy):
    assert as_saved(restore(copy, step=1)) == 1
    assert len(list(copy.glob("newer-2-*"))) == 1
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 2; .* steps 1$"):
        restore(copy, step=2)
    truncate(copy / "1")
    with pytest.raises(CheckpointError, match=r"step 1, which .*: leaf .* there is no other$"):
        restore(copy, step=1)


def test_a_damaged_step_that_is_asked_for_is_named_with_the_others_and_left_as_it_is(copy):
    truncate(copy / "2")
    before = files(copy)
    reason = r"^the checkpoint of step 2, which --from-step asks for, is damaged: .* 2: leaf \S+ "
    with pytest.raises(CheckpointError, match=reason + r".*; .* there are those of steps 1$"):
        restore(copy, step=2)
    assert files(copy) == before


@pytest.fixture(autouse=True)
def _own_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Warnings of the project alone."""
    with caplog.at_level(logging.WARNING):
        yield
