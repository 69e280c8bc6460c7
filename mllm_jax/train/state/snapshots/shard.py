"""A shard of a snapshot: the parts of arrays that one process held, in two files.

::

    <folder>/<holder>/<origin>/<slot>/data         parts, one after the other
                                     /index.json   what they are, with checksums: written last

`origin` is the process whose devices held the parts, `holder` the process that stores them: the
same one, or a peer that stores a replica. There are two slots, so that a complete snapshot remains
while the next one is written. Files are overwritten, never replaced: their memory is reserved once.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from mllm_jax.train.state.snapshots.array_box import ArrayBox

logger = logging.getLogger(__name__)

#: Parts begin at multiples of this number of bytes.
_ALIGNED = 64
#: The most that a system call writes.
_MOST = 2**30
_DATA, _INDEX = "data", "index.json"


class ShardError(Exception):
    """A shard that cannot be read, or has changed since it was written."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShardPart(_StrictModel):
    """A part of an array in a shard's data.

    Attributes:
        start: first indices in the array.
        stop: indices after the last ones.
        offset: where it begins in the data, in bytes.
        crc32: CRC-32 of its bytes.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    offset: int
    crc32: int = 0

    @property
    def box(self) -> ArrayBox:
        """The part of the array."""
        return ArrayBox(self.start, self.stop)


class ShardLeaf(_StrictModel):
    """The parts of one array.

    Attributes:
        shape: shape of the whole array.
        dtype: its data type.
        parts: parts of it in this shard.
    """

    shape: tuple[int, ...]
    dtype: str
    parts: tuple[ShardPart, ...]

    def bytes_of(self, box: ArrayBox) -> int:
        """Size of a part in bytes."""
        return box.size * np.dtype(self.dtype).itemsize


class ShardOrigin(_StrictModel):
    """Where a shard comes from.

    Attributes:
        run: identity of the run.
        folder: folder of the run, for messages.
        series: the snapshots that one start of the run has taken, which are of one plan.
        step: step after which the snapshot was taken.
        process: number of the process that held the parts.
    """

    run: str
    folder: str
    series: str
    step: int
    process: int


class ShardIndex(_StrictModel):
    """What is in a shard.

    Attributes:
        origin: where it comes from.
        progress: progress of the run, as JSON.
        config: its configuration, as JSON.
        leaves: arrays by name.
    """

    origin: ShardOrigin
    progress: dict[str, Any]
    config: dict[str, Any]
    leaves: dict[str, ShardLeaf]

    @property
    def bytes(self) -> int:
        """Bytes of the data."""
        ends = (part.offset + leaf.bytes_of(part.box) for leaf, part in self.parts)
        return max(ends, default=0)

    @property
    def parts(self) -> Iterator[tuple[ShardLeaf, ShardPart]]:
        """All parts in their order, each with its leaf."""
        return ((leaf, part) for leaf in self.leaves.values() for part in leaf.parts)

    def without_parts(self, boxes: Mapping[str, Iterable[ArrayBox]]) -> ShardIndex:
        """The index of a shard without these parts of leaves, with offsets of fewer data."""
        left = {
            name: [part for part in leaf.parts if part.box not in boxes.get(name, ())]
            for name, leaf in self.leaves.items()
        }
        return self.model_copy(update={"leaves": lay_out_parts(self.leaves, left)})


def lay_out_parts(
    leaves: Mapping[str, ShardLeaf], parts: Mapping[str, Iterable[ShardPart]]
) -> dict[str, ShardLeaf]:
    """Leaves with these parts, whose offsets place one after the other."""
    at, laid = 0, {}
    for name, leaf in leaves.items():
        laid_parts = []
        for part in parts[name]:
            laid_parts.append(part.model_copy(update={"offset": at}))
            at += -(-leaf.bytes_of(part.box) // _ALIGNED) * _ALIGNED
        laid[name] = leaf.model_copy(update={"parts": tuple(laid_parts)})
    return laid


@dataclass(frozen=True)
class Shard:
    """A shard and its folder."""

    folder: Path

    @property
    def holder(self) -> int:
        """The process that has written it."""
        return int(self.folder.parts[-3])

    @property
    def origin(self) -> int:
        """The process whose parts it has."""
        return int(self.folder.parts[-2])

    @property
    def slot(self) -> int:
        """0 or 1."""
        return int(self.folder.parts[-1])

    def reserve_memory(self, size: int) -> None:
        """Invalidate the content, and reserve memory for `size` bytes.

        Raises:
            OSError: there is no room.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / _INDEX).unlink(missing_ok=True)
        path = self.folder / _DATA
        lacking = size - (path.stat().st_size if path.exists() else 0)
        if lacking > 0:
            free = shutil.disk_usage(self.folder).free
            if free < lacking:
                message = f"{free / 2**20:.0f} MiB are free, and {lacking / 2**20:.0f} MiB needed"
                raise OSError(errno.ENOSPC, f"no room: {message}", str(self.folder))
        with path.open("ab") as file:
            os.ftruncate(file.fileno(), size)
            if size:
                os.posix_fallocate(file.fileno(), 0, size)

    def write(self, parts: Iterable[tuple[int, Callable[[], np.ndarray]]]) -> None:
        """Write arrays at their offsets, several at once.

        Raises:
            OSError: the folder is gone, or its disk is at fault.
        """
        with (self.folder / _DATA).open("r+b") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(_write_at, file.fileno(), at, make) for at, make in parts]:
                done.result()

    def complete_with(self, index: ShardIndex) -> ShardIndex:
        """Write the index with checksums of the data, which completes the shard.

        Raises:
            OSError: as of `write`.
        """
        parts = {
            name: tuple(
                part.model_copy(update={"crc32": self._checksum_of(leaf, part)})
                for part in leaf.parts
            )
            for name, leaf in index.leaves.items()
        }
        leaves = {
            name: leaf.model_copy(update={"parts": parts[name]})
            for name, leaf in index.leaves.items()
        }
        complete = index.model_copy(update={"leaves": leaves})
        self.write_index(complete)
        return complete

    def write_index(self, index: ShardIndex) -> None:
        """Write the index of data that are there.

        Raises:
            OSError: as of `write`.
        """
        text = index.model_dump_json()
        unfinished = self.folder / f".{_INDEX}"
        unfinished.write_text(f"{zlib.crc32(text.encode())}\n{text}")
        unfinished.rename(self.folder / _INDEX)

    def index(self) -> ShardIndex:
        """What is in the shard.

        Raises:
            ShardError: it was never completed, or has changed.
        """
        try:
            checksum, _, text = (self.folder / _INDEX).read_text().partition("\n")
            if checksum != str(zlib.crc32(text.encode())):
                raise ShardError(f"{self.folder / _INDEX} has changed since it was written")
            return ShardIndex.model_validate_json(text)
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise ShardError(f"{self.folder / _INDEX} cannot be read: {error}") from error

    def read(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        """Values of a part, verified.

        Raises:
            ShardError: they have changed since they were written.
        """
        return verify_part(self.raw_bytes(leaf, part), leaf, part, str(self.folder / _DATA))

    def raw_bytes(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        """Bytes of a part, as they are.

        Raises:
            ShardError: they are not there.
        """
        size = leaf.bytes_of(part.box)
        try:
            content = np.fromfile(self.folder / _DATA, np.uint8, size, offset=part.offset)
        except OSError as error:
            raise ShardError(f"{self.folder / _DATA} cannot be read: {error}") from error
        if len(content) != size:
            raise ShardError(f"{self.folder / _DATA} is cut short")
        return content

    def remove(self) -> None:
        """Remove the shard."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _checksum_of(self, leaf: ShardLeaf, part: ShardPart) -> int:
        try:
            return zlib.crc32(self.raw_bytes(leaf, part).data)
        except ShardError as error:
            raise OSError(str(error)) from error


def shard_in(folder: Path, holder: int, origin: int, slot: int) -> Shard:
    """The shard of `origin` that `holder` stores in a slot below `folder`."""
    return Shard(folder / str(holder) / str(origin) / str(slot))


def verify_part(content: np.ndarray, leaf: ShardLeaf, part: ShardPart, where: str) -> np.ndarray:
    """Values of the bytes of a part.

    Raises:
        ShardError: they have changed since they were written.
    """
    if zlib.crc32(content.data) != part.crc32:
        raise ShardError(f"{where}: {part.box} has changed since it was written")
    return content.view(np.dtype(leaf.dtype)).reshape(part.box.shape)


def complete_shards(folder: Path) -> Iterator[tuple[Shard, ShardIndex]]:
    """All shards below `folder` that are complete."""
    for path in sorted(folder.glob(f"[0-9]*/[0-9]*/[01]/{_INDEX}")):
        shard = Shard(path.parent)
        try:
            yield shard, shard.index()
        except ShardError as error:
            if path.exists():  # and was not written over by another process meanwhile
                logger.warning("a snapshot in memory is left out: %s", error)


def _write_at(file: int, at: int, make: Callable[[], np.ndarray]) -> None:
    content = np.ascontiguousarray(make()).reshape(-1).view(np.uint8).data
    while content:
        written = os.pwrite(file, content[:_MOST], at)
        content, at = content[written:], at + written
