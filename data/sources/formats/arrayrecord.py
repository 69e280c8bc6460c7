"""Records in ArrayRecord files: each a msgpack map, media as bytes in it, or as paths.

`records/record.py` says what a record is. The library reads local files alone; of a
file at a URL a copy is kept in `data.cache`.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgpack
import numpy as np
from array_record.python.array_record_module import ArrayRecordReader

from data.config import ArrayRecordSource, DataConfig
from data.faults import FaultKind, SampleFault
from data.sample import DataError, SampleError
from data.sources.formats.conversations import ConversationSet, RecordList, fingerprint_of, form_of
from data.sources.formats.copies import local_copy
from data.sources.formats.file_bytes import MediaFolder, media_folder
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.formats.records.turns import Media
from data.sources.formats.storage import SourceFile, find_files, home_of_files

logger = logging.getLogger(__name__)

_SUFFIXES = (".array_record", ".arrayrecord")
#: The library reads nothing ahead, as the next requested record is elsewhere.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
_BUFFER = 1 << 15  # bytes
_KEPT = 32  # files that are open
#: Errors of the library for damaged files (its C++ half raises any standard exception).
_ERRORS = (RuntimeError, ValueError, IndexError, MemoryError, OSError)


def open_arrayrecord(config: DataConfig, options: ArrayRecordSource, path: str) -> ConversationSet:
    """The records at `path`.

    Raises:
        DataError: no such file, one that is damaged or no ArrayRecord file, or no room for a copy.
    """
    files, form = (
        find_files(path, _SUFFIXES, options.retry_seconds),
        form_of(options, config),
    )
    what = f"arrayrecord {fingerprint_of(files)}"
    home = home_of_files(config.cache, files)
    index = open_index(home, what, ("ends",), lambda: _build_index(files, config.cache))
    media = None if options.media is None else media_folder(options.media, options.retry_seconds)
    return ConversationSet(PackedRecords(files, index, media, config.cache), form, config)


class PackedRecords(RecordList):
    """Records in ArrayRecord files; index: `ends` as of `RecordList`."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        index: RecordIndex,
        media: MediaFolder | None,
        cache: Path,
    ) -> None:
        super().__init__(files, index["ends"], media)
        self._index, self._cache = index, cache
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return PackedRecords, (self.files, self._index, self.media, self._cache)

    def read_record(self, index: int) -> tuple[object, Media | None]:
        """See `RecordList.read_record`."""
        file, number = self.record_place(index)
        with self._lock:
            reader = self._open_reader(file)
        try:
            return msgpack.unpackb(reader.read([number])[0], strict_map_key=True), None
        except (*_ERRORS, msgpack.UnpackException) as error:
            raise SampleError(
                self.name(index), SampleFault(FaultKind.RECORD, f"not msgpack: {error}")
            ) from error

    def _open_reader(self, file: SourceFile) -> Any:
        if file.path not in self._open:
            self._open[file.path] = _open_file(file, self._cache)
            if len(self._open) > _KEPT:
                self._open.popitem(last=False)
        self._open.move_to_end(file.path)
        return self._open[file.path]


def _build_index(files: Sequence[SourceFile], cache: Path) -> Arrays:
    readers = (_open_file(file, cache) for file in files)
    return {"ends": np.cumsum([_count_records(*pair) for pair in zip(files, readers, strict=True)])}


def _count_records(file: SourceFile, reader: Any) -> int:
    """Records of a file; a warning where one cannot be read without others."""
    group = re.search(r"group_size:(\d+)", reader.writer_options_string())
    if group and int(group[1]) > 1:
        logger.warning(
            "%s: records are in groups of %s, all of which are decoded to read one; files written "
            "with the option group_size:1 are faster to read in any order",
            file.name,
            group[1],
        )
    return int(reader.num_records())


def _open_file(file: SourceFile, cache: Path) -> Any:
    """Raises DataError: it is no ArrayRecord file, or damaged."""
    path = local_copy(file, cache)
    try:
        reader = ArrayRecordReader(str(path), options=_OPTIONS, file_reader_buffer_size=_BUFFER)
        if not reader.ok():
            reader.read([0])  # which says what is wrong
            raise ValueError("the file is damaged")
    except _ERRORS as error:
        message = f"data.source: {file.path} is no whole ArrayRecord file: {error}"
        raise DataError(message) from error
    return reader
