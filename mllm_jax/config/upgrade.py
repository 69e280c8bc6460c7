"""`launch.py config upgrade`: a file that people wrote, with the keys of today and its comments."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mllm_jax.config.load import ConfigError, read_values
from mllm_jax.config.renamed_keys import RenameError, new_path, translate_keys
from mllm_jax.config.strict_yaml import YamlError, parse_yaml, read_yaml


@dataclass(frozen=True)
class LineEdit:
    """A part of a text, `text[begin:end]`, and its replacement."""

    begin: int
    end: int
    text: str


def upgrade_files(files: Sequence[Path]) -> dict[Path, list[str]]:
    """Rewrite configurations with the keys of today; comments and order stay.

    Args:
        files: YAML files; those that they refine (`base`) are read and stay as they are.

    Returns:
        Of each file a line for every change; none if it stays as it is.

    Raises:
        ConfigError: a file cannot be read or written, or a value has no counterpart. Nothing is
            written unless all files can be rewritten.
    """
    texts = {file: _upgrade_text(file) for file in files}
    for file, (text, changes) in texts.items():
        if changes:
            _replace_file(file, text)
    return {file: changes for file, (_, changes) in texts.items()}


def _upgrade_text(file: Path) -> tuple[str, list[str]]:
    """The text of a file with the keys of today, and lines that say what changes."""
    around, before = read_values(file), read_yaml(file)
    try:
        after = translate_keys(before, around)
    except RenameError as error:
        raise ConfigError(str(file), [str(error)]) from None
    text = file.read_bytes().decode("utf-8-sig")
    if after == before:
        return text, []
    new = _edit_text(text, before, after)
    if not _reads_as(new, after):
        # Of aliases, of which one text has several places.
        reason = "the text cannot be rewritten; valid: rename by hand the keys that `config` names"
        raise ConfigError(str(file), [reason])
    return new, [*_list_changes(before, after)]


def _reads_as(text: str, values: Any) -> bool:
    try:
        return bool(parse_yaml(text) == values)
    except YamlError:
        return False


def _replace_file(file: Path, text: str) -> None:
    """Write a file that is there, all of it or nothing. Raises ConfigError: it cannot be."""
    target = file.resolve()  # a link stays one
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(text.encode("utf-8"))
        shutil.copymode(target, part)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigError(str(file), [f"cannot be written: {error.strerror}"]) from None


def _list_changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Lines that name the keys that went, came and changed."""
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _list_changes(old, new, (*path, key))
        elif old != new or (key in before) != (key in after):
            name = ".".join((*path, key))
            was = f"- {name}: {_format_flow(old)}" if key in before else ""
            now = f"+ {name}: {_format_flow(new)}" if key in after else ""
            yield from filter(None, (was, now))


def _edit_text(text: str, before: Any, after: Any) -> str:
    """A text whose values are `after` where they were `before`."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    new, last = "", 0
    for edit in sorted(_find_edits(text, node, before, after), key=lambda edit: edit.begin):
        new += text[last : edit.begin] + edit.text
        last = edit.end
    return new + text[last:]


def _find_edits(
    text: str, node: Any, before: Any, after: Any, path: tuple[str, ...] = ()
) -> Iterator[LineEdit]:
    """The edits of a mapping: a renamed entry stays in its place, where its name is free."""
    for number, (name, value) in enumerate(node.value):
        key, here = name.value, (*path, name.value)
        new = (new_path(here) or here)[-1]
        if key in after and isinstance(before[key], dict) and isinstance(after[key], dict):
            yield from _find_edits(text, value, before[key], after[key], here)
        elif key in after and before[key] != after[key]:
            yield LineEdit(value.start_mark.index, _end_of_value(value), _format_flow(after[key]))
        elif key not in after and new not in before:
            yield LineEdit(
                name.start_mark.index, _end_of_value(value), f"{new}: {_format_flow(after[new])}"
            )
        elif key not in after:
            yield _remove_entry(text, node, number)


def _remove_entry(text: str, node: Any, number: int) -> LineEdit:
    """An entry of a mapping goes: with its line in block style, with its comma in flow style."""
    name, value = node.value[number]
    begin, end = name.start_mark.index, _end_of_value(value)
    if not node.flow_style:
        line = text.find("\n", end)
        return LineEdit(text.rfind("\n", 0, begin) + 1, len(text) if line < 0 else line + 1, "")
    if number + 1 < len(node.value):
        return LineEdit(begin, node.value[number + 1][0].start_mark.index, "")
    return LineEdit(_end_of_value(node.value[number - 1][1]) if number else begin, end, "")


def _end_of_value(node: Any) -> int:
    """The index after a value; that of a mapping in block style is after its last entry."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end_of_value(last[1] if isinstance(node, yaml.MappingNode) else last)


def _format_flow(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.dump(value, default_flow_style=True, sort_keys=False, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...")
