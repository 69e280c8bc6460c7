"""Records in Parquet files, as hubs keep them: one a row, media as bytes in columns.

`data/sources/formats/record.py` says what a record is; fields are columns. The unit that Parquet
can read is a group of rows, of which only the columns that are asked for are decoded: a text is
read without its images. An index tells which row is in which group of which file.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data.config import DataConfig, ParquetSource
from data.faults import Fault, FaultKind
from data.kinds.blob import Blob
from data.kinds.registry import KINDS
from data.sample import DataError, MediaError, SampleError
from data.sources.formats.blobs import Bytes, MediaFolder, media_folder
from data.sources.formats.conversations import ConversationSet, Records, fingerprint_of, form_of
from data.sources.formats.index import Arrays, Index, open_index
from data.sources.formats.record import Media, RecordForm
from data.sources.formats.storage import File, Ranges, find_files

logger = logging.getLogger(__name__)

_NAMES = ("ends", "group_files", "group_numbers", "group_ends")
_LARGE = 1 << 26  # bytes of a row group above which a warning is due
_MOST = 1 << 31  # bytes above which a row group is not decoded
_ROWS = 64  # decoded at once
_KEPT_GROUPS, _KEPT_FILES = 4, 32  # in memory, and open
_ERRORS = (pa.ArrowException, OSError, ValueError, MemoryError)
_MEDIA_TYPES = "binary, string, struct<bytes: binary, path: string> or a list of one of these"


class _GroupError(Exception):
    """Rows that cannot be decoded."""


@dataclass(frozen=True)
class _Columns:
    """Columns of a table: those that make a record, and media among them whose bytes come late."""

    record: tuple[str, ...]
    late: tuple[str, ...]


def open_parquet(config: DataConfig, options: ParquetSource, path: str) -> ConversationSet:
    """The records at `path`.

    Raises:
        DataError: no such file, one that is no Parquet file or damaged, or columns that are not
            those of records.
    """
    files, form = (
        find_files(path, (".parquet",), options.retry_seconds),
        form_of(options.fields, config),
    )
    what = f"parquet {fingerprint_of(files)} {options.fields.model_dump_json()}"
    index = open_index(config.cache, what, _NAMES, lambda: _index(files, form))
    columns = _columns(files[0], _opened(files[0]).schema_arrow, form)
    media = None if options.media is None else media_folder(options.media, options.retry_seconds)
    return ConversationSet(ParquetRecords(files, index, media, columns), form, config)


class ParquetRecords(Records):
    """Records in Parquet files.

    index: by row group, `group_files`, `group_numbers` in the file and `group_ends`, the rows in it
    and in all before it; `ends` as of `Records`.
    """

    def __init__(
        self, files: Sequence[File], index: Index, media: MediaFolder | None, columns: _Columns
    ) -> None:
        super().__init__(files, index["ends"], media)
        self._index, self._columns = index, columns
        self._open: OrderedDict[int, _Table] = OrderedDict()
        self._groups: OrderedDict[tuple[int, str], pa.Table] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return ParquetRecords, (self.files, self._index, self.media, self._columns)

    def read(self, index: int) -> tuple[object, Media]:
        """See `Records.read`."""
        self.place(index)
        try:
            record = self._row(index, None)
        except _GroupError as error:
            raise SampleError(self.name(index), Fault(FaultKind.RECORD, str(error))) from error
        for column in self._columns.late:
            record[column] = self._cells(index, column, record.get(column))
        return record, {}

    def cell(self, index: int, column: str, number: int | None) -> Any:
        """A value of a row, or item `number` of a list. Raises MediaError."""
        try:
            value = self._row(index, column)[column]
        except _GroupError as error:
            raise MediaError(FaultKind.RECORD, str(error)) from error
        return value if number is None else value[number]

    def _cells(self, index: int, column: str, value: Any) -> Any:
        """`value`, which lacks the bytes, as media that are read late."""
        if not isinstance(value, list):
            return None if value is None else self._cell(index, column, None, value)
        return [self._cell(index, column, i, item) for i, item in enumerate(value)]

    def _cell(self, index: int, column: str, number: int | None, value: Any) -> Blob | None:
        if value is None:
            return None
        name = value["path"] or f"{column} {number or 0}"
        return _Cell(name, value["path"], self, index, column, number)

    def _row(self, index: int, column: str | None) -> dict[str, Any]:
        """A row of a column, or of all that make a record."""
        group = int(np.searchsorted(self._index["group_ends"], index, side="right"))
        first = int(self._index["group_ends"][group - 1]) if group else 0
        with self._lock:
            table = self._group(group, column)
        row: dict[str, Any] = table.slice(index - first, 1).to_pylist()[0]
        return row

    def _group(self, group: int, column: str | None) -> pa.Table:
        key = (group, column or "")
        if key not in self._groups:
            file, number = (int(self._index[k][group]) for k in ("group_files", "group_numbers"))
            self._groups[key] = self._table(file).read(number, column)
            _keep(self._groups, _KEPT_GROUPS)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _table(self, number: int) -> _Table:
        if number not in self._open:
            self._open[number] = _Table(self.files[number], self._columns)
            _keep(self._open, _KEPT_FILES)
        self._open.move_to_end(number)
        return self._open[number]


def _keep(values: OrderedDict[Any, Any], count: int) -> None:
    while len(values) > count:
        values.popitem(last=False)


@dataclass(frozen=True)
class _Cell(Blob):
    """An image or clip in a cell, or, where the cell only has a path, in the media folder."""

    name: str
    path: str | None
    records: ParquetRecords = field(repr=False)
    index: int
    column: str
    number: int | None

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        """See `Blob.open`."""
        data = self.records.cell(self.index, self.column, self.number)["bytes"]
        if data is None and self.path is None:
            raise MediaError(FaultKind.MISSING, f"{self.name!r} has neither bytes nor a path")
        found = self.records.find(self.index, self.path or "")
        with (found if data is None else Bytes(self.name, data)).open(chunk) as file:
            yield file


# ---- files ---------------------------------------------------------------------------------------


class _Table:
    """A Parquet file, open."""

    def __init__(self, file: File, columns: _Columns) -> None:
        self._name, self._ranges = file.name, Ranges(file, 0, file.size)
        self._parquet = _opened(file, self._ranges)
        schema = self._parquet.schema
        paths = [schema.column(number).path for number in range(len(schema))]
        # Without its bytes, a medium still tells whether it is there, and how many of them are.
        bare = [p for p in paths if p.split(".")[0] in columns.late and p.endswith(".path")]
        self._record = [name for name in columns.record if name not in columns.late] + bare

    def read(self, group: int, column: str | None) -> pa.Table:
        """A column of a row group, or all that make a record.

        Raises:
            _GroupError: the group is damaged or too large. StorageError: it is out of reach.
        """
        batches, size = [], 0
        columns = self._record if column is None else [column]
        try:
            for batch in self._parquet.iter_batches(_ROWS, [group], columns, use_threads=False):
                batches.append(batch)
                size += batch.nbytes
                if size > _MOST:
                    raise ValueError(f"it decodes to more than {_MOST} bytes")
            return pa.Table.from_batches(batches)
        except _ERRORS as error:
            if self._ranges.failure is not None:
                raise self._ranges.failure from error
            raise _GroupError(f"row group {group} of {self._name}: {error}") from error


def _opened(file: File, ranges: Ranges | None = None) -> pq.ParquetFile:
    """Raises DataError: it is no Parquet file, or cannot be reached."""
    ranges = ranges or Ranges(file, 0, file.size)
    try:
        return pq.ParquetFile(ranges, pre_buffer=True)
    except _ERRORS as error:
        if ranges.failure is not None:
            raise ranges.failure from error
        raise DataError(f"data.source: {file.path} is not a Parquet file: {error}") from error


def _index(files: Sequence[File], form: RecordForm) -> Arrays:
    first = _opened(files[0]).schema_arrow
    expected = _columns(files[0], first, form)
    with ThreadPoolExecutor(8) as pool:
        groups = list(pool.map(lambda file: _groups(file, form, expected), files))
    sizes = np.array([size for own in groups for _, size in own], np.int64)
    if sizes.size and np.median(sizes) > _LARGE:
        logger.warning(
            "%s: a row group holds %d MB, all of which is decoded to read one row; fewer rows in a "
            "group (row_group_size of pyarrow.parquet.write_table) are faster to read in any order",
            files[0].name,
            np.median(sizes) / 1e6,
        )
    rows = [np.array([rows for rows, _ in own], np.int64) for own in groups]
    return {
        "ends": np.cumsum([own.sum() for own in rows], dtype=np.int64),
        "group_files": np.repeat(np.arange(len(files)), [len(own) for own in rows]),
        "group_numbers": np.concatenate([np.arange(len(own)) for own in rows]),
        "group_ends": np.cumsum(np.concatenate(rows)),
    }


def _groups(file: File, form: RecordForm, expected: _Columns) -> list[tuple[int, int]]:
    """Rows and bytes of the row groups of a file, which must have the expected columns."""
    parquet = _opened(file)
    if _columns(file, parquet.schema_arrow, form) != expected:
        raise DataError(
            f"data.source: {file.path} has other columns than the files before it: "
            f"{_listed(parquet.schema_arrow)}; expected {', '.join(expected.record)}"
        )
    groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in groups]


# ---- columns -------------------------------------------------------------------------------------


def _columns(file: File, schema: pa.Schema, form: RecordForm) -> _Columns:
    """The columns of records.

    Raises:
        DataError: a needed column is missing, or has a type that cannot hold its values.
    """
    needed = [form.text_fields]
    named = (form.fields.question, *(getattr(form.fields, kind, None) for kind in KINDS))
    needed += [(name,) for name in named if name]
    missing = [" or ".join(names) for names in needed if not set(names) & set(schema.names)]
    if missing:
        raise DataError(
            f"data.source: {file.path} has the columns {_listed(schema)}; expected "
            f"{', '.join(missing)} (data.source.fields says what they are called)"
        )
    texts = [n for n in (*form.text_fields, form.fields.question or "") if n in schema.names]
    media = [n for kind in KINDS for n in form.media_fields(kind) if n in schema.names]
    for name in texts:
        _check_text(file, name, schema.field(name).type, form)
    texts += [n for kind in KINDS for n in form.encoder_fields(kind) if n in schema.names]
    late = [name for name in media if _is_late(file, name, schema.field(name).type)]
    return _Columns((*texts, *media), tuple(late))


def _listed(schema: pa.Schema) -> str:
    return ", ".join(
        f"{name}: {kind}" for name, kind in zip(schema.names, schema.types, strict=True)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _value(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values; of a dictionary-encoded column, the dictionary's type."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    kind = _value(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    kind = _value(kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _check_text(file: File, name: str, kind: pa.DataType, form: RecordForm) -> None:
    turns = form.fields.answer is None
    if not _is_text(kind) and not (
        turns and _is_list(kind) and pa.types.is_struct(kind.value_type)
    ):
        valid = "a list of structs, or string (JSON)" if turns else "string"
        raise DataError(f"data.source: {file.path}: column {name!r} is {kind}; valid: {valid}")


def _is_late(file: File, name: str, kind: pa.DataType) -> bool:
    """Whether media of a column can be listed without their bytes.

    Raises:
        DataError: the column has a type that no media have.
    """
    item = kind.value_type if _is_list(kind) else kind
    if _is_text(item) or _is_binary(item):
        return False
    inner = {part.name: part.type for part in item} if pa.types.is_struct(item) else {}
    valid = {"bytes": _is_binary, "path": _is_text}
    found = [part for part, fits in valid.items() if part in inner and fits(inner[part])]
    if not found:
        raise DataError(
            f"data.source: {file.path}: column {name!r} is {kind}; valid for media: {_MEDIA_TYPES}"
        )
    return len(found) == len(valid)
