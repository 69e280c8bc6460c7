"""Conversations with media as a source, whatever the format of the files that hold them."""

from __future__ import annotations

import hashlib
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig, FileSource
from data.faults import FaultKind
from data.media.file_bytes import FileBytes
from data.media.registry import MEDIA_TYPES
from data.quotes import printable, quoted
from data.rows.spec import Kind
from data.sample import MediaError, Sample, SampleError
from data.sources.formats.file_bytes import (
    LoadedBytes,
    MediaFolder,
    bare_base64,
    checked_path,
    data_uri,
    folder_of,
)
from data.sources.formats.records.keys import AllowedKeys, MetKeys, check_ignored
from data.sources.formats.records.record import RecordForm
from data.sources.formats.records.turns import Media, Reference, StoredMedium
from data.sources.formats.storage import SourceFile, home_of_files
from data.sources.source import SampleKey
from data.text.chat import marks_of

_VERSION = 4  # of what a record becomes
_NAME = 80  # characters of the name of a medium that is here
_SCHEME = 40  # characters within which an address says that it is one


class RecordList(ABC):
    """A finite list of records in files, the same in every process; it must be picklable.

    Args:
        files: files in the order of their records.
        ends: `[files]`: number of records in each file and all before it.
        media: folder that paths in records are relative to; None for that of the record's file.
    """

    def __init__(
        self, files: Sequence[SourceFile], ends: NDArray[np.int64], media: MediaFolder | None
    ) -> None:
        self.files, self.ends, self.media = tuple(files), ends, media
        folders = [posixpath.dirname(file.path) for file in self.files]
        self._folder = posixpath.commonpath(folders) if folders else ""

    def __len__(self) -> int:
        return int(self.ends[-1])

    @abstractmethod
    def read_record(self, index: int) -> tuple[object, Media | None]:
        """Record `index` as `RecordForm.parse_record` takes it, and media that come with it, if any
        do.

        Raises:
            SampleError: the record is not readable. StorageError: its file is not.
        """

    def close_record(self, index: int, contents: Collection[FileBytes]) -> MetKeys:
        """What comes with record `index` besides its keys, of which all must be read or harmless.

        Args:
            contents: media that were taken for the record.

        Raises:
            SampleError: something is neither; the message names it.
        """
        return MetKeys()

    def record_place(self, index: int) -> tuple[SourceFile, int]:
        """The file of record `index`, and its number in it. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        number = int(np.searchsorted(self.ends, index, side="right"))
        return self.files[number], index - (int(self.ends[number - 1]) if number else 0)

    def name(self, index: int) -> str:
        """`train.json[17]`: the file below the folder that all are in, and the record from 0 on."""
        file, number = self.record_place(index)
        return f"{self.relative_name(file)}[{number}]"

    def relative_name(self, file: SourceFile) -> str:
        """A file's path below the folder that all are in."""
        path = posixpath.relpath(file.path, self._folder) if self._folder else file.path
        return printable(path)

    def find_medium(self, index: int, path: str) -> FileBytes:
        """The file that record `index` means by a path."""
        return (self.media or folder_of(self.record_place(index)[0])).find_file(path)

    @property
    def content_fingerprint(self) -> str:
        """A fingerprint of the records, but for files of media."""
        return fingerprint_of(self.files)


class ConversationSet:
    """Records as a source of samples."""

    def __init__(self, records: RecordList, form: RecordForm, config: DataConfig) -> None:
        self._records, self._form = records, form
        self._config = config

    def __len__(self) -> int:
        return len(self._records)

    @property
    def files(self) -> Sequence[SourceFile]:
        """Files of the records."""
        return self._records.files

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of the records and of the way in which they are read."""
        form, records = self._form, self._records
        read = form.fields.model_dump_json(), form.marks, sorted(form.allowed.ignored)
        return f"{_VERSION} {records.content_fingerprint} {read} {self._media_folder}"

    @property
    def _media_folder(self) -> MediaFolder:
        """The folder of media, of the first record if every file has its own."""
        return self._records.media or folder_of(self._records.files[0])

    @property
    def home(self) -> Path:
        """See `Source.home`; it stays the same when the files change."""
        return home_of_files(self._config.cache, self._records.files)

    def name(self, index: int) -> str:
        """`train.json[17]`."""
        return self._records.name(index)

    def __getitem__(self, key: SampleKey) -> Sample:
        index, epoch = key
        name = self.name(index)
        record, attached = self._records.read_record(index)
        conversation = self._form.parse_record(name, record, attached)
        try:
            contents = {
                kind: self._media_bytes(index, kind, items)
                for kind, items in conversation.media.items()
            }
        except MediaError as error:
            raise SampleError(name, error.fault) from error
        others = self._records.close_record(
            index, [content for items in contents.values() for content in items]
        )
        media = {
            kind: tuple(self._open_medium(kind, content, epoch) for content in items)
            for kind, items in contents.items()
        }
        keys = (*conversation.met.read, *others.read), (*conversation.met.passed, *others.passed)
        return Sample(
            name, conversation.turns, media, conversation.encoders, keys, conversation.labels
        )

    def _open_medium(self, kind: Kind, content: FileBytes, epoch: int) -> Any:
        """A medium in a file, as it is in an epoch."""
        return MEDIA_TYPES[kind].draw(MEDIA_TYPES[kind].open(content, self._config), epoch)

    def _media_bytes(
        self, index: int, kind: Kind, references: Sequence[Reference]
    ) -> list[FileBytes]:
        names = [f"{kind} {number}" for number in range(len(references))]
        return [self._medium_bytes(index, *pair) for pair in zip(names, references, strict=True)]

    def _medium_bytes(self, index: int, name: str, reference: Reference) -> FileBytes:
        if isinstance(reference, FileBytes):
            return reference
        if isinstance(reference, bytes):
            return LoadedBytes(name, reference)
        if isinstance(reference, StoredMedium):
            if reference.bytes is not None:
                return LoadedBytes((reference.path or name)[:_NAME], reference.bytes)
            reference = reference.path or ""
        here = data_uri(reference) or bare_base64(reference, name)
        if here is None and "://" in reference[:_SCHEME]:
            raise MediaError(
                FaultKind.PLACE,
                f"{quoted(reference)} is a URL; media are not fetched from elsewhere; valid: "
                "a path within the folder of media, a data URI, or bytes",
            )
        return here or self._records.find_medium(index, checked_path(reference))


def form_of(options: FileSource, config: DataConfig) -> RecordForm:
    """The record form of a source. Raises DataError: `ignore` names keys that are read."""
    form = RecordForm(options.fields, marks_of(config), AllowedKeys(frozenset(options.ignore)))
    check_ignored(options.ignore, form.all_fields)
    return form


def fingerprint_of(files: Sequence[SourceFile]) -> str:
    """A fingerprint of files by their names, sizes and stamps; their contents are not read."""
    listed = repr([(file.path, file.size, file.stamp) for file in files])
    return hashlib.sha256(listed.encode()).hexdigest()
