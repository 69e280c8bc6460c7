"""Indexes are there whole or not at all, and are made once."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from data.planning.lengths import open_lengths
from data.processing.processor import Processor
from data.sample import DataError
from data.sources.cache import KEPT
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.make import make_source
from tests.data.samples import MakeConfig
from tests.timing import PATIENCE

NAMES = ("a", "b")


def arrays() -> Arrays:
    return {"a": np.arange(1000), "b": np.zeros(0, np.int32)}


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_an_index_is_made_once_and_mapped(tmp_path: Path) -> None:
    calls: list[int] = []

    def build() -> Arrays:
        calls.append(1)
        return arrays()

    for _ in range(2):
        index = open_index(tmp_path, "one", NAMES, build)
    assert isinstance(index["a"], np.memmap)
    again: RecordIndex = pickle.loads(pickle.dumps(index))
    assert len(pickle.dumps(index)) < 300
    for actual in (index, again):
        np.testing.assert_array_equal(actual["a"], np.arange(1000))
        assert actual["b"].shape == (0,)
    open_index(tmp_path, "two", NAMES, build)
    assert len(calls) == len(folders(tmp_path)) == 2


def test_processes_that_make_it_at_once_agree_and_leave_nothing_else(tmp_path: Path) -> None:
    together = Barrier(4)

    def build() -> Arrays:
        together.wait(PATIENCE)
        return arrays()

    with ThreadPoolExecutor(4) as pool:
        for index in pool.map(lambda _: open_index(tmp_path, "one", NAMES, build), range(4)):
            np.testing.assert_array_equal(index["a"], np.arange(1000))
    assert len(folders(tmp_path)) == 1


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> Arrays:
        raise DataError("shard 7 is truncated")

    with pytest.raises(DataError, match="shard 7"):
        open_index(tmp_path, "one", NAMES, fail)
    with pytest.raises(ValueError, match="Object arrays"):
        open_index(tmp_path, "one", NAMES, lambda: {"a": object()})  # type: ignore[dict-item]
    assert not any(path.is_dir() and "index" in path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("damage", [None, b"", b"\x93NUMPY junk", "a number"])
def test_a_damaged_one_is_told_and_made_again(
    damage: bytes | str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = open_index(tmp_path, "one", NAMES, arrays).folder
    if isinstance(damage, str):
        np.save(folder / "a.npy", np.arange(1000) + 1)
    else:
        (folder / "a.npy").unlink()
    if isinstance(damage, bytes):
        (folder / "a.npy").write_bytes(damage)
    for _ in range(2):
        np.testing.assert_array_equal(open_index(tmp_path, "one", NAMES, arrays)["a"], range(1000))
    (message,) = caplog.messages
    assert f"records in {folder} are damaged and are made again: a.npy missing or not" in message
    assert folders(tmp_path) == [folder.name]


def test_the_last_few_indexes_of_a_source_are_kept_and_all_that_are_in_use(tmp_path: Path) -> None:
    lock = [open_index(tmp_path, str(number), NAMES, arrays) for number in range(KEPT + 2)]
    first, second, _, fourth, *_ = [index.folder for index in lock]
    assert all(index.folder.is_dir() for index in lock)  # each is in use
    again: RecordIndex = pickle.loads(pickle.dumps(lock[0]))
    lock.clear()
    open_index(tmp_path, "one more", NAMES, arrays)
    assert first.is_dir()  # by a process that has it from another one
    assert not second.is_dir()
    np.testing.assert_array_equal(again["a"], np.arange(1000))
    del again
    os.utime(fourth, (1, 1))
    open_index(tmp_path, "3", NAMES, lambda: pytest.fail("it is there"))  # used again
    open_index(tmp_path, "and one more", NAMES, arrays)
    assert fourth.is_dir()
    assert not first.is_dir()
    assert len(folders(tmp_path)) == KEPT


def test_indexes_and_lengths_of_a_source_are_in_one_folder(
    tmp_path: Path, make_config: MakeConfig, processor: Processor
) -> None:
    """Data that change once a day leave no more than a few of each."""
    path = tmp_path / "train.jsonl"
    source = {"kind": "llava", "path": path}
    config = make_config(source=source, tokenizer="bytes", cache=tmp_path / "cache")
    message = {"conversations": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "A."}]}
    for day in range(KEPT + 3):
        path.write_text((json.dumps(message) + "\n") * (day + 1))
        result = make_source(config)
        open_lengths(result, processor, config)
        home = result.home
        del result
    (only,) = (tmp_path / "cache").iterdir()
    assert only == home
    kinds = [name.partition("-")[0] for name in folders(home)]
    assert kinds == ["index"] * KEPT + ["lengths"] * KEPT


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"data\.cache: cannot write"):
        open_index(tmp_path / "file" / "cache", "one", NAMES, arrays)
