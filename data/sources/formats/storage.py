"""Files of a data set: in local folders, or at any URL that fsspec knows.

A place is a path or a URL (`s3://...`, `gs://...`, `hf://...`, `file://...`, `memory://...`). Local
files are read by the operating system, all others by the file system that fsspec has for the URL.
"""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import fsspec

from data.credentials import hidden
from data.sample import DataError, StorageError, UnreachableError
from data.sources.cache import home_of
from data.sources.formats.patience import PatientFileSystem, call_patiently, timeout_options
from data.waits import SOURCE

_REMOTE = re.compile(r"[\w.+-]+(://|::)")
#: Names in file systems of the stamp that changes with a file's contents, the surest first.
_STAMPS = (
    *("ETag", "etag", "md5Hash", "generation", "mtime"),
    *("LastModified", "Last-Modified", "updated", "created"),
)
#: `train-00003-of-00016.parquet`, as hubs name the shards of a split.
_SPLIT = re.compile(r"(.+)-\d{5}-of-\d{5}\.")


def local_path(place: str) -> Path | None:
    """The local path that `place` is; None for one that is elsewhere."""
    if place.startswith("file://"):
        return Path(place.removeprefix("file://"))
    return None if _REMOTE.match(place) else Path(place)


def open_remote(
    place: str, retry_seconds: float, key: str = SOURCE
) -> tuple[PatientFileSystem, str]:
    """The file system of a URL, and the path in it.

    Args:
        retry_seconds: seconds for which whatever is asked of the file system is tried again.
        key: key of the configuration that names the place, for messages.

    Raises:
        DataError: fsspec does not know the protocol, or what it needs for it is not installed.
        UnreachableError: the file system connects as it is opened, and stays out of reach.
    """

    def open_connection() -> tuple[Any, str]:
        system, path = fsspec.core.url_to_fs(place, **timeout_options(place, retry_seconds))
        return system, str(path)

    try:
        system, path = call_patiently(open_connection, lambda: hidden(place), retry_seconds, key)
    except UnreachableError:
        raise
    except Exception as error:  # every file system has errors of its own
        raise DataError(hidden(f"{key}: cannot open {place}: {error}")) from error
    url = place.rstrip("/")
    head = url.removesuffix(path) if path and url.endswith(path) else None
    return PatientFileSystem(system, retry_seconds, key, head), path


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when it was listed.

    Attributes:
        path: path in the file system.
        size: bytes.
        stamp: changes with the contents: an etag, or the time of the last change.
        system: file system of fsspec, None for a local file.
    """

    path: str
    size: int
    stamp: str
    system: PatientFileSystem | None = None

    @property
    def name(self) -> str:
        """The last component of its path."""
        return PurePosixPath(self.path).name

    def read(self, start: int, size: int) -> bytes:
        """Bytes from `start` on.

        Raises:
            StorageError: the file cannot be read, or ends before. UnreachableError: its place
                stays out of reach.
        """
        try:
            data = self._read_range(start, size)
        except StorageError:
            raise
        except Exception as error:  # every file system has errors of its own
            raise StorageError(
                hidden(f"cannot read {self.path}: {type(error).__name__}: {error}")
            ) from error
        if len(data) != size:
            raise StorageError(
                f"{self.path} ends {size - len(data)} bytes before byte {start + size}: it has "
                "changed, or is not whole"
            )
        return data

    def _read_range(self, start: int, size: int) -> bytes:
        if self.system is not None:
            # Some file systems take an empty range for an open one.
            return self.system.cat_file(self.path, start, start + size) if size else b""
        with Path(self.path).open("rb") as file:
            file.seek(start)
            return file.read(size)

    @contextmanager
    def open(self, chunk: int, start: int = 0, size: int | None = None) -> Iterator[BinaryIO]:
        """`size` bytes from `start` on as a file of their own, fetched `chunk` bytes at a time.

        Raises:
            StorageError: at the end, if a read has failed: to the reader the file just ended there,
                as libraries written in C do not let exceptions through.
        """
        ranges = FileRanges(self, start, self.size - start if size is None else size)
        try:
            with io.BufferedReader(ranges, max(1, min(chunk, ranges.size))) as file:
                yield file
        finally:
            if ranges.failure is not None:
                raise ranges.failure


class FileRanges(io.RawIOBase):
    """`size` bytes of a file from `start` on, as a file; `failure` is why it ended early."""

    def __init__(self, file: SourceFile, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._at, self.size = file, start, 0, size
        self.failure: StorageError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = max(0, min(len(buffer), self.size - self._at))
        if self.failure is not None or not size:
            return 0
        try:
            data = self._file.read(self._start + self._at, size)
        except StorageError as error:
            self.failure = error
            return 0
        buffer[:size] = data
        self._at += size
        return size


# ---- finding -------------------------------------------------------------------------------------


def find_files(
    place: str, suffixes: Sequence[str], retry_seconds: float = 0.0
) -> tuple[SourceFile, ...]:
    """The files that `place` names, in the order of their paths.

    Args:
        place: a file, a folder (all files in it with one of `suffixes`, however deep, but hidden
            ones), or a pattern with `*`, `?` or `[...]`.
        suffixes: such as `.parquet`.
        retry_seconds: as in `open_remote`, also for whoever reads the files.

    Raises:
        UnreachableError: the place stays out of reach.
        DataError: there is none, they are of several splits, or the place cannot be listed.
    """
    path = local_path(place)
    try:
        if path is not None:
            files = _local_files(path, suffixes)
        else:
            files = _remote_files(*open_remote(place, retry_seconds), suffixes)
    except DataError:
        raise
    except Exception as error:  # every file system has errors of its own
        raise DataError(hidden(f"data.source: cannot list {place}: {error}")) from error
    if not files:
        raise DataError(
            f"data.source: cannot read {place}: no such file, nor a folder of "
            + " or ".join(suffixes)
        )
    _check_one_split(place, files)
    return files


def _local_files(path: Path, suffixes: Sequence[str]) -> tuple[SourceFile, ...]:
    if path.is_dir():
        paths = [f for f in path.rglob("*") if _has_suffix(str(f.relative_to(path)), suffixes)]
    elif glob.has_magic(str(path)) and not path.exists():
        anchor = Path(path.anchor)
        paths = list(anchor.glob(str(path.relative_to(anchor))))
    else:
        paths = [path]
    return tuple(local_file(f) for f in sorted(paths) if f.is_file())


def home_of_files(cache: Path, files: Sequence[SourceFile]) -> Path:
    """The folder for what is derived from files; it stays the same when these change."""
    return home_of(cache, [file.path for file in files])


def local_file(path: Path) -> SourceFile:
    """A local file as it is now. Raises OSError."""
    status = path.stat()
    return SourceFile(str(path), status.st_size, str(status.st_mtime_ns))


def _remote_files(
    system: PatientFileSystem, path: str, suffixes: Sequence[str]
) -> tuple[SourceFile, ...]:
    # Not `exists`, which takes a place that is out of reach for one that is not there.
    info = _file_info(system, path)
    if info is None:
        infos = system.glob(path, detail=True) if glob.has_magic(path) else {}
    elif info["type"] == "directory" or system.isdir(path):
        under = len(path.rstrip("/"))
        infos = system.find(path, detail=True)
        infos = {
            p: info for p, info in infos.items() if _has_suffix(p[under:].lstrip("/"), suffixes)
        }
    else:
        infos = {path: info}
    return tuple(
        _remote_file(system, p, infos[p]) for p in sorted(infos) if infos[p]["type"] != "directory"
    )


def _file_info(system: PatientFileSystem, path: str) -> Any:
    """What the file system says of a file or folder; None if it is not there."""
    try:
        return system.info(path)
    except FileNotFoundError:
        return None


def remote_file(system: PatientFileSystem, path: str) -> SourceFile | None:
    """A file that fsspec reads as it is now; None if there is a folder.

    Raises:
        UnreachableError: the place stays out of reach. FileNotFoundError: there is nothing. Others:
            those of the file system.
    """
    info = system.info(path)
    return None if info["type"] == "directory" else _remote_file(system, path, info)


def _remote_file(system: PatientFileSystem, path: str, info: dict[str, Any]) -> SourceFile:
    stamp = next((f"{key} {info[key]}" for key in _STAMPS if info.get(key) is not None), "")
    return SourceFile(path, int(info["size"]), stamp, system)


def _has_suffix(relative: str, suffixes: Sequence[str]) -> bool:
    parts = PurePosixPath(relative).parts
    return relative.endswith(tuple(suffixes)) and not any(part.startswith(".") for part in parts)


def _check_one_split(place: str, files: Sequence[SourceFile]) -> None:
    """Refuse a folder of `train-...` and `test-...` shards: nobody wants to train on both."""
    splits = {match[1]: f for f in files if (match := _SPLIT.match(f.name))}
    if len(splits) > 1:
        names = ", ".join(sorted(splits))
        raise DataError(
            f"data.source: {place} holds the splits {names}; valid: a pattern for one of them, "
            f"such as {place.rstrip('/')}/{min(splits)}-*"
        )
