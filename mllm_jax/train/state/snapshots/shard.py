"""A share of a snapshot: the pieces of the state that one process held, in two files.

::

    <folder>/<holder>/<origin>/<slot>/data         pieces, one behind the other
                                     /index.json   what they are, with checksums: written last

`origin` is the process that held the pieces, `holder` the process that keeps them: the same one, or
a neighbour. There are two slots, so that a snapshot is whole while the next one is written. Files
are written over again, never replaced: their memory is taken once.
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

#: Pieces begin at multiples of this number of bytes.
_ALIGNED = 64
#: The most that a system call writes.
_MOST = 2**30
_DATA, _INDEX = "data", "index.json"


class ShardError(Exception):
    """A share that cannot be read, or is not as it was written."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShardPart(_StrictModel):
    """A piece in a share's data.

    Attributes:
        start: first indices in the array.
        stop: indices behind the last ones.
        offset: place in bytes.
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
    """The pieces of one array.

    Attributes:
        shape: shape of the whole array.
        dtype: its data type.
        pieces: pieces of it in this share.
    """

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[ShardPart, ...]

    def bytes_of(self, box: ArrayBox) -> int:
        """Bytes of a piece."""
        return box.size * np.dtype(self.dtype).itemsize


class ShardOrigin(_StrictModel):
    """Where a share comes from.

    Attributes:
        run: identity of the run.
        folder: folder of the run, for messages.
        series: the snapshots that one start of the run has taken, which are of one plan.
        step: step after which the snapshot was taken.
        process: number of the process that held the pieces.
    """

    run: str
    folder: str
    series: str
    step: int
    process: int


class ShardIndex(_StrictModel):
    """What is in a share.

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
        ends = (piece.offset + leaf.bytes_of(piece.box) for leaf, piece in self.pieces)
        return max(ends, default=0)

    @property
    def pieces(self) -> Iterator[tuple[ShardLeaf, ShardPart]]:
        """All pieces in their order, each with its leaf."""
        return ((leaf, piece) for leaf in self.leaves.values() for piece in leaf.pieces)

    def without_parts(self, boxes: Mapping[str, Iterable[ArrayBox]]) -> ShardIndex:
        """The index of a share without these pieces of leaves; its data lie closer together."""
        left = {
            name: [piece for piece in leaf.pieces if piece.box not in boxes.get(name, ())]
            for name, leaf in self.leaves.items()
        }
        return self.model_copy(update={"leaves": laid_out(self.leaves, left)})


def laid_out(
    leaves: Mapping[str, ShardLeaf], pieces: Mapping[str, Iterable[ShardPart]]
) -> dict[str, ShardLeaf]:
    """Leaves with these pieces, one behind the other."""
    at, laid = 0, {}
    for name, leaf in leaves.items():
        laid_pieces = []
        for piece in pieces[name]:
            laid_pieces.append(piece.model_copy(update={"offset": at}))
            at += -(-leaf.bytes_of(piece.box) // _ALIGNED) * _ALIGNED
        laid[name] = leaf.model_copy(update={"pieces": tuple(laid_pieces)})
    return laid


@dataclass(frozen=True)
class Shard:
    """The folder of a share."""

    folder: Path

    @property
    def holder(self) -> int:
        """The process that has written it."""
        return int(self.folder.parts[-3])

    @property
    def origin(self) -> int:
        """The process whose pieces it has."""
        return int(self.folder.parts[-2])

    @property
    def slot(self) -> int:
        """0 or 1."""
        return int(self.folder.parts[-1])

    def reserve_memory(self, size: int) -> None:
        """Declare the content void, and take memory for `size` bytes.

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
        """Sum the data and write the index, which completes the shard.

        Raises:
            OSError: as of `write`.
        """
        pieces = {
            name: tuple(
                piece.model_copy(update={"crc32": self._checksum_of(leaf, piece)})
                for piece in leaf.pieces
            )
            for name, leaf in index.leaves.items()
        }
        leaves = {
            name: leaf.model_copy(update={"pieces": pieces[name]})
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
        part = self.folder / f".{_INDEX}"
        part.write_text(f"{zlib.crc32(text.encode())}\n{text}")
        part.rename(self.folder / _INDEX)

    def index(self) -> ShardIndex:
        """What is in the share.

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

    def read(self, leaf: ShardLeaf, piece: ShardPart) -> np.ndarray:
        """Values of a piece, verified.

        Raises:
            ShardError: they have changed since they were written.
        """
        return verify_part(self.raw_bytes(leaf, piece), leaf, piece, str(self.folder / _DATA))

    def raw_bytes(self, leaf: ShardLeaf, piece: ShardPart) -> np.ndarray:
        """Bytes of a piece, as they are.

        Raises:
            ShardError: they are not there.
        """
        size = leaf.bytes_of(piece.box)
        try:
            content = np.fromfile(self.folder / _DATA, np.uint8, size, offset=piece.offset)
        except OSError as error:
            raise ShardError(f"{self.folder / _DATA} cannot be read: {error}") from error
        if len(content) != size:
            raise ShardError(f"{self.folder / _DATA} is cut short")
        return content

    def remove(self) -> None:
        """Remove the share."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _checksum_of(self, leaf: ShardLeaf, piece: ShardPart) -> int:
        try:
            return zlib.crc32(self.raw_bytes(leaf, piece).data)
        except ShardError as error:
            raise OSError(str(error)) from error


def shard_in(folder: Path, holder: int, origin: int, slot: int) -> Shard:
    """The share of `origin` that `holder` keeps in a slot below `folder`."""
    return Shard(folder / str(holder) / str(origin) / str(slot))


def verify_part(content: np.ndarray, leaf: ShardLeaf, piece: ShardPart, where: str) -> np.ndarray:
    """Values of the bytes of a piece.

    Raises:
        ShardError: they have changed since they were written.
    """
    if zlib.crc32(content.data) != piece.crc32:
        raise ShardError(f"{where}: {piece.box} has changed since it was written")
    return content.view(np.dtype(leaf.dtype)).reshape(piece.box.shape)


def complete_shards(folder: Path) -> Iterator[tuple[Shard, ShardIndex]]:
    """All shares below `folder` that are complete."""
    for path in sorted(folder.glob(f"[0-9]*/[0-9]*/[01]/{_INDEX}")):
        local_share = Shard(path.parent)
        try:
            yield local_share, local_share.index()
        except ShardError as error:
            if path.exists():  # and was not written over by another process meanwhile
                logger.warning("a snapshot in memory is left out: %s", error)


def _write_at(file: int, at: int, make: Callable[[], np.ndarray]) -> None:
    content = np.ascontiguousarray(make()).reshape(-1).view(np.uint8).data
    while content:
        written = os.pwrite(file, content[:_MOST], at)
        content, at = content[written:], at + written
