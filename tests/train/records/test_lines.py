"""Records with checksums: read back as they were written, or named as damaged."""

from __future__ import annotations

import json
import math
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.runtime.records import (
    INT,
    TEXT,
    RecordDamageError,
    RecordSchema,
    check_text,
    read_record,
    read_record_lines,
    record_document,
    record_line,
    records_text,
    signed_text,
    write_atomically,
)

FORM = RecordSchema({"step": INT}, {"name": TEXT, "values": (list,)})
RECORDS: list[dict[str, Any]] = [
    {"step": 1, "name": 'a, "crc": "00000000"}'},
    {"step": 2, "values": [1.5e-9, None, {"b": True}]},
    {"step": 30, "name": "\u2028 \n ü"},
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@given(st.dictionaries(st.text().filter(lambda key: key != "crc"), VALUES, min_size=1))
def test_records_are_read_as_they_were_written(folder: Path, values: dict[str, Any]) -> None:
    path = folder / "own.jsonl"
    for text in (record_line(values), record_document(values)):
        path.write_text(text)
        assert read_record(path, RecordSchema({})) == values
        assert [*json.loads(text)][-1] == "crc"


def test_the_checksum_is_that_of_the_bytes_before_its_comma() -> None:
    """As the docs say, so that it can be verified without this project."""
    for text in (record_line(RECORDS[2]), record_document(RECORDS[2])):
        content, digits = re.fullmatch(r'(.*),\s*"crc": "(.{8})"\s*}\n', text, re.DOTALL).groups()  # type: ignore[union-attr]
        assert f"{zlib.crc32(content.encode()):08x}" == digits


def flipped(path: Path, at: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("records", [RECORDS, RECORDS[1:2]], ids=["several", "one"])
def test_no_bit_of_a_file_of_lines_flips_unnoticed(folder: Path, records: Any) -> None:
    """What is read is what was written, or all but one line, which is named."""
    path = folder / "lines.jsonl"
    text = records_text(records, ascii_only=False)
    for at, byte in enumerate(data := text.encode()):
        for bit in range(8) if len(records) == 1 else (at % 8,):
            changed = bytes([byte ^ (1 << bit)])
            path.write_bytes(data[:at] + changed + data[at + 1 :])
            found = read_record_lines(path, FORM)
            assert all(own in records for own in found.values), (at, bit)
            assert len(found.values) >= len(records) - 1, (at, bit)
            assert found.values == records or found.damage, (at, bit)
            assert bool(found.problems) == bool(found.damage)


def test_a_line_break_that_is_lost_loses_no_record(folder: Path) -> None:
    path = folder / "joined.jsonl"
    data = records_text(RECORDS, ascii_only=False).encode()
    for at in (at for at, byte in enumerate(data) if byte == ord("\n")):
        path.write_bytes(data[:at] + data[at + 1 :])
        found = read_record_lines(path, FORM)
        assert (found.values, found.damage) == (RECORDS, {})


def test_a_part_of_a_line_that_is_no_record_is_told(folder: Path) -> None:
    """Two line breaks are lost, and a byte of the record between them has changed."""
    path = folder / "parts.jsonl"
    for number in range(len(RECORDS)):
        lines = [record_line(own).removesuffix("\n") for own in RECORDS]
        lines[number] = lines[number].replace('"step"', '"stop"')
        path.write_text("".join(lines) + "\n")
        found = read_record_lines(path, FORM)
        if found.values:
            assert found.values == RECORDS[:number]
        assert [*found.damage] == [1]
        assert found.problems


@pytest.mark.parametrize("zeros", [1, 4096])
def test_zeros_that_a_lost_machine_leaves_behind_are_told(folder: Path, zeros: int) -> None:
    path, text = folder / "zeros.jsonl", records_text(RECORDS).encode()
    for whole in (0, len(text), len(text) - 10):
        path.write_bytes(text[:whole] + bytes(zeros))
        found = read_record_lines(path, FORM)
        assert found.values == (RECORDS[: 3 if whole == len(text) else 2] if whole else [])
        assert found.damage
        assert found.problems


@given(st.integers(0, 10**6), st.integers(1, 255), st.booleans())
def test_no_byte_of_a_document_changes_unnoticed(
    folder: Path, at: int, mask: int, lines: bool
) -> None:
    path = folder / "document.json"
    path.write_text((record_document if lines else record_line)(RECORDS[2]))
    flipped(path, at, mask)
    with suppress(RecordDamageError):
        assert read_record(path, FORM) == RECORDS[2]


def test_a_last_line_that_broke_off_is_as_if_it_was_not_there(folder: Path) -> None:
    path, text = folder / "broken.jsonl", records_text(RECORDS)
    begin = len(records_text(RECORDS[:2]))
    for end in range(begin, len(text) - 1):
        path.write_text(text[:end])
        found = read_record_lines(path, FORM)
        assert (found.values, found.damage) == (RECORDS[:2], {})
    path.write_text(text[:-1])
    assert read_record_lines(path, FORM).values == RECORDS


def test_records_of_earlier_versions_are_read_and_get_checksums(folder: Path) -> None:
    path = folder / "old.jsonl"
    path.write_text("".join(json.dumps(own) + "\n" for own in RECORDS))
    old = read_record_lines(path, FORM)
    assert (old.values, old.problems, old.checked) == (RECORDS, [], False)
    path.write_text(records_text(old.values))
    assert read_record_lines(path, FORM).checked
    path.write_text('{"step": 1, "nbme": "x"}\n{"stfp": 2}\n{"step": true}\n{"step": 4}\n5\n')
    found = read_record_lines(path, FORM)
    assert found.values == [{"step": 4}]
    assert found.problems == [
        "old.jsonl is damaged, and left out: line 1 (unknown key nbme), line 2 (no key step), "
        "line 3 (step is of another type), 1 more"
    ]


def test_a_line_without_a_checksum_among_others_is_damaged(folder: Path) -> None:
    """An editor has changed it, say."""
    path = folder / "mixed.jsonl"
    path.write_text(
        records_text(RECORDS[:1]) + json.dumps(RECORDS[1]) + "\n" + records_text(RECORDS[2:])
    )
    found = read_record_lines(path, FORM)
    assert (found.values, found.damage) == ([RECORDS[0], RECORDS[2]], {2: "it has no checksum"})


def test_keys_of_later_versions_are_told_and_keep_the_record(folder: Path) -> None:
    path = folder / "new.jsonl"
    path.write_text(records_text([{"step": 1, "later": 2}, {"step": 2}]))
    found = read_record_lines(path, FORM)
    assert found.values == [{"step": 1, "later": 2}, {"step": 2}]
    assert found.problems == ["new.jsonl has keys that this version does not know: later"]


@pytest.mark.parametrize("values", [{}, {"crc": 1}, {"loss": math.nan}])
def test_what_cannot_be_a_record_is_not_written(values: dict[str, Any]) -> None:
    for write in (record_line, record_document):
        with pytest.raises(ValueError, match=r"a record has keys|not JSON compliant"):
            write(values)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_text_that_changes_is_told(folder: Path, at: int, mask: int) -> None:
    path, text = folder / "own.yaml", "run:\n  name: a\n"
    write_atomically(path, signed_text(text))
    check_text(path)
    flipped(path, at % len(text), mask)
    with pytest.raises(RecordDamageError, match=r"own\.yaml has changed since the run wrote it"):
        check_text(path)
    path.write_text(text)
    check_text(path)  # of an earlier version
