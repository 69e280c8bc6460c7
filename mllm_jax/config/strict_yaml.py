"""YAML as people write it, strictly: plain data of bounded size, or an error that names the line.

Scalars are read as in YAML 1.2 where YAML 1.1, which the library implements, surprises: `1e-3` and
`010` are the numbers that they look like, `12:30` and `2026-11-23` are texts. Keys are always
texts, and no key appears twice. Contents that no experiment needs are refused before they cost time
or memory: endless nesting, anchors that multiply, numbers of thousands of digits, objects of a
programming language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

#: Largest size of a file in bytes.
MOST_BYTES = 1 << 20
#: Most levels of nesting, aliases expanded.
DEEPEST = 64
#: Most scalars, sequences and mappings, aliases expanded.
MOST_VALUES = 20_000
#: Largest absolute value of an integer.
LARGEST = 10**12

_CORE = "tag:yaml.org,2002:"
_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INT = re.compile(r"[-+]?(0b[01][01_]*|0o[0-7][0-7_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|[0-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)"
    r"|\.(nan|NaN|NAN)"
)


class YamlError(ValueError):
    """A text that is no plain YAML; the message gives line and column where they are known."""


def read_yaml(path: Path) -> Any:
    """Values of a file.

    Raises:
        YamlError: the file cannot be read, or as in `parse_yaml`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:  # a path with a NUL, bytes that are no UTF-8
        raise YamlError(f"cannot be read: {error}") from None
    if len(content) > MOST_BYTES:
        raise YamlError(f"is not YAML of a configuration: it is larger than {MOST_BYTES} bytes")
    try:
        return parse_yaml(text)
    except YamlError as error:
        raise YamlError(f"is not YAML: {error}") from None


def parse_yaml(text: str) -> Any:
    """Values of a text: None, truth values, numbers, texts, lists, and mappings with texts as keys.

    Raises:
        YamlError: the text is no YAML, or holds another value or one that is too large.
    """
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"line {line}: character {error.character:#x} is not allowed") from None
    try:
        node = loader.get_single_node()
        return None if node is None else _build_value(node)
    except yaml.MarkedYAMLError as error:
        raise YamlError(_describe_error(error)) from None
    except (ValueError, OverflowError):  # of `chr`
        raise YamlError(f"line {loader.line + 1}: an escape is no character") from None


def write_yaml(values: Any) -> str:
    """A text that `parse_yaml` reads as `values`, with keys in their order."""
    text: str = yaml.dump(values, Dumper=_Dumper, sort_keys=False, width=100)
    return text


def shorten_repr(value: object, most: int = 200) -> str:
    """`value` as Python writes it, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


class _Loader(yaml.SafeLoader):
    """Composes nodes within the bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        #: Values and levels of every complete node, aliases expanded.
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        mark = event.start_mark
        _check_bound(self._depth, DEEPEST, "levels of nesting", mark)
        _check_bound(len(self._sizes), MOST_VALUES, "values", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if isinstance(event, yaml.AliasEvent) and node not in self._sizes:
            raise _yaml_error(f"*{event.anchor} is inside of what it stands for", mark)
        values, levels = self._sizes.setdefault(node, self._node_size(node))
        _check_bound(values, MOST_VALUES, "values", mark)
        _check_bound(self._depth + levels, DEEPEST, "levels of nesting", mark)
        return node

    def _node_size(self, node: yaml.Node) -> tuple[int, int]:
        """Values and levels of a node whose parts are complete."""
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        parts = [
            part for item in node.value for part in (item if isinstance(item, tuple) else (item,))
        ]
        sizes = [self._sizes[part] for part in parts]
        return 1 + sum(n for n, _ in sizes), 1 + max((deep for _, deep in sizes), default=0)


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that `_Loader` would take for numbers; texts of several lines stay such."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar(f"{_CORE}str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _build_value(node: yaml.Node) -> Any:
    """The plain value of a node; an alias has a new value at each use."""
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_CORE}map":
        return _build_mapping(node)
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_CORE}seq":
        return [_build_value(item) for item in node.value]
    if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
        return _read_scalar(node, _SCALARS[node.tag])
    raise _yaml_error(f"{node.tag} is no plain value", node.start_mark)


def _read_scalar(node: yaml.ScalarNode, read: Callable[[str], Any]) -> Any:
    try:
        return read(node.value)
    except ValueError as error:
        raise _yaml_error(f"{shorten_repr(node.value, 40)} is {error}", node.start_mark) from None


def _build_mapping(node: yaml.MappingNode) -> dict[str, Any]:
    """Values by key; those of a merged mapping (`<<: *name`) come last."""
    merged: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _yaml_error("a key is a text, not a list or a mapping", key.start_mark)
        if key.tag == f"{_CORE}merge":
            merged = _merge_mappings(value) | merged
            continue
        if key.value in values:
            raise _yaml_error(f"key {shorten_repr(key.value)} appears twice", key.start_mark)
        values[_read_scalar(key, _read_text)] = _build_value(value)
    return merged | values


def _merge_mappings(node: yaml.Node) -> dict[str, Any]:
    """Values of one mapping, or of several, of which the first that has a key gives its value."""
    values = _build_value(node)
    merged: dict[str, Any] = {}
    for mapping in values if isinstance(values, list) else [values]:
        if not isinstance(mapping, dict):
            raise _yaml_error(
                f"{shorten_repr(mapping)} cannot be merged: it is no mapping", node.start_mark
            )
        merged = mapping | merged
    return merged


def _read_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character, which nothing can write") from None
    return value


def _read_bool(text: str) -> bool:
    if text.lower() not in _BOOLS:
        raise ValueError(f"no truth value; valid: {', '.join(_BOOLS)}")
    return _BOOLS[text.lower()]


def _read_int(text: str) -> int:
    digits = text.replace("_", "")
    if not _INT.fullmatch(digits) or len(digits) > 100:
        raise ValueError("no whole number of at most 100 digits")
    # In base 0 Python takes `010` for a mistake.
    number = int(digits, 0 if digits.lstrip("+-")[1:2] in "box" else 10)
    if abs(number) > LARGEST:
        raise ValueError("a number that is not between -10^12 and 10^12")
    return number


def _read_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError("no number")
    return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    f"{_CORE}null": lambda _: None,
    f"{_CORE}bool": _read_bool,
    f"{_CORE}int": _read_int,
    f"{_CORE}float": _read_float,
    f"{_CORE}str": _read_text,
}


def _yaml_error(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _check_bound(count: int, most: int, what: str, mark: yaml.Mark) -> None:
    if count > most:
        raise _yaml_error(f"there are more than {most} {what}", mark)


def _describe_error(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    reason = ", ".join(part for part in (error.context, error.problem) if part)
    return reason if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {reason}"


def _resolvers_without(left_out: set[str]) -> Mapping[str, list[tuple[str, re.Pattern[str]]]]:
    """The library's forms of plain scalars by their first character, without some."""
    forms = yaml.SafeLoader.yaml_implicit_resolvers
    return {
        first: [(tag, form) for tag, form in resolvers if tag.removeprefix(_CORE) not in left_out]
        for first, resolvers in forms.items()
    }


_Loader.yaml_implicit_resolvers = dict(_resolvers_without({"int", "float", "timestamp", "value"}))
for _own in (_Loader, _Dumper):
    # The first form that matches counts.
    _own.add_implicit_resolver(f"{_CORE}int", re.compile(f"^({_INT.pattern})$"), [*"-+0123456789"])
    _own.add_implicit_resolver(
        f"{_CORE}float", re.compile(f"^({_FLOAT.pattern})$"), [*"-+0123456789."]
    )
