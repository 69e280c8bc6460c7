"""YAML is read into plain values, or refused with the line: nothing else may happen to a user."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.strict_yaml import (
    DEEPEST,
    MOST_BYTES,
    YamlError,
    parse_yaml,
    read_yaml,
    shorten_repr,
    write_yaml,
)
from scheduling.costs.hardware import HardwareError

TWICE = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
BOMB = TWICE + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcd", "bcde", strict=True)
)
OPEN, SHUT = "[" * 40, "]" * 40
REFUSED = {
    "deep list": ("[" * 20_000, "line 1, column 66: there are more than 64 levels of nesting"),
    "deep mapping": ("{a: " * 20_000, "more than 64 levels"),
    "deep block": ("- " * 20_000, "more than 64 levels"),
    "deep key": ("? " * 20_000, "more than 64 levels"),
    "many values": ("- a\n" * 20_002, "more than 20000 values"),
    "many digits": ("\nb: " + "9" * 6000, r"line 2, column 4: .*\(6002 characters\) is no whole"),
    "large number": ("a: 9999999999999", "is a number that is not between"),
    "anchors that multiply": (BOMB, "line 5, column 4: there are more than 20000 values"),
    "anchor in itself": ("a: &a [1, {b: *a}]", r"column 15: \*a is inside of what"),
    "anchors that nest": (f"a: &a {OPEN}{SHUT}\nb: {OPEN}*a{SHUT}", "64 levels"),
    "no anchor": ("a: *b", "column 4: found undefined alias 'b'"),
    "key twice": ("a: {b: 1}\nc: 2\na: 3", "line 3, column 1: key 'a' appears twice"),
    "text key twice": ("'1': 1\n1: 2", "line 2, column 1: key '1' appears twice"),
    "key of a list": ("? [a]\n: b", "column 3: a key is a text, not a list"),
    "merged number": ("<<: 3", "3 cannot be merged"),
    "tab": ("a:\n\tb: c", "line 2, column 1: .*'\\\\t' that cannot start any token"),
    "NUL": ("a: 1\nb: \0", "line 2: character 0x0 is not allowed"),
    "half a character": ('a: "\\ud800"', "is half a character"),
    "key of half a character": ('"\\ud800": 1', "is half a character"),
    "no character": ('a: "\\U99999999"', "line 1: an escape is no character"),
    "object": ("a: !!python/object/apply:os.getcwd []", "apply:os.getcwd is no plain"),
    "binary": ("a: !!binary aGVsbG8=", "binary is no plain value"),
    "set": ("!!set {a, b}", "set is no plain value"),
    "unlike its tag": ("a: !!int [1]", "int is no plain value"),
    "no number": ("a: !!int one", "'one' is no whole number"),
    "no fraction": ("a: !!float one", "'one' is no number"),
    "no truth": ("a: !!bool maybe", "'maybe' is no truth value; valid: true, yes"),
    "two documents": ("--- 1\n--- 2", "line 2, column 1: .*found another document"),
    "open": ("a: [1, 2", "expected ',' or ']'"),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_plain_value_is_refused_where_it_is(text: str, told: str) -> None:
    with pytest.raises(YamlError, match=told) as error:
        parse_yaml(text)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1e-3, 1E5, .5, 5., -.inf, 1_000.5]", [0.001, 1e5, 0.5, 5.0, -math.inf, 1000.5]),
        ("[.inf, .Inf, +.INF, -.Inf, -.INF]", [*[math.inf] * 3, *[-math.inf] * 2]),
        ("[010, 0x1F, 0o17, 0b11, -1_000, +3]", [10, 31, 15, 3, -1000, 3]),
        ("[0x_, 1:30, 2026-11-23, =, 0b]", ["0x_", "1:30", "2026-11-23", "=", "0b"]),
        ("[yes, Off, ~, null, '']", [True, False, None, None, ""]),
        ("{1: a, true: b, null: c}", {"1": "a", "true": "b", "null": "c"}),
        ("a: &p {b: 1, c: 2}\nd: {<<: *p, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("<<: [{a: 1}, {a: 2, b: 3}]\nc: 4", {"a": 1, "b": 3, "c": 4}),
        ("", None),
        ("# nothing", None),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_values_are_what_they_look_like(text: str, value: Any) -> None:
    assert parse_yaml(text) == value


def test_no_number_has_three_spellings() -> None:
    assert all(map(math.isnan, parse_yaml("[.nan, .NaN, .NAN]")))


def test_aliases_are_values_of_their_own() -> None:
    found = parse_yaml("a: &a {b: 1}\nc: *a")
    found["a"]["b"] = 2
    assert found["c"] == {"b": 1}


NUMBERS = st.floats(allow_nan=False) | st.integers(-(10**12), 10**12)
SCALARS = st.none() | st.booleans() | st.text() | NUMBERS
LIKE_NUMBERS = st.from_regex(r"\A[-+]?[0-9_.:eExob]{1,8}\Z")
VALUES = st.recursive(
    SCALARS | LIKE_NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values=VALUES)
@example(values={"1e3": ["1e3", "010", "0o7", "1:30", "2026-11-23", "yes", "~", "=", "<<"]})
def test_what_is_written_is_read_again(values: Any) -> None:
    assert parse_yaml(write_yaml(values)) == values


#: What makes up YAML, in any order.
PIECES = st.sampled_from(
    [
        *("a", "b", ": ", ":", "- ", "? ", ", ", "[", "]", "{", "}", "\n", "\n  ", "\t", " "),
        *("&a ", "*a", "<<: ", "!!int ", "!!map ", "!!seq ", "!!null ", "!!omap ", "!x "),
        *("%YAML 1.1\n", "---\n", "...\n", "# c\n", "|\n", ">-\n", '"', "'", "\\", '"\\u'),
        *('"\\x0', "1", "e", ".", "0x", "9" * 400, "-", "_", "~", "="),
        *("\0", "\x85", "\u2028", "\ud800", "\ufeff", "\U0001f600"),
    ]
)


@given(text=st.lists(PIECES, max_size=30).map("".join) | st.text())
def test_any_text_is_plain_values_or_refused(text: str) -> None:
    try:
        values = parse_yaml(text)
    except YamlError:
        return
    # Not `json`, which would take numbers as keys.
    assert _plain(values), values
    assert repr(parse_yaml(write_yaml(values))) == repr(values)


def _plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, dict):
        parts = all(isinstance(key, str) for key in value), list(value.values())
    else:
        parts = True, value if isinstance(value, list) else []
    scalar = value is None or isinstance(value, bool | int | float | str | dict | list)
    return depth <= DEEPEST and scalar and parts[0] and all(_plain(v, depth + 1) for v in parts[1])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfea\x00", "cannot be read: .*utf-8"),
        (b"a: \x80", "cannot be read: .*utf-8"),
        (b"a: 1\n" * (MOST_BYTES // 4), "larger than 1048576 bytes"),
        (b"\x89PNG\r\n\x1a\n", "cannot be read"),
        (b"[" * 20_000, "is not YAML: line 1, column 66"),
    ],
)
def test_a_file_that_is_no_yaml_is_told(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(YamlError, match=told):
        read_yaml(path)
    with pytest.raises(HardwareError, match=rf"file\.yaml: .*{told}"):
        load_hardware(str(path))


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (
        tmp_path,
        tmp_path / "loop",
        tmp_path / ("x" * 300),
        Path("a\0b"),
        Path("/dev/zero"),
    ):
        with pytest.raises(YamlError, match=r"cannot be read|larger than"):
            read_yaml(path)


def test_long_values_are_cut_off() -> None:
    assert shorten_repr("x" * 50, 10) == "'xxxxxxxxx... (52 characters)"
    assert shorten_repr([1, 2]) == "[1, 2]"
