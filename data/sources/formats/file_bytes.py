"""Places of the bytes of images and clips, with the checks that untrusted names need."""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote

from data.credentials import hidden
from data.faults import FaultKind
from data.media.file_bytes import FileBytes
from data.media.registry import MEDIA_TYPES
from data.quotes import quoted
from data.sample import DataError, MediaError, StorageError
from data.sources.formats.patience import PatientFileSystem
from data.sources.formats.storage import SourceFile, local_path, open_remote, remote_file

_DATA_URI = "data:"
#: The characters of RFC 4648, 5, that stand for others of its section 4.
_ALPHABET = str.maketrans("-_", "+/")
#: Least characters of base64, and most of a path.
_LEAST, _LONGEST = 64, 4096
#: First characters of the base64 of a file of each kind, as far as its first bytes decide them.
_HEADS = tuple(
    base64.b64encode(head).decode()[: len(head) * 8 // 6]
    for kind in MEDIA_TYPES.values()
    for head in kind.heads
)


@dataclass(frozen=True)
class LoadedBytes(FileBytes):
    """Bytes that are here already."""

    name: str
    data: bytes = field(repr=False)

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        """See `FileBytes.open`."""
        yield io.BytesIO(self.data)


@dataclass(frozen=True)
class FilePart(FileBytes):
    """`size` bytes of a larger file, from `start` on."""

    name: str
    file: SourceFile
    start: int
    size: int

    def open(self, chunk: int) -> AbstractContextManager[BinaryIO]:
        """See `FileBytes.open`."""
        return self.file.open(chunk, self.start, self.size)


def data_uri(text: str) -> LoadedBytes | None:
    """The contents of `data:image/png;base64,...`; None for another text.

    Raises:
        MediaError: the URI cannot be read.
    """
    if text[: len(_DATA_URI)].lower() != _DATA_URI:
        return None
    head, comma, body = text.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise MediaError(
            FaultKind.RECORD, f"{quoted(head, 40)} begins a data URI that is not in base64"
        )
    try:
        return LoadedBytes(head[:40], _from_base64(body))
    except ValueError as error:
        reason = f"what follows {quoted(head, 40)} is not base64: {error}"
        raise MediaError(FaultKind.RECORD, reason) from error


def bare_base64(text: str, name: str) -> LoadedBytes | None:
    """The contents of a medium in base64 without the head of a data URI; None for another text.

    A text is taken for one if it decodes to the first bytes of a file of some kind of media.
    """
    if len(text) < _LEAST or not text[:_LEAST].translate(_ALPHABET).startswith(_HEADS):
        return None
    try:
        return LoadedBytes(name, _from_base64(text))
    except ValueError:
        return None


def _from_base64(text: str) -> bytes:
    """Bytes in base64 of either alphabet (RFC 4648, 4 and 5), as people and programs write it.

    White space, escapes of URIs and missing `=` at the end are no errors. Raises ValueError.
    """
    plain = "".join(unquote(text).split()).translate(_ALPHABET)
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def checked_path(text: str) -> str:
    """A text that may be a path. Raises MediaError: it is too long to be one."""
    if len(text) > _LONGEST:
        raise MediaError(
            FaultKind.PLACE,
            f"{quoted(text, 40)} is no path, nor a medium in base64; valid: a path, a data URI "
            "(data:image/png;base64,...), the base64 of a file, or bytes",
        )
    return text


# ---- folders -------------------------------------------------------------------------------------


class MediaFolder(ABC):
    """A folder that paths in records are relative to."""

    @abstractmethod
    def find_file(self, name: str) -> FileBytes:
        """The file `name`, which is looked at only when it is opened."""

    @abstractmethod
    def __str__(self) -> str:
        """The folder by itself, for fingerprints and messages."""


def media_folder(place: str, retry_seconds: float = 0.0) -> MediaFolder:
    """The folder at a path or URL.

    Args:
        retry_seconds: as in `storage.open_remote`.

    Raises:
        DataError: the place is no folder, or its file system is not available.
    """
    path = local_path(place)
    if path is None:
        return RemoteFolder(*open_remote(place, retry_seconds))
    if not path.is_dir():
        raise DataError(f"data.source.media: {path} is not a folder")
    return LocalFolder(path)


def folder_of(file: SourceFile) -> MediaFolder:
    """The folder that a file is in."""
    if file.system is None:
        return LocalFolder(Path(file.path).parent)
    return RemoteFolder(file.system, file.path.rpartition("/")[0])


@dataclass(frozen=True)
class LocalFolder(MediaFolder):
    """A folder of this machine."""

    root: Path

    def find_file(self, name: str) -> FileBytes:
        """See `MediaFolder.find_file`."""
        return _LocalMember(self.root, name)

    def __str__(self) -> str:
        return str(self.root.resolve())


@dataclass(frozen=True)
class RemoteFolder(MediaFolder):
    """A folder that fsspec reads."""

    system: PatientFileSystem
    root: str

    def find_file(self, name: str) -> FileBytes:
        """See `MediaFolder.find_file`."""
        return _RemoteMember(self.system, self.root, name)

    def __str__(self) -> str:
        return str(self.system.unstrip_protocol(self.root))


@dataclass(frozen=True)
class _LocalMember(FileBytes):
    root: Path
    name: str

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        path = path_inside(self.root, self.name)
        try:
            file = path.open("rb")
        except OSError as error:
            raise MediaError(
                FaultKind.CLOSED, f"{quoted(self.name)} cannot be opened: {error}"
            ) from error
        with file:
            yield file


@dataclass(frozen=True)
class _RemoteMember(FileBytes):
    system: PatientFileSystem
    root: str
    name: str

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        check_relative(self.name)
        path = f"{self.root.rstrip('/')}/{self.name}"
        with self._remote_file(path).open(chunk) as file:
            yield file

    def _remote_file(self, path: str) -> SourceFile:
        try:
            file = remote_file(self.system, path)
        except FileNotFoundError as error:
            message = f"{quoted(self.name)} is missing in the media folder {self.root}"
            raise MediaError(FaultKind.MISSING, message) from error
        except StorageError:
            raise
        except Exception as error:  # every file system has errors of its own
            reason = hidden(f"cannot reach {path}: {type(error).__name__}: {error}")
            raise StorageError(reason) from error
        if file is None:
            message = f"{quoted(self.name)} is not a regular file in the media folder {self.root}"
            raise MediaError(FaultKind.MISSING, message)
        return file


def check_relative(name: str) -> None:
    """Refuse a name that leads out of its folder.

    Raises:
        MediaError: the path is empty, absolute, a URL, or has a part "..".
    """
    parts = PurePosixPath(name).parts
    if not parts or "\0" in name:
        raise MediaError(FaultKind.PLACE, f"{quoted(name)} is not a usable path")
    if "://" in name:
        raise MediaError(
            FaultKind.PLACE,
            f"{quoted(name)} is a URL; media are read from the folder of media alone; valid: a "
            "path within it, a data URI, or bytes",
        )
    if name.startswith("/") or ".." in parts or "\\" in name:
        raise MediaError(
            FaultKind.PLACE,
            f"{quoted(name)} is outside of the media folder; valid: a path within it",
        )


def path_inside(root: Path, name: str) -> Path:
    """The file `name` of the folder `root`, symbolic links followed.

    Raises:
        MediaError: the file is missing, not regular, or outside of `root` (by "..", by an absolute
            path or through a link).
    """
    try:
        path = (root / name).resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, null byte, loop of links
        raise MediaError(
            FaultKind.PLACE, f"{quoted(name)} is not a usable path: {error}"
        ) from error
    if not path.is_relative_to(root.resolve()):
        raise MediaError(FaultKind.PLACE, f"{quoted(name)} is outside of the media folder {root}")
    if not is_file:
        kind = "not a regular file" if path.exists() else "missing"
        raise MediaError(FaultKind.MISSING, f"{quoted(name)} is {kind} in the media folder {root}")
    return path
