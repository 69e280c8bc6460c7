"""A shard is whole once its index is written, and void from the moment it is written over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
    complete_shards,
    lay_out_parts,
    shard_in,
)

ORIGIN = ShardOrigin(run="r", folder="f", series="s", step=3, process=2)
#: Two leaves, one of which has an empty part.
PARTS = {
    "a": [ShardPart(start=(0,), stop=(5,), offset=0), ShardPart(start=(5,), stop=(5,), offset=0)],
    "b": [ShardPart(start=(0, 0), stop=(2, 3), offset=0)],
}
LEAVES = {
    "a": ShardLeaf(shape=(5,), dtype="int16", parts=()),
    "b": ShardLeaf(shape=(2, 3), dtype="float64", parts=()),
}
INDEX = ShardIndex(origin=ORIGIN, progress={}, config={}, leaves=lay_out_parts(LEAVES, PARTS))


def content(leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
    return np.arange(part.box.size, dtype=leaf.dtype).reshape(part.box.shape) + 1


def written(own: Shard) -> ShardIndex:
    own.reserve_memory(INDEX.bytes)
    own.write(
        (part.offset, lambda leaf=leaf, part=part: content(leaf, part))  # type: ignore[misc]
        for leaf, part in INDEX.parts
    )
    return own.complete_with(INDEX)


def test_a_share_gives_back_what_was_written(tmp_path: Path) -> None:
    own = shard_in(tmp_path, 1, 2, 0)
    assert (own.holder, own.origin, own.slot) == (1, 2, 0)
    whole = written(own)
    assert own.index() == whole
    assert [each for each, _ in complete_shards(tmp_path)] == [own]
    for leaf, part in whole.parts:
        values = own.read(leaf, part)
        assert values.dtype == leaf.dtype
        np.testing.assert_array_equal(values, content(leaf, part))
    assert (own.folder / "data").stat().st_size == INDEX.bytes == 64 + 48
    own.remove()
    assert not own.folder.exists()


def test_an_index_does_not_outlive_the_data_that_it_belonged_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = shard_in(tmp_path, 0, 0, 1)
    written(own)
    own.reserve_memory(INDEX.bytes)  # and the process is killed before it has written the new data
    assert [*complete_shards(tmp_path)] == []
    assert not caplog.records
    with pytest.raises(ShardError, match="cannot be read"):
        own.index()


@pytest.mark.parametrize("size", [0, 7, INDEX.bytes, 3 * INDEX.bytes])
def test_memory_is_taken_for_as_many_bytes_as_are_asked_for(tmp_path: Path, size: int) -> None:
    own = shard_in(tmp_path, 0, 0, 0)
    for before in (0, 100, 1000):
        own.reserve_memory(before)
        own.reserve_memory(size)
        assert (own.folder / "data").stat().st_size == size


def test_room_is_needed_only_for_what_a_share_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shard_in(tmp_path, 0, 0, 0)
    own.reserve_memory(100)

    def free(size: int) -> None:
        usage: Any = shutil._ntuple_diskusage(1000, 0, size)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)

    free(0)
    own.reserve_memory(100)
    own.reserve_memory(50)
    free(50)
    own.reserve_memory(100)
    with pytest.raises(OSError, match="no room: 0 MiB are free, and 0 MiB needed"):
        own.reserve_memory(151)


@pytest.mark.parametrize("number", range(3))
def test_a_changed_byte_is_told_of_its_piece_alone(tmp_path: Path, number: int) -> None:
    own = shard_in(tmp_path, 0, 0, 0)
    whole = written(own)
    changed = [*whole.parts][number]
    size = changed[0].bytes_of(changed[1].box)
    with (own.folder / "data").open("r+b") as file:
        file.seek(changed[1].offset + max(0, size - 1))
        file.write(b"\xff" * bool(size))
    for leaf, part in whole.parts:
        if part == changed[1] and size:
            with pytest.raises(ShardError, match="has changed since it was written"):
                own.read(leaf, part)
        else:
            own.read(leaf, part)


def test_data_that_are_cut_short_are_told(tmp_path: Path) -> None:
    own = shard_in(tmp_path, 0, 0, 0)
    whole = written(own)
    with (own.folder / "data").open("r+b") as file:
        file.truncate(INDEX.bytes - 1)
    *before, last = whole.parts
    for leaf, part in before:
        own.read(leaf, part)
    with pytest.raises(ShardError, match="is cut short"):
        own.read(*last)
