"""Checksums of files, block by block: every change of a byte is found in its block."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mllm_jax.train.state import checksums
from mllm_jax.train.state.checksums import (
    ChecksumError,
    Extent,
    FileBlock,
    blocks_of,
    damaged_blocks,
    has_checksums,
    write_checksums,
)

BLOCK = 16


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "BLOCK", BLOCK)
        patch.setattr(checksums, "_RUN", 2)
        yield


def write(folder: Path, sizes: list[int]) -> dict[str, bytes]:
    """Files of these sizes, half of them of process 0 and half in a folder below."""
    made = {f"{'d/' * (n % 2)}f{n}": bytes([n + 1]) * size for n, size in enumerate(sizes)}
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return made


def blocks(name: str, size: int) -> list[FileBlock]:
    return [FileBlock(name, number) for number in range(-(-size // BLOCK))]


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 5 * BLOCK), min_size=1, max_size=4),
    data=st.data(),
)
def test_a_changed_byte_is_found_in_its_block_and_no_other(
    sizes: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("summed")
    made = write(folder, sizes)
    write_checksums(folder)
    assert damaged_blocks(folder) == []
    name = data.draw(st.sampled_from(sorted(made)))
    if made[name]:
        at = data.draw(st.integers(0, len(made[name]) - 1))
        changed = bytearray(made[name])
        changed[at] ^= 1 << data.draw(st.integers(0, 7))
        (folder / name).write_bytes(changed)
        assert damaged_blocks(folder) == [FileBlock(name, at // BLOCK)]
        assert damaged_blocks(folder, lambda block: block.number != at // BLOCK) == []
        shares = (damaged_blocks(folder, share=(n, 3)) for n in range(3))
        assert list(chain.from_iterable(shares)) == [FileBlock(name, at // BLOCK)]
    shutil.rmtree(folder)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK])
@pytest.mark.parametrize("change", [-1, 1, BLOCK])
def test_another_size_is_damage_of_the_last_block(tmp_path: Path, size: int, change: int) -> None:
    write(tmp_path, [size, 3])
    write_checksums(tmp_path)
    content = (tmp_path / "f0").read_bytes()
    (tmp_path / "f0").write_bytes((content + bytes(BLOCK))[: size + change])
    assert damaged_blocks(tmp_path) == blocks("f0", size)[-1:]


def test_a_file_that_is_gone_is_damaged_wholly_and_an_empty_one_in_its_only_block(
    tmp_path: Path,
) -> None:
    write(tmp_path, [5 * BLOCK, 3, 0])
    write_checksums(tmp_path)
    (tmp_path / "f0").unlink()
    assert damaged_blocks(tmp_path) == blocks("f0", 5 * BLOCK)
    (tmp_path / "f2").unlink()
    assert damaged_blocks(tmp_path) == [*blocks("f0", 5 * BLOCK), FileBlock("f2", 0)]


def test_processes_sum_what_they_have_written_and_the_last_one_the_rest(tmp_path: Path) -> None:
    assert not has_checksums(tmp_path)
    write(tmp_path / "process0", [3, 40])
    write_checksums(tmp_path, "process0", process=0)
    assert has_checksums(tmp_path)
    with pytest.raises(ChecksumError, match=r"checksums\.json is missing"):
        damaged_blocks(tmp_path)
    write(tmp_path / "process1", [7])
    write_checksums(tmp_path, "process1", process=1)
    write(tmp_path, [9])
    write_checksums(tmp_path)
    summed = {
        path.name: sorted(json.loads(path.read_text())["files"]) for path in tmp_path.glob("*.json")
    }
    assert summed == {
        "checksums-0.json": ["process0/d/f1", "process0/f0"],
        "checksums-1.json": ["process1/f0"],
        "checksums.json": ["f0"],
    }
    assert damaged_blocks(tmp_path) == []


def test_a_file_without_a_checksum_is_told_unless_it_says_only_when_it_was_written(
    tmp_path: Path,
) -> None:
    """Else damage of what a lost file of checksums had summed would pass."""
    write(tmp_path, [3, 40])
    write_checksums(tmp_path)
    for name in ("commit_success.txt", "_CHECKPOINT_METADATA"):
        (tmp_path / name).write_text("now")
    assert damaged_blocks(tmp_path) == []
    (tmp_path / "d" / "new").write_text("new")
    with pytest.raises(ChecksumError, match=r"d/new has no checksum: a file of checksums is lost"):
        damaged_blocks(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"block": 8}, "has blocks of 8 bytes, not of 16"),
        ({"files": {"f0": {"size": "3", "crc32": []}}}, "cannot be read: "),
        ({"more": 1}, "cannot be read: "),
    ],
)
def test_checksums_that_are_none_are_told(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    write(tmp_path, [3])
    write_checksums(tmp_path)
    path = tmp_path / "checksums.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ChecksumError, match=why):
        damaged_blocks(tmp_path)


def test_a_file_whose_list_of_checksums_is_cut_is_damaged(tmp_path: Path) -> None:
    write(tmp_path, [3 * BLOCK])
    write_checksums(tmp_path)
    path = tmp_path / "checksums.json"
    sums = json.loads(path.read_text())
    sums["files"]["f0"]["crc32"].pop()
    path.write_text(json.dumps(sums))
    assert damaged_blocks(tmp_path) == [FileBlock("f0", 1)]


@given(start=st.integers(0, 6 * BLOCK), length=st.integers(0, 3 * BLOCK))
@example(start=BLOCK, length=0)
@example(start=0, length=BLOCK)
def test_the_blocks_of_an_extent_hold_its_bytes(start: int, length: int) -> None:
    own = Extent("f", start, start + length)
    numbers = {at // BLOCK for at in range(start, start + max(1, length))}
    assert own.blocks == [FileBlock("f", number) for number in sorted(numbers)]
    assert blocks_of([own, own]) == {*own.blocks}
