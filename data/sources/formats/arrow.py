"""Records in Arrow files, as `save_to_disk` of Hugging Face's `datasets` writes them.

    folder/data-00000-of-00002.arrow   streams of record batches: a schema, then batch after batch
           data-00001-of-00002.arrow
           state.json                  which of the files are the data set's, in their order
           dataset_info.json           not read: the files have their schema

`records/record.py` says what a record is; fields are columns. Files are mapped into
memory, so that a row touches no more of them than its own cells; of a file at a URL a copy is
kept in `data.cache`. An index says at which byte the batch of a row begins. The package `datasets`
is not needed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from data.config import ArrowSource, DataConfig
from data.sample import DataError
from data.sources.formats.conversations import ConversationSet, fingerprint_of, form_of
from data.sources.formats.copies import local_copy
from data.sources.formats.file_bytes import MediaFolder, media_folder
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.formats.records.record import RecordForm
from data.sources.formats.storage import SourceFile, find_files, home_of_files
from data.sources.formats.tables import (
    ERRORS,
    RecordColumns,
    RowError,
    TableRecords,
    columns_of,
    is_list,
    list_columns,
)

_NAMES = ("ends", "batch_files", "batch_starts", "batch_ends")
#: The file of a saved data set that lists its Arrow files.
_STATE = "state.json"
_KEPT = 64  # files that are open


def open_arrow(config: DataConfig, options: ArrowSource, path: str) -> ConversationSet:
    """The records at `path`: the folder of a data set, or one or more of its Arrow files.

    Raises:
        DataError: no such file, one that is no Arrow stream or damaged, columns that are not those
            of records, or a folder of several splits.
    """
    candidates = find_files(path, (".arrow", _STATE), options.retry_seconds)
    files, form = _ordered_files(path, candidates), form_of(options, config)
    what = f"arrow {fingerprint_of(files)} {options.fields.model_dump_json()}"
    home = home_of_files(config.cache, files)
    index = open_index(home, what, _NAMES, lambda: _build_index(files, form, config.cache))
    columns = columns_of(files[0], _ArrowStream(files[0], config.cache).schema, form)
    media = None if options.media is None else media_folder(options.media, options.retry_seconds)
    records = ArrowRecords(files, index, media, columns, config.cache)
    return ConversationSet(records, form, config)


class ArrowRecords(TableRecords):
    """Records in Arrow files.

    index: by record batch, `batch_files`, `batch_starts` (bytes of the file) and `batch_ends`, the
    rows in it and in all before it; `ends` as of `RecordList`.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        index: RecordIndex,
        media: MediaFolder | None,
        columns: RecordColumns,
        cache: Path,
    ) -> None:
        super().__init__(files, index["ends"], media, columns)
        self._index, self._cache = index, cache
        self._open: OrderedDict[int, _ArrowStream] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return ArrowRecords, (self.files, self._index, self.media, self.columns, self._cache)

    def read_row(self, index: int, column: str | None) -> dict[str, Any]:
        """See `TableRecords.read_row`."""
        number = int(np.searchsorted(self._index["batch_ends"], index, side="right"))
        first = int(self._index["batch_ends"][number - 1]) if number else 0
        file, start = (int(self._index[k][number]) for k in ("batch_files", "batch_starts"))
        with self._lock:
            stream = self._open_stream(file)
            try:
                batch = stream.read_batch(start).slice(index - first, 1)
                return self._batch_row(batch, column)
            except ERRORS as error:
                raise RowError(f"the batch at byte {start} of {stream.name}: {error}") from error

    def _batch_row(self, batch: pa.RecordBatch, column: str | None) -> dict[str, Any]:
        """A batch of one row as a record; a column of media is bare, unless it is asked for."""
        names = self.columns.record if column is None else (column,)
        late = self.columns.late if column is None else ()
        cells = {name: batch.column(name) for name in names}
        return {
            name: _without_bytes(cell) if name in late else cell.to_pylist()[0]
            for name, cell in cells.items()
        }

    def _open_stream(self, number: int) -> _ArrowStream:
        if number not in self._open:
            self._open[number] = _ArrowStream(self.files[number], self._cache)
            if len(self._open) > _KEPT:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]


def _without_bytes(cell: pa.Array) -> Any:
    """The value of an array of one: a medium without its bytes, or a list of such."""
    if not cell[0].is_valid:
        return None
    if is_list(cell.type):
        items = cell.flatten()
        return [_without_bytes(items.slice(number, 1)) for number in range(len(items))]
    return {"path": cell.field("path")[0].as_py()}


# ---- files ---------------------------------------------------------------------------------------


class _ArrowStream:
    """An Arrow file, mapped into memory.

    Raises:
        DataError: it is no stream of record batches.
    """

    def __init__(self, file: SourceFile, cache: Path) -> None:
        self.name, self._path = file.name, file.path
        try:
            self._file = pa.memory_map(str(local_copy(file, cache)))
            self.schema = pa.ipc.read_schema(self._file)
        except ERRORS as error:
            raise DataError(
                f"data.source: {file.path} is no stream of Arrow's record batches, as datasets "
                f"saves them: {error}"
            ) from error
        self._begin = self._file.tell()

    def read_batch(self, start: int) -> pa.RecordBatch:
        """The record batch at a byte. Raises one of `ERRORS`."""
        self._file.seek(start)
        return pa.ipc.read_record_batch(pa.ipc.read_message(self._file), self.schema)

    def list_batches(self) -> Iterator[tuple[int, int]]:
        """Where every record batch begins, and how many rows it has.

        Raises:
            DataError: the file is damaged, or ends within a batch.
        """
        at, end = self._begin, self._file.size()
        try:
            while at < end:
                self._file.seek(at)
                message = pa.ipc.read_message(self._file)
                if message.type != "record batch":
                    raise ValueError(f"a {message.type} is among its record batches")
                yield at, pa.ipc.read_record_batch(message, self.schema).num_rows
                at = self._file.tell()
        except EOFError:
            return  # the end of a stream is marked
        except ERRORS as error:
            raise DataError(
                f"data.source: {self._path} is damaged at byte {at}: {error}"
            ) from error


def _ordered_files(place: str, candidates: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """The Arrow files of the data set at `place`, in their order.

    Raises:
        DataError: there are several data sets, or files are missing.
    """
    states = [file for file in candidates if file.name == _STATE]
    folders = sorted(PurePosixPath(file.path).parent.name for file in states)
    if len(states) > 1:
        raise DataError(
            f"data.source: {place} holds the data sets {', '.join(folders)}; valid: one of them, "
            f"such as {place.rstrip('/')}/{folders[0]}"
        )
    if not states:
        return _check_files(place, [file for file in candidates if not file.name.endswith(_STATE)])
    here = {file.path: file for file in candidates}
    (state,), folder = states, PurePosixPath(states[0].path).parent
    try:
        contents = json.loads(state.read(0, state.size))
        paths = [str(folder / data["filename"]) for data in contents["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"data.source: {state.path} lists no files: {error!r}") from error
    missing = [path for path in paths if path not in here]
    if missing:
        raise DataError(f"data.source: {state.path} lists {missing}, which are not there")
    return _check_files(place, [here[path] for path in paths])


def _check_files(place: str, files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    if not files:
        raise DataError(f"data.source: {place} has no Arrow files; valid: a saved data set")
    return tuple(files)


def _build_index(files: Sequence[SourceFile], form: RecordForm, cache: Path) -> Arrays:
    streams = [_ArrowStream(file, cache) for file in files]
    expected = columns_of(files[0], streams[0].schema, form)
    for file, stream in zip(files, streams, strict=True):
        if columns_of(file, stream.schema, form) != expected:
            raise DataError(
                f"data.source: {file.path} has other columns than the files before it: "
                f"{list_columns(stream.schema)}; expected {', '.join(expected.record)}"
            )
    batches = [list(stream.list_batches()) for stream in streams]
    rows = np.array([count for in_file in batches for _, count in in_file], np.int64)
    return {
        "ends": np.cumsum([sum(n for _, n in in_file) for in_file in batches], dtype=np.int64),
        "batch_files": np.repeat(np.arange(len(files)), [len(in_file) for in_file in batches]),
        "batch_starts": np.array([start for in_file in batches for start, _ in in_file], np.int64),
        "batch_ends": np.cumsum(rows),
    }
