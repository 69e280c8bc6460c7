"""Conversations in JSON (a list of records) or JSON Lines (one record a line), media in a folder.

A file is a list if its name ends in `.json`, and has lines else. `records/record.py`
says what a record is. A malformed one is one unusable sample; a file that is no list of records is
an error. No process holds a file: an index says where its records are.
"""

from __future__ import annotations

import hashlib
import json
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator

import numpy as np

from data.config import DataConfig, LlavaSource
from data.faults import FaultKind, SampleFault
from data.media.file_bytes import STREAM
from data.sample import DataError, SampleError
from data.sources.formats.conversations import ConversationSet, RecordList, fingerprint_of, form_of
from data.sources.formats.file_bytes import MediaFolder, media_folder
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.formats.records.json_text import load_json
from data.sources.formats.records.turns import Media
from data.sources.formats.storage import SourceFile, find_files, home_of_files

#: Ends of the names of lists of records, and of files of lines in a folder. A file that is given by
#: its own name is read by lines unless it is named as a list.
LIST, LINES = ".json", ".jsonl"
_NAMES = ("spans", "ends", "digest")
#: First bytes of what is taken for text by mistake.
_FOREIGN = {
    b"PAR1": "a Parquet file, which kind: parquet reads",
    b"ARROW1": "an Arrow file, which kind: arrow reads if datasets has saved it",
    b"\xff\xff\xff\xff": "an Arrow stream, which kind: arrow reads",
    b"\x1f\x8b": "compressed (gzip)",
    b"PK\x03\x04": "compressed (zip)",
    b"(\xb5/\xfd": "compressed (zstd)",
    BOM_UTF16_LE: "in UTF-16",
    BOM_UTF16_BE: "in UTF-16",
}
_SPACE = " \t\n\r"
#: Bytes that are looked at, and where in them a tar file says that it is one.
_HEAD, _TAR = 512, slice(257, 262)
Span = tuple[int, int]  # first byte, and the one after the last


def open_llava(config: DataConfig, options: LlavaSource, path: str) -> ConversationSet:
    """The conversations at `path`. Raises DataError, see `records_of`."""
    records = records_of(config, options, path)
    return ConversationSet(records, form_of(options, config), config)


def records_of(config: DataConfig, options: LlavaSource, path: str) -> JsonRecords:
    """The records at `path`.

    Raises:
        DataError: no such file, an unreadable one, or one that is no list of records.
    """
    files = find_files(path, (LIST, LINES), options.retry_seconds)
    home = home_of_files(config.cache, files)
    index = open_index(home, fingerprint_of(files), _NAMES, lambda: _build_index(files))
    media = None if options.media is None else media_folder(options.media, options.retry_seconds)
    return JsonRecords(files, index, media)


class JsonRecords(RecordList):
    """Records in JSON files.

    index: `spans` of the records in their files, `[records, 2]`, `ends` as of `RecordList`, and
    `digest`, the SHA-256 of the contents.
    """

    def __init__(
        self, files: tuple[SourceFile, ...], index: RecordIndex, media: MediaFolder | None
    ) -> None:
        super().__init__(files, index["ends"], media)
        self._index = index

    def read_record(self, index: int) -> tuple[object, Media | None]:
        """See `RecordList.read_record`."""
        file, _ = self.record_place(index)
        start, end = self._index["spans"][index].tolist()
        try:
            return load_json(file.read(start, end - start)), None
        except (ValueError, RecursionError) as error:
            raise SampleError(
                self.name(index), SampleFault(FaultKind.RECORD, f"not JSON: {error}")
            ) from error

    @property
    def content_fingerprint(self) -> str:
        """See `RecordList.content_fingerprint`."""
        return bytes(self._index["digest"]).hex()


def _build_index(files: tuple[SourceFile, ...]) -> Arrays:
    spans: list[Span] = []
    ends, digest = [], hashlib.sha256()
    for file in files:
        spans += (
            _list_elements(file, digest.update)
            if file.name.lower().endswith(LIST)
            else _line_spans(file, digest.update)
        )
        ends.append(len(spans))
    return {
        "spans": np.array(spans, np.int64).reshape(-1, 2),
        "ends": np.array(ends, np.int64),
        "digest": np.frombuffer(digest.digest(), np.uint8),
    }


def _line_spans(file: SourceFile, note: Callable[[bytes], None]) -> Iterator[Span]:
    """Lines that are not blank. Raises DataError for what is no text, or a list."""
    at = 0
    with file.open(STREAM) as stream:
        for line in stream:
            note(line)
            mark = 0 if at else _mark_size(file, line)
            if line[mark:].strip():
                yield at + mark, at + len(line)
            at += len(line)


def _mark_size(file: SourceFile, line: bytes) -> int:
    """Bytes of a mark of encoding at the beginning of a file of lines."""
    _check_text(file)
    mark = _mark_of(line)
    # Any other list is a malformed record: one unusable sample.
    if line[mark:].strip() == b"[" or line[mark:].lstrip().startswith(b"[{"):
        raise DataError(
            f"data.source: {file.path} begins with a list, not with a record; a list of records is "
            "named *.json"
        )
    return mark


def _list_elements(file: SourceFile, note: Callable[[bytes], None]) -> Iterator[Span]:
    """Elements of a list."""
    data = file.read(0, file.size)
    note(data)
    _check_text(file)
    begin = _mark_of(data)
    try:
        text = data[begin:].decode()
        if not text.lstrip(_SPACE).startswith("["):
            raise DataError(f"data.source: {file.path} {_no_list(text)}")
        yield from _in_bytes(text, _element_spans(text), begin)
    except (ValueError, RecursionError) as error:
        raise DataError(f"data.source: cannot read {file.path}: {error}") from error


def _no_list(text: str) -> str:
    """The reason why a JSON text is no list of records; raises ValueError if it is no JSON."""
    start = _skip_space(text, 0)
    value, end = json.JSONDecoder().raw_decode(text, start)
    if isinstance(value, dict) and text[_skip_space(text, end) :].startswith("{"):
        return "holds a record a line, not a list of records; such a file is named *.jsonl"
    json.loads(text)
    return (
        f"holds a {type(value).__name__}, not a list of records; if it is none of the data, name "
        "the others by a pattern, e.g. data/train*.json"
    )


def _check_text(file: SourceFile) -> None:
    """Refuse what begins as no text in UTF-8 does.

    Raises:
        DataError: the file is of another kind, compressed, or in UTF-16.
    """
    begin = file.read(0, min(_HEAD, file.size))
    formats = [what for head, what in _FOREIGN.items() if begin.startswith(head)]
    if begin[_TAR] == b"ustar":
        formats = ["a tar file, which kind: webdataset reads"]
    elif not formats and b"\0" in begin:
        formats = ["no text: it has null bytes"]
    if formats:
        raise DataError(
            f"data.source: {file.path} is {formats[0]}; valid for kind: llava: JSON or JSON Lines, "
            "text in UTF-8"
        )


def _mark_of(data: bytes) -> int:
    """Bytes of the mark of encoding with which some programs begin files."""
    return len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0


def _element_spans(text: str) -> Iterator[Span]:
    """Elements of the list that `text` is, in characters. Raises json.JSONDecodeError."""
    decoder, at = json.JSONDecoder(), _skip_space(text, _skip_space(text, 0) + 1)
    more = text[at : at + 1] != "]"
    while more:
        _, end = decoder.raw_decode(text, at)
        yield at, end
        at = _skip_space(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _skip_space(text, at + 1)
        elif text[at : at + 1] != "]":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    if _skip_space(text, at + 1) < len(text):
        raise json.JSONDecodeError("Extra data", text, at + 1)


def _skip_space(text: str, at: int) -> int:
    """The first place from `at` on that is no space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _in_bytes(text: str, spans: Iterator[Span], begin: int) -> Iterator[Span]:
    """Spans of characters as spans of bytes in UTF-8, of which the text's begin at `begin`."""
    done, offset = 0, begin
    for start, end in spans:
        first = offset + len(text[done:start].encode())
        done, offset = end, first + len(text[start:end].encode())
        yield first, offset
