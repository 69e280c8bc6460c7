"""Records in Parquet files, as hubs keep them: one a row, media as bytes in columns.

`records/record.py` says what a record is; fields are columns. The unit that Parquet
can read is a group of rows, of which only the columns that are asked for are decoded: a text is
read without its images. An index says which row is in which group of which file.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data.config import DataConfig, ParquetSource
from data.sample import DataError
from data.sources.formats.conversations import ConversationSet, fingerprint_of, form_of
from data.sources.formats.file_bytes import MediaFolder, media_folder
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.formats.records.record import RecordForm
from data.sources.formats.storage import FileRanges, SourceFile, find_files, home_of_files
from data.sources.formats.tables import (
    ERRORS,
    RecordColumns,
    RowError,
    TableRecords,
    columns_of,
    list_columns,
)

logger = logging.getLogger(__name__)

_NAMES = ("ends", "group_files", "group_numbers", "group_ends")
_LARGE = 1 << 26  # bytes of a row group above which a warning is due
_MOST = 1 << 31  # bytes above which a row group is not decoded
_ROWS = 64  # decoded at once
_KEPT_GROUPS, _KEPT_FILES = 4, 32  # in memory, and open


def open_parquet(config: DataConfig, options: ParquetSource, path: str) -> ConversationSet:
    """The records at `path`.

    Raises:
        DataError: no such file, one that is no Parquet file or damaged, or columns that are not
            those of records.
    """
    files, form = (
        find_files(path, (".parquet",), options.retry_seconds),
        form_of(options, config),
    )
    what = f"parquet {fingerprint_of(files)} {options.fields.model_dump_json()}"
    home = home_of_files(config.cache, files)
    index = open_index(home, what, _NAMES, lambda: _build_index(files, form))
    columns = columns_of(files[0], _open_parquet(files[0]).schema_arrow, form)
    media = None if options.media is None else media_folder(options.media, options.retry_seconds)
    return ConversationSet(ParquetRecords(files, index, media, columns), form, config)


class ParquetRecords(TableRecords):
    """Records in Parquet files.

    index: by row group, `group_files`, `group_numbers` in the file and `group_ends`, the rows in it
    and in all before it; `ends` as of `RecordList`.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        index: RecordIndex,
        media: MediaFolder | None,
        columns: RecordColumns,
    ) -> None:
        super().__init__(files, index["ends"], media, columns)
        self._index = index
        self._open: OrderedDict[int, _ParquetTable] = OrderedDict()
        self._groups: OrderedDict[tuple[int, str], pa.Table] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return ParquetRecords, (self.files, self._index, self.media, self.columns)

    def read_row(self, index: int, column: str | None) -> dict[str, Any]:
        """See `TableRecords.read_row`."""
        group = int(np.searchsorted(self._index["group_ends"], index, side="right"))
        first = int(self._index["group_ends"][group - 1]) if group else 0
        with self._lock:
            table = self._read_group(group, column)
        row: dict[str, Any] = table.slice(index - first, 1).to_pylist()[0]
        return row

    def _read_group(self, group: int, column: str | None) -> pa.Table:
        key = (group, column or "")
        if key not in self._groups:
            file, number = (int(self._index[k][group]) for k in ("group_files", "group_numbers"))
            self._groups[key] = self._open_table(file).read_group(number, column)
            _drop_oldest(self._groups, _KEPT_GROUPS)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _open_table(self, number: int) -> _ParquetTable:
        if number not in self._open:
            self._open[number] = _ParquetTable(self.files[number], self.columns)
            _drop_oldest(self._open, _KEPT_FILES)
        self._open.move_to_end(number)
        return self._open[number]


def _drop_oldest(values: OrderedDict[Any, Any], count: int) -> None:
    while len(values) > count:
        values.popitem(last=False)


# ---- files ---------------------------------------------------------------------------------------


class _ParquetTable:
    """A Parquet file, open."""

    def __init__(self, file: SourceFile, columns: RecordColumns) -> None:
        self._name, self._ranges = file.name, FileRanges(file, 0, file.size)
        self._parquet = _open_parquet(file, self._ranges)
        schema = self._parquet.schema
        paths = [schema.column(number).path for number in range(len(schema))]
        # Without its bytes, a medium still says whether it is there, and how many of them are.
        bare = [p for p in paths if p.split(".")[0] in columns.late and p.endswith(".path")]
        self._record = [name for name in columns.record if name not in columns.late] + bare

    def read_group(self, group: int, column: str | None) -> pa.Table:
        """A column of a row group, or all that make a record.

        Raises:
            RowError: the group is damaged or too large. StorageError: it is out of reach.
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
        except ERRORS as error:
            if self._ranges.failure is not None:
                raise self._ranges.failure from error
            raise RowError(f"row group {group} of {self._name}: {error}") from error


def _open_parquet(file: SourceFile, ranges: FileRanges | None = None) -> pq.ParquetFile:
    """Raises DataError: it is no Parquet file, or cannot be reached."""
    ranges = ranges or FileRanges(file, 0, file.size)
    try:
        return pq.ParquetFile(ranges, pre_buffer=True)
    except ERRORS as error:
        if ranges.failure is not None:
            raise ranges.failure from error
        raise DataError(f"data.source: {file.path} is not a Parquet file: {error}") from error


def _build_index(files: Sequence[SourceFile], form: RecordForm) -> Arrays:
    first = _open_parquet(files[0]).schema_arrow
    expected = columns_of(files[0], first, form)
    with ThreadPoolExecutor(8) as pool:
        groups = list(pool.map(lambda file: _list_groups(file, form, expected), files))
    sizes = np.array([size for in_file in groups for _, size in in_file], np.int64)
    if sizes.size and np.median(sizes) > _LARGE:
        logger.warning(
            "%s: a row group holds %d MB, all of which is decoded to read one row; fewer rows in a "
            "group (row_group_size of pyarrow.parquet.write_table) are faster to read in any order",
            files[0].name,
            np.median(sizes) / 1e6,
        )
    rows = [np.array([rows for rows, _ in in_file], np.int64) for in_file in groups]
    return {
        "ends": np.cumsum([in_file.sum() for in_file in rows], dtype=np.int64),
        "group_files": np.repeat(np.arange(len(files)), [len(in_file) for in_file in rows]),
        "group_numbers": np.concatenate([np.arange(len(in_file)) for in_file in rows]),
        "group_ends": np.cumsum(np.concatenate(rows)),
    }


def _list_groups(
    file: SourceFile, form: RecordForm, expected: RecordColumns
) -> list[tuple[int, int]]:
    """Rows and bytes of the row groups of a file, which must have the expected columns."""
    parquet = _open_parquet(file)
    if columns_of(file, parquet.schema_arrow, form) != expected:
        raise DataError(
            f"data.source: {file.path} has other columns than the files before it: "
            f"{list_columns(parquet.schema_arrow)}; expected {', '.join(expected.record)}"
        )
    groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in groups]
