"""Records of a run: JSON objects that carry a checksum, written and read back in one way.

    {"step": 10, "loss": 4.2656, "crc": "f2eb1c96"}

`crc` is the last key of a record: the CRC-32 of all bytes of the record before the comma in front
of `"crc"`, in hexadecimal digits. A damaged line costs that line alone, and is named. Records of
earlier versions have no checksum: they are believed if they have the keys of their kind, and get
checksums when their file is written anew.
"""

from __future__ import annotations

import json
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

#: The last key of a record.
CRC = "crc"
#: The end of a record on one line, and of one that has a line for each key.
_TAIL = re.compile(rb'(?:, "crc": "([0-9a-f]{8})"}|,\n  "crc": "([0-9a-f]{8})"\n})\Z')
#: What follows the comma at the end of a line, wherever it stands.
_END = re.compile(rb'"crc": "[0-9a-f]{8}"}')
#: Bytes of these ends, and where their digits are.
_ENDS = {
    len(', "crc": "00000000"}'): slice(-10, -2),
    len(',\n  "crc": "00000000"\n}'): slice(-11, -3),
}
#: Begin of the last line of a text that is no JSON, such as YAML, which holds the checksum of all
#: lines before, bytes of the line, and where its digits are.
_WORD, _LINE, _DIGITS = b"# crc", len("# crc 00000000\n"), slice(-9, -1)
#: Damaged lines, and characters of a key, that a message names.
_NAMED, _SHOWN = 3, 40

Values = Mapping[str, Any]
#: Types of values in JSON.
INT, TEXT, LIST, OBJECT, FLAG = (int,), (str,), (list,), (dict,), (bool,)
NUMBER, KNOWN_NUMBER = (int, float, type(None)), (int, float)


class RecordDamageError(ValueError):
    """A file that holds no record, or none as it was written."""


@dataclass(frozen=True)
class RecordSchema:
    """The keys of a kind of record, with the types of their values.

    Attributes:
        needed: keys that every record has.
        others: keys that a record may have; None: any.
    """

    needed: Mapping[str, tuple[type, ...]]
    others: Mapping[str, tuple[type, ...]] | None = None

    def __call__(self, values: Values) -> RecordSchema:
        """The form of a record: this one, whatever the record is."""
        del values
        return self

    def find_problem(self, values: Values) -> str:
        """Missing fields and fields of a wrong type; empty without any."""
        missing = [key for key in self.needed if key not in values]
        if missing:
            return f"no key {missing[0]}"
        for key, types in {**self.needed, **(self.others or {})}.items():
            if key in values and not _is_of(values[key], types):
                return f"{key} is of another type"
        return ""

    def unknown_keys(self, values: Values) -> list[str]:
        """Keys that no record of this kind has."""
        if self.others is None:
            return []
        return [f"{key:.{_SHOWN}}" for key in values if key not in {*self.needed, *self.others}]


@dataclass(frozen=True)
class RecordLines:
    """The records of a file, a line each.

    Attributes:
        path: the file.
        values: the undamaged records, in order, without their checksums.
        damage: by number of a line, from 1, why the line is left out.
        unknown: keys of undamaged records that this version does not know.
        checked: whether the records have checksums.
    """

    path: Path
    values: Sequence[dict[str, Any]] = ()
    damage: Mapping[int, str] = field(default_factory=dict)
    unknown: Sequence[str] = ()
    checked: bool = True

    @property
    def problems(self) -> list[str]:
        """Sentences about damaged lines and unknown keys; none if there are none."""
        sentences = []
        if self.damage:
            named = [f"line {n} ({why})" for n, why in [*self.damage.items()][:_NAMED]]
            more = len(self.damage) - len(named)
            named += [f"{more} more"] * (more > 0)
            sentences.append(f"{self.path.name} is damaged, and left out: {', '.join(named)}")
        if self.unknown:
            keys = ", ".join(self.unknown[:_NAMED])
            sentences.append(f"{self.path.name} has keys that this version does not know: {keys}")
        return sentences

    def log_problems(self) -> RecordLines:
        """Log the problems; return the lines."""
        for sentence in self.problems:
            logger.warning("%s: %s", self.path.parent, sentence)
        return self


def record_line(values: Values, *, ascii_only: bool = True) -> str:
    """A record as a line.

    Raises:
        ValueError: a number is not finite, there is no key, or one is that of the checksum.
    """
    return (
        _with_checksum(json.dumps(_check_keys(values), allow_nan=False, ensure_ascii=ascii_only))
        + "\n"
    )


def records_text(lines: Iterable[Values], *, ascii_only: bool = True) -> str:
    """Records as the text of a file; raises as `record_line`."""
    return "".join(record_line(record, ascii_only=ascii_only) for record in lines)


def record_document(values: Values) -> str:
    """A record as the text of a separate file, a key on each line; raises as `record_line`."""
    return _with_checksum(json.dumps(_check_keys(values), allow_nan=False, indent=2)) + "\n"


def _check_keys(values: Values) -> Values:
    if not values or CRC in values:
        raise ValueError(f"a record has keys, and none is {CRC}: {', '.join(values) or 'none'}")
    return values


def _with_checksum(text: str) -> str:
    """The JSON of an object with its checksum."""
    content = text.removesuffix("}").rstrip()
    lead, end = (",\n  ", "\n}") if text.startswith("{\n") else (", ", "}")
    return f'{content}{lead}"{CRC}": "{_line_checksum(content.encode())}"{end}'


def _line_checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def read_record_lines(path: Path, form: Callable[[Values], RecordSchema]) -> RecordLines:
    """The records of a file; none without a file, and without a last one that broke off.

    Args:
        form: the form of a record, which may depend on its keys.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.exists():
        return RecordLines(path)
    *ended, last = path.read_bytes().split(b"\n")
    parsed = [*map(_parse_line, ended), *_parse_last(last)]
    checked = any(line.signed for line in parsed)
    values, damage, unknown = list[dict[str, Any]](), dict[int, str](), dict[str, None]()
    for number, line in enumerate(parsed, 1):
        problem = _find_problem(line, form, checked) if line.values or not line.why else ""
        if why := line.why or problem:
            damage[number] = why
        if problem:
            continue
        values += line.values
        unknown |= dict.fromkeys(key for v in line.values for key in form(v).unknown_keys(v))
    return RecordLines(path, values, damage, tuple(unknown), checked or not values)


def read_record(path: Path, form: RecordSchema) -> dict[str, Any]:
    """The record in a separate file.

    Raises:
        RecordDamageError: it has changed since it was written, or is none.
        OSError: the file cannot be read.
    """
    document = _parse_line(path.read_bytes().removesuffix(b"\n"))
    why = document.why or _find_problem(document, form, checked=document.signed)
    if why or len(document.values) != 1:
        raise RecordDamageError(f"{path.name} is damaged, and left out: {why or 'several records'}")
    return document.values[0]


def is_signed(path: Path) -> bool:
    """Whether the record in a separate file has a checksum. Raises OSError."""
    return _parse_line(path.read_bytes().removesuffix(b"\n")).signed


@dataclass(frozen=True)
class _ParsedLine:
    """The content of a line.

    Attributes:
        values: its record; several where line breaks between them are damaged.
        why: why it holds none, or why it may have held more.
        signed: whether it has a checksum, right or wrong.
    """

    values: Sequence[dict[str, Any]] = ()
    why: str = ""
    signed: bool = False


def _parse_line(data: bytes) -> _ParsedLine:
    """The record on a line, whose checksum holds if it has one."""
    if (record := _parse_verified(data)) is not None:
        return _ParsedLine([record], signed=True)
    if several := _parse_several(data):
        return several
    if _TAIL.search(data):
        return _ParsedLine(why="its checksum does not hold", signed=True)
    if any(_line_checksum(data[:-size]).encode() == data[digits] for size, digits in _ENDS.items()):
        return _ParsedLine(why="the key of its checksum is damaged", signed=True)
    try:
        record = json.loads(data.decode())
    except (ValueError, RecursionError):
        return _ParsedLine(why="it is no JSON")
    if not isinstance(record, dict):
        return _ParsedLine(why="it is no JSON object")
    if CRC in record:
        return _ParsedLine(why="its checksum is damaged", signed=True)
    return _ParsedLine([record])


def _parse_verified(data: bytes) -> dict[str, Any] | None:
    """The record, if its checksum holds."""
    tail = _TAIL.search(data)
    if tail is None or _line_checksum(data[: tail.start()]).encode() != (tail[1] or tail[2]):
        return None
    record: dict[str, Any] = json.loads(data)
    del record[CRC]
    return record


def _parse_last(data: bytes) -> list[_ParsedLine]:
    """The content after the last line break: nothing, the beginning of a record, or damage."""
    line = _parse_line(data)
    broke_off = not line.values and data[:1] in (b"", b"{") and b"\0" not in data
    return [] if broke_off else [line]


def _parse_several(data: bytes) -> _ParsedLine | None:
    """Undamaged records of one line whose line breaks are damaged or lost; None without any."""
    records, begin = list[dict[str, Any]](), 0
    for end in _END.finditer(data):
        if (values := _parse_verified(data[begin : end.end()])) is not None:
            records.append(values)
            lost = data[end.end() : end.end() + 1] == b"{"
            begin = end.end() + (not lost)
    why = "" if begin >= len(data) else "a part of it has no checksum that holds"
    return _ParsedLine(records, why, signed=True) if records else None


def _find_problem(line: _ParsedLine, form: Callable[[Values], RecordSchema], checked: bool) -> str:
    """The problem with records that can be read.

    Args:
        checked: whether other records of the file have checksums.
    """
    if checked and not line.signed:
        return "it has no checksum"
    for values in line.values:
        if why := form(values).find_problem(values):
            return why
        if not line.signed and (keys := form(values).unknown_keys(values)):
            return f"unknown key {keys[0]}"
    return ""


def _is_of(value: object, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)


def signed_text(text: str) -> str:
    """A text with a last line, a comment of YAML, that holds its checksum."""
    return f"{text}# crc {_line_checksum(text.encode())}\n"


def check_text(path: Path) -> bool:
    """Check that a text is as it was written; returns whether it has a checksum, which says so.

    Raises:
        RecordDamageError: it is not.
        OSError: the file cannot be read.
    """
    data = path.read_bytes()
    content, line = data[:-_LINE], data[-_LINE:]
    if line[_DIGITS] == _line_checksum(content).encode():
        return True
    if any(candidate.startswith(_WORD) for candidate in (line, data.rstrip().rpartition(b"\n")[2])):
        raise RecordDamageError(
            f"{path.name} has changed since the run wrote it: its checksum, in the last line, does "
            "not hold"
        )
    return False


def write_atomically(path: Path, content: str | bytes, part: str | None = None) -> None:
    """Replace `path` by a text; a reader sees the old text or the new one, never a part.

    What a process that is killed has begun is overwritten by the next one that writes to `path`.

    Args:
        part: name under which the file is begun; None: one that `path` has for itself.

    Raises:
        OSError: the folder takes no file.
    """
    partial = path.with_name(part or f".{path.name}.part")
    try:
        with partial.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())  # else a machine that is lost may leave an empty file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
