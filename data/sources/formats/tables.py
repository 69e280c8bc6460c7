"""Records in the rows of tables: fields are columns, media are cells whose bytes come late.

`records/record.py` says what a record is. Hubs keep a medium as a struct of bytes and
path (the features Image and Audio of `datasets`); such a cell is read when its medium is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data.config import ONLY_WHERE_TAKEN
from data.faults import FaultKind, SampleFault
from data.media.file_bytes import FileBytes
from data.media.naming import medium_of_number
from data.media.registry import MEDIA_TYPES
from data.quotes import cut, enumerated, quoted
from data.rows.spec import Kind
from data.sample import DataError, MediaError, SampleError
from data.sources.formats.conversations import RecordList
from data.sources.formats.file_bytes import LoadedBytes, MediaFolder
from data.sources.formats.records.advice import advice_for
from data.sources.formats.records.fields import PairFields
from data.sources.formats.records.forms import (
    CHATS,
    Sort,
    is_turn,
    known_form,
    likely_fields,
    no_text,
)
from data.sources.formats.records.keys import (
    HARMLESS,
    REFUSED_OF_RECORDS,
    ShapeError,
    UnreadField,
    shorten_path,
)
from data.sources.formats.records.mentions import FACTS
from data.sources.formats.records.record import RecordForm
from data.sources.formats.records.turns import Media
from data.sources.formats.storage import SourceFile

_MEDIA_TYPES = "binary, string, struct<bytes: binary, path: string> or a list of one of these"
#: Errors of pyarrow for files that are damaged, or none of their format.
ERRORS = (pa.ArrowException, OSError, ValueError, MemoryError)
_NAME = 80  # characters of the name of a medium


class RowError(Exception):
    """Rows that cannot be decoded."""


@dataclass(frozen=True)
class RecordColumns:
    """Columns of a table: those that make a record, and media among them whose bytes come late."""

    record: tuple[str, ...]
    late: tuple[str, ...]


class TableRecords(RecordList):
    """Records in the rows of tables.

    Args:
        files: as of `RecordList`.
        ends: as of `RecordList`.
        media: as of `RecordList`.
        columns: columns of a record.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        ends: NDArray[np.int64],
        media: MediaFolder | None,
        columns: RecordColumns,
    ) -> None:
        super().__init__(files, ends, media)
        self.columns = columns

    @abstractmethod
    def read_row(self, index: int, column: str | None) -> dict[str, Any]:
        """A row of a column, or of all that make a record, media without bytes if these come late.

        Raises:
            RowError: the row cannot be decoded. StorageError: it is out of reach.
        """

    def read_record(self, index: int) -> tuple[object, Media | None]:
        """See `RecordList.read_record`."""
        self.record_place(index)
        try:
            record = self.read_row(index, None)
        except RowError as error:
            raise SampleError(
                self.name(index), SampleFault(FaultKind.RECORD, str(error))
            ) from error
        for column in self.columns.late:
            record[column] = self._late_cells(index, column, record.get(column))
        return record, None

    def read_cell(self, index: int, column: str, number: int | None) -> Any:
        """A value of a row, or item `number` of a list. Raises MediaError."""
        try:
            value = self.read_row(index, column)[column]
        except RowError as error:
            raise MediaError(FaultKind.RECORD, str(error)) from error
        return value if number is None else value[number]

    def _late_cells(self, index: int, column: str, value: Any) -> Any:
        """`value`, which lacks the bytes, as media that are read late."""
        if not isinstance(value, list):
            return None if value is None else self._late_cell(index, column, None, value)
        return [self._late_cell(index, column, i, item) for i, item in enumerate(value)]

    def _late_cell(
        self, index: int, column: str, number: int | None, value: Any
    ) -> FileBytes | None:
        if value is None:
            return None
        name = (value["path"] or f"{column} {number or 0}")[:_NAME]
        return _TableCell(name, value["path"], self, index, column, number)


@dataclass(frozen=True)
class _TableCell(FileBytes):
    """An image or clip in a cell, or, where the cell only has a path, in the media folder."""

    name: str
    path: str | None
    records: TableRecords = field(repr=False)
    index: int
    column: str
    number: int | None

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        """See `FileBytes.open`."""
        data = self.records.read_cell(self.index, self.column, self.number)["bytes"]
        if data is None and self.path is None:
            raise MediaError(FaultKind.MISSING, f"{quoted(self.name)} has neither bytes nor a path")
        file_bytes = self.records.find_medium(self.index, self.path or "")
        with (file_bytes if data is None else LoadedBytes(self.name, data)).open(chunk) as file:
            yield file


# ---- columns -------------------------------------------------------------------------------------


def columns_of(file: SourceFile, schema: pa.Schema, form: RecordForm) -> RecordColumns:
    """The columns of records.

    Raises:
        DataError: a needed column is missing, or has a type that cannot hold its values; or a name
            is that of several columns.
    """
    _check_names(file, "columns", schema.names)
    media = [name for kind in MEDIA_TYPES for name in _media_columns(schema, form, kind)]
    # A column without a value is as good as absent, but one of media says that they are lost.
    empty = {name for name in schema.names if pa.types.is_null(schema.field(name).type)}
    names = [name for name in schema.names if name in media or name not in empty]
    try:
        texts = form.text_fields(names)
    except ShapeError as error:
        raise DataError(f"data.source: {file.path}: {error}") from error
    _check_needed(file, schema, form, texts)
    plain = [name for name in form.fields_for(texts) if name in names]
    for name in plain:
        if name in (texts.field_names[:2] if isinstance(texts, PairFields) else texts):
            _check_text(file, name, schema.field(name).type, texts)
    late = [name for name in media if _is_late(file, name, schema.field(name).type)]
    others = _other_columns(file, schema, names, form, plain)
    speaking = _speaking_columns(schema, names, form, bool(media))
    plain_columns = [
        name for name in dict.fromkeys((*plain, *others, *speaking)) if name not in media
    ]
    for name in (*plain_columns, *media):
        _check_inner(file, name, schema.field(name).type)
    return RecordColumns((*plain_columns, *media), tuple(late))


def _check_names(file: SourceFile, where: str, names: Iterable[str]) -> None:
    """Raise DataError for a name that several of the columns, or fields of a column, have."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"data.source: {file.path}: several {where} have the name {enumerated(twice)}; valid: "
            "each with a name of its own"
        )


def _check_inner(file: SourceFile, name: str, kind: pa.DataType) -> None:
    """`_check_names` of all structs in a column."""
    while is_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        parts = [kind.field(number) for number in range(kind.num_fields)]
        _check_names(file, f"fields of column {name!r}", [part.name for part in parts])
        for part in parts:
            _check_inner(file, name, part.type)


def _check_needed(
    file: SourceFile, schema: pa.Schema, form: RecordForm, texts: tuple[str, ...] | PairFields
) -> None:
    """Raise DataError for columns that are not there, of records or of `data.source.ignore`."""
    pair = texts.field_names[:2] if isinstance(texts, PairFields) else ()
    named = (*pair, form.fields.system, *(getattr(form.fields, kind, None) for kind in MEDIA_TYPES))
    needed: list[tuple[str, ...]] = [(name,) for name in named if name]
    needed += [] if isinstance(texts, PairFields) else [texts]
    missing = [
        " or ".join(alternatives)
        for alternatives in needed
        if not set(alternatives) & set(schema.names)
    ]
    if missing:
        raise DataError(
            f"data.source: {file.path} has the columns {list_columns(schema)}; expected "
            f"{', '.join(missing)} ({_explain_columns(schema, form, texts)})"
        )
    for path in sorted(form.allowed.ignored):
        if not {path, path.partition(".")[0]} & {*schema.names}:
            raise DataError(
                f"data.source.ignore: {quoted(path)} is no column of {file.path}; it has "
                f"{enumerated(schema.names)}"
            )


def _explain_columns(
    schema: pa.Schema, form: RecordForm, texts: tuple[str, ...] | PairFields
) -> str:
    """What the columns of a table may be that has not all that are needed."""
    hint = "data.source.fields says what they are called"
    if isinstance(texts, PairFields) or {*texts} & {*schema.names}:
        return hint
    sorts = {name: _column_sort(name, schema.field(name).type) for name in schema.names}
    media = any(_media_columns(schema, form, kind) for kind in MEDIA_TYPES)
    named = known_form(sorts, media=media)
    if named is not None:
        return named
    names = likely_fields(sorts, media=media)
    advised = form.reading_of({}).name_fields(**names) if names else None
    named = advised and advised.removeprefix("data.source.fields: ")
    return f"{hint}; {named} may be meant" if named else hint


def _column_sort(name: str, kind: pa.DataType) -> Sort:
    """What the values of a column may be; turns may be JSON."""
    if _is_text(kind):
        return "turns" if name in CHATS else "text"
    if is_list(kind):
        item = kind.value_type
        turns = pa.types.is_struct(item) and is_turn(part.name for part in item)
        return "turns" if turns else "several"
    several = pa.types.is_struct(kind) and any(is_list(part.type) for part in kind)
    return "several" if several else "other"


def _other_columns(
    file: SourceFile, schema: pa.Schema, names: Sequence[str], form: RecordForm, read: Sequence[str]
) -> list[str]:
    """Columns that no record may have a value of.

    Raises:
        DataError: there are columns that are neither read nor known as harmless.
    """
    unknown = [name for name in names if name not in (*read, *form.allowed.ignored, *HARMLESS)]
    numbers = [n for kind in ONLY_WHERE_TAKEN for n in form.media_fields(kind) if n in unknown]
    unread = [name for name in unknown if name not in (*REFUSED_OF_RECORDS, *numbers)]
    if unread:
        name = unread[0]
        unread_key = UnreadField(name, name, name, form.purpose.level, read, names)
        first = advice_for(unread_key, form.reading_of(dict.fromkeys(names, True)))
        raise DataError(
            f"data.source: {file.path} has columns that are not read: {enumerated(unread)}; all "
            f"columns are {list_columns(schema)}. {shorten_path(name)}: {first}"
        )
    return [name for name in unknown if name in REFUSED_OF_RECORDS]


def _speaking_columns(
    schema: pa.Schema, names: Sequence[str], form: RecordForm, has_media: bool
) -> list[str]:
    """Harmless columns that may name a weight, or a medium where no column has any."""
    may = FACTS if has_media else HARMLESS
    return [
        name
        for name in names
        if name in may
        and name not in form.allowed.ignored
        and (medium_of_number(name) or not _is_plain_number(schema, name))
    ]


def _is_plain_number(schema: pa.Schema, name: str) -> bool:
    """Whether a column holds nothing that has names: numbers, times, bytes."""
    kind = _value_type(schema.field(name).type)
    return not (_is_text(kind) or is_list(kind) or pa.types.is_nested(kind))


def _media_columns(schema: pa.Schema, form: RecordForm, kind: Kind) -> list[str]:
    """Columns of a kind of media; see `MediumConfig.only_where_taken` for those of numbers."""
    columns = [name for name in form.media_fields(kind) if name in schema.names]
    ignored = kind in ONLY_WHERE_TAKEN
    return [name for name in columns if not (ignored and _is_number(schema, name))]


def list_columns(schema: pa.Schema) -> str:
    """The columns of a file with their types."""
    return enumerated(f"{n}: {kind}" for n, kind in zip(schema.names, schema.types, strict=True))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values; of a dictionary-encoded column, the dictionary's type."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    kind = _value_type(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(schema: pa.Schema, name: str) -> bool:
    kind = _value_type(schema.field(name).type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_binary(kind: pa.DataType) -> bool:
    kind = _value_type(kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _check_text(
    file: SourceFile, name: str, kind: pa.DataType, texts: tuple[str, ...] | PairFields
) -> None:
    """Raise DataError for a column that can hold no texts, or no turns."""
    turns = not isinstance(texts, PairFields)
    if not _is_text(kind) and not (turns and is_list(kind) and pa.types.is_struct(kind.value_type)):
        valid = "a list of structs, or string (JSON)" if turns else "string"
        named = (
            no_text(texts, name, _column_sort(name, kind))
            if isinstance(texts, PairFields)
            else None
        )
        valid = f"{valid}; {named}" if named else valid
        raise DataError(
            f"data.source: {file.path}: column {name!r} is {cut(str(kind), 200)}; valid: {valid}"
        )


def _is_late(file: SourceFile, name: str, kind: pa.DataType) -> bool:
    """Whether media of a column can be listed without their bytes.

    Raises:
        DataError: the column has a type that no media have.
    """
    item = kind.value_type if is_list(kind) else kind
    if pa.types.is_null(item) or _is_text(item) or _is_binary(item):
        return False
    inner = {part.name: part.type for part in item} if pa.types.is_struct(item) else {}
    valid = {"bytes": _is_binary, "path": _is_text}
    parts = [part for part, fits in valid.items() if part in inner and fits(inner[part])]
    if not parts:
        raise DataError(
            f"data.source: {file.path}: column {name!r} is {cut(str(kind), 200)}; valid for media: "
            f"{_MEDIA_TYPES}"
        )
    return len(parts) == len(valid)
