"""Checksums of the files of a checkpoint, block by block, and the leaves that blocks belong to.

    state/checksums-0.json     of what process 0 wrote, and so on for every process
    state/checksums.json       of the files that are made once all processes have written

Files are summed after they are written, in the background. Blocks are verified when a checkpoint is
read, whatever plan it was saved under and is restored into: how files lie on disk does not depend
on who reads them. A block of a file of arrays holds the compressed chunks of one leaf or of several
small ones; which, the OCDBT tree of keys says (`tensorstore.ocdbt.dump`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tensorstore as ts
from pydantic import BaseModel, ConfigDict, ValidationError

#: Bytes that have a checksum of their own: few enough to tell most leaves apart.
BLOCK = 2**20
#: Blocks that a thread verifies at a time.
_RUN = 16
_NAME = "checksums"
#: Files that Orbax writes after the checksums; they say only when it wrote.
_BEHIND = ("commit_success.txt", "_CHECKPOINT_METADATA")


class ChecksumError(ValueError):
    """Checksums that cannot be read, or files that they do not fit."""


class _FileSums(BaseModel):
    """Size of a file in bytes, and the CRC-32 of each of its blocks."""

    model_config = ConfigDict(extra="forbid", strict=True)
    size: int
    crc32: list[int]


class _FolderSums(BaseModel):
    """Content of a file of checksums."""

    model_config = ConfigDict(extra="forbid", strict=True)
    block: int
    files: dict[str, _FileSums]


@dataclass(frozen=True, order=True)
class FileBlock:
    """Block `number` of a file, whose path is relative to the folder of checksums."""

    file: str
    number: int


@dataclass(frozen=True)
class Extent:
    """Bytes of a file from `start` to `end` that hold a part of a leaf."""

    file: str
    start: int
    end: int

    @property
    def blocks(self) -> list[FileBlock]:
        last = max(self.start, self.end - 1) // BLOCK
        return [FileBlock(self.file, number) for number in range(self.start // BLOCK, last + 1)]


def write_checksums(folder: Path, below: str = "", process: int | None = None) -> None:
    """Sum the files in `folder` that have no checksums yet.

    Args:
        below: only those of this subfolder.
        process: process that wrote the files; None for files made once all have written.
    """
    known = _read_known_files(folder)
    paths = sorted(path for path in (folder / below).rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in paths]
    unknown = [name for name in names if name not in known and not name.startswith(_NAME)]
    with ThreadPoolExecutor() as pool:
        files = dict(
            zip(unknown, pool.map(lambda name: _sum_file(folder / name), unknown), strict=True)
        )
    text = _FolderSums(block=BLOCK, files=files).model_dump_json()
    name = _NAME if process is None else f"{_NAME}-{process}"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def has_checksums(folder: Path) -> bool:
    """Whether there are checksums of the files in `folder`."""
    return any(folder.glob(f"{_NAME}*.json"))


def damaged_blocks(
    folder: Path,
    needed: Callable[[FileBlock], bool] = lambda block: True,
    share: tuple[int, int] = (0, 1),
) -> list[FileBlock]:
    """Blocks that are not as they were written; the last one of a file that has another size.

    Args:
        folder: folder with checksums.
        needed: blocks that are checked; by default all.
        share: number of this process and of all, which verify a part each.

    Raises:
        ChecksumError: the checksums themselves cannot be read, or some are lost.
    """
    files = _read_known_files(folder)
    if not (folder / f"{_NAME}.json").is_file():
        raise ChecksumError(f"{folder}/{_NAME}.json is missing")
    if unknown := sorted(_files_to_sum(folder) - files.keys()):
        raise ChecksumError(f"{folder}/{unknown[0]} has no checksum: a file of checksums is lost")
    resized = {
        _last_block(name, file) for name, file in files.items() if not _has_size(folder, name, file)
    }
    runs = [
        run for name, file in files.items() for run in _block_runs(name, len(file.crc32), needed)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        damaged = pool.map(partial(_damaged_blocks, folder, files), runs[share[0] :: share[1]])
    return sorted({*filter(needed, resized), *(block for blocks in damaged for block in blocks)})


def leaves_of(folder: Path, blocks: Collection[FileBlock]) -> list[str]:
    """Names of the leaves that have bytes in one of `blocks`.

    Raises:
        ChecksumError: the tree of keys cannot be read.
    """
    numbers = set(blocks)
    return [
        name
        for name, file_extents in leaf_extents(folder).items()
        if numbers & blocks_of(file_extents)
    ]


def blocks_of(file_extents: Collection[Extent]) -> set[FileBlock]:
    """Blocks that hold any of these bytes."""
    return {block for extent in file_extents for block in extent.blocks}


def leaf_extents(folder: Path) -> dict[str, list[Extent]]:
    """Places of the values of every leaf in the files of an item of arrays.

    Raises:
        ChecksumError: the tree of keys cannot be read.
    """
    by_leaf: dict[str, list[Extent]] = {}
    try:
        base = ts.KvStore.open(f"file://{folder.absolute()}/").result()
        manifest = ts.ocdbt.dump(base).result()
        for key, place in _tree_entries(base, manifest["versions"][-1]["root"]):
            leaf = key.decode().rpartition("/")[0]
            by_leaf.setdefault(leaf, []).append(_parse_extent(place))
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise ChecksumError(f"the tree of keys cannot be read: {error}") from error
    return by_leaf


def _tree_entries(
    base: ts.KvStore, node: dict[str, Any], prefix: bytes = b""
) -> Iterator[tuple[bytes, str]]:
    """Key and file of every value that is not stored in the tree itself."""
    if "location" not in node:
        return
    for entry in ts.ocdbt.dump(base, node["location"]).result()["entries"]:
        key = prefix + entry["key"]
        if "location" in entry:
            common = len(prefix) + entry.get("subtree_common_prefix_length", 0)
            yield from _tree_entries(base, entry, key[:common])
        elif "indirect_value" in entry:
            yield key, entry["indirect_value"]


def _parse_extent(place: str) -> Extent:
    """The place in `value:<folder>:<file>:<offset>:<length>`."""
    _, parent, file, offset, length = place.split(":")
    return Extent(f"{parent}{file}", int(offset), int(offset) + int(length))


def _files_to_sum(folder: Path) -> set[str]:
    """Paths of the files that should have checksums."""
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return {name for name in present if not name.startswith((_NAME, *_BEHIND))}


def _read_known_files(folder: Path) -> dict[str, _FileSums]:
    """All files that have checksums."""
    known: dict[str, _FileSums] = {}
    for path in sorted(folder.glob(f"{_NAME}*.json")):
        try:
            sums = _FolderSums.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            raise ChecksumError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
        if sums.block != BLOCK:
            raise ChecksumError(f"{path} has blocks of {sums.block} bytes, not of {BLOCK}")
        known |= sums.files
    return known


def _has_size(folder: Path, name: str, file: _FileSums) -> bool:
    path = folder / name
    blocks = -(-file.size // BLOCK)
    return path.is_file() and path.stat().st_size == file.size and len(file.crc32) == blocks


def _last_block(name: str, file: _FileSums) -> FileBlock:
    return FileBlock(name, max(0, len(file.crc32) - 1))


def _block_runs(
    name: str, count: int, needed: Callable[[FileBlock], bool]
) -> Iterator[list[FileBlock]]:
    """Blocks of a file that are needed, some of them at a time."""
    blocks = [block for number in range(count) if needed(block := FileBlock(name, number))]
    for at in range(0, len(blocks), _RUN):
        yield blocks[at : at + _RUN]


def _damaged_blocks(
    folder: Path, files: dict[str, _FileSums], run: list[FileBlock]
) -> list[FileBlock]:
    """The blocks that have changed among a run of blocks of one file."""
    file, path = files[run[0].file], folder / run[0].file
    if not path.is_file():
        return run
    buffer, damaged = memoryview(bytearray(BLOCK)), []
    with path.open("rb", buffering=0) as stream:
        for block in run:
            start = stream.seek(block.number * BLOCK)
            size = max(0, min(BLOCK, file.size - start))
            if _part_checksum(stream, buffer[:size]) != file.crc32[block.number]:
                damaged.append(block)
    return damaged


def _sum_file(path: Path) -> _FileSums:
    size, buffer = path.stat().st_size, memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as stream:
        ends = range(0, size, BLOCK)
        crc = [_part_checksum(stream, buffer[: min(BLOCK, size - start)]) for start in ends]
    return _FileSums(size=size, crc32=crc)


def _part_checksum(stream: Any, part: memoryview) -> int:
    """CRC-32 of the bytes that fill `part`, or of fewer at the end of the file."""
    filled = 0
    while filled < len(part) and (got := stream.readinto(part[filled:])):
        filled += got
    return zlib.crc32(part[:filled])
