"""Keys of the configuration that have other names today: one table.

What people write is refused with the new name (`rename_advice`), and
`launch.py config upgrade FILE` rewrites it. What commands wrote, such as plans, `resolved.yaml`
and the configuration inside a checkpoint, outlives the version that wrote it and is translated
when it is read (`of_command`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]
#: Stands in a path for any name.
ANY = "*"
#: Sections, and keys of `schedule`, that every configuration has which a command wrote: commands
#: write all keys, people those that they choose.
SECTIONS = ("run", "model", "parallel", "schedule", "data", "train", "checkpoint", "evaluate")
_SCHEDULE = ("kind", "chunks", "fill", "hardware", "fsdp_gather", "pad_layers")


class RenameError(ValueError):
    """A value under an old key that has no counterpart under the new one."""


@dataclass(frozen=True)
class RenamedKey:
    """One key that was renamed.

    Attributes:
        old: dotted path of before; `*` stands for any name.
        new: dotted path of today, with as many `*`.
        converted: the value of today, from the value of before and the full configuration; None
            for a value that already is one of today, where `old` and `new` are the same path.
        note: what became of the value, for messages; empty if it stays.
    """

    old: str
    new: str
    converted: Callable[[Any, Mapping[str, Any]], Any] = lambda value, values: value
    note: str = ""


def _is_independent(value: Any, values: Mapping[str, Any]) -> bool:
    if value not in ("decoder", "own"):
        raise RenameError(f"{value!r} is refused; valid: decoder, own")
    return bool(value == "own")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _of_decoder(value: Any, values: Mapping[str, Any]) -> Values | None:
    """Chunks by module, from a number for the decoder; one chunk is what every module has."""
    if not _is_count(value):
        return None
    return {"decoder": value} if value > 1 else {}


def _valid_blockwise(value: Any, values: Mapping[str, Any]) -> str | None:
    return "blockwise" if value == "windowed" else None


def _on_each_stage(value: Any, values: Mapping[str, Any]) -> Values:
    """Chunks on every stage of an encoder's plan, from the pieces on all of its stages."""
    plans = _as_mapping(_as_mapping(values.get("parallel")).get("encoders"))
    chunks: Values = {}
    if not isinstance(value, Mapping):
        raise RenameError(f"{value!r} is refused; valid: numbers of pieces by encoder")
    for name, pieces in value.items():
        stages = _as_mapping(plans.get(name)).get("stage", 1)
        if not _is_count(pieces) or not _is_count(stages) or pieces % stages:
            raise RenameError(f"{name}: {pieces} pieces are no whole number on each of {stages}")
        chunks[name] = pieces // stages
    return chunks


def _of_backbone(value: Any, values: Mapping[str, Any]) -> str | None:
    return "backbone" if value == "decoder" else None


#: Keys of before and of today, in the order in which they are translated.
RENAMED = (
    RenamedKey("schedule.chunks", "schedule.chunks", _of_decoder, "{decoder: N} in place of N"),
    RenamedKey(
        "schedule.pieces", "schedule.chunks", _on_each_stage, "chunks on each stage of the encoder"
    ),
    RenamedKey(
        "schedule.encoder_microbatches",
        "schedule.independent_microbatches",
        _is_independent,
        "true in place of own",
    ),
    RenamedKey("schedule.encoder_placement", "schedule.placement"),
    RenamedKey("schedule.encoder_budgets", "schedule.independent_budgets"),
    RenamedKey("schedule.encoder_rows", "schedule.independent_rows"),
    RenamedKey("schedule.budgets", "schedule.independent_budgets"),
    RenamedKey("schedule.rows", "schedule.independent_rows"),
    RenamedKey("schedule.live", "schedule.max_waiting"),
    RenamedKey("schedule.work_ahead", "schedule.prefetch"),
    RenamedKey("parallel.sums", "parallel.reduce_dtype"),
    RenamedKey("model.encoders.*.lanes", "model.encoders.*.buckets"),
    RenamedKey(
        "model.attention", "model.attention", _valid_blockwise, "blockwise in place of windowed"
    ),
    RenamedKey("data.balance", "data.balance", _of_backbone, "backbone in place of decoder"),
    RenamedKey("data.image.encoders", "data.image.modules"),
)


def rename_advice(path: tuple[str, ...], value: Any) -> str | None:
    """The advice for a renamed key, or for an old value; None if it is neither."""
    for key in RENAMED:
        if (new := _new_path(key, path)) is None:
            continue
        same = new == path
        if same and key.converted(value, {}) is None:
            continue
        what = "the value has another form" if same else f"the key is {'.'.join(new)} now"
        more = f" ({key.note})" if key.note else ""
        return f"{what}{more}; `launch.py config upgrade FILE` rewrites a file"
    return None


def new_path(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of today for a path of before; None if it is none."""
    return next((new for key in RENAMED if (new := _new_path(key, path)) is not None), None)


def of_command(values: Mapping[str, Any]) -> Values:
    """Values with the keys of today, if a command wrote them; those of people stay as they are.

    Raises:
        RenameError: a value has no counterpart.
    """
    return translate_keys(values) if is_complete(values) else dict(values)


def is_complete(values: Mapping[str, Any]) -> bool:
    """Whether a configuration has all keys, as those have that commands write."""
    return all(isinstance(values.get(name), Mapping) for name in SECTIONS) and all(
        key in values["schedule"] for key in _SCHEDULE
    )


def translate_keys(values: Mapping[str, Any], around: Mapping[str, Any] | None = None) -> Values:
    """Values with the keys of today.

    Args:
        values: of a file, or a part of them.
        around: the full configuration, if `values` are a part of it.

    Raises:
        RenameError: a value has no counterpart.
    """
    now = copy.deepcopy(dict(values))
    for key in RENAMED:
        for path in list(_matching_paths(now, tuple(key.old.split(".")))):
            *parents, last = path
            parent = _value_at(now, parents)
            try:
                value = key.converted(parent[last], around or values)
            except RenameError as error:
                raise RenameError(f"{'.'.join(path)}: {error}") from None
            if value is None and key.old == key.new:
                continue
            del parent[last]
            new = _new_path(key, path)
            assert new is not None  # the path was found by the key
            _set_value(now, new, value, path)
    return now


def _set_value(values: Values, path: tuple[str, ...], value: Any, old: tuple[str, ...]) -> None:
    """Set a value; a mapping is added to one that is there. Raises RenameError: there is one."""
    *parents, last = path
    parent = _value_at(values, parents)
    there = parent.get(last, {} if isinstance(value, Mapping) else None)
    if (
        isinstance(there, Mapping)
        and isinstance(value, Mapping)
        and not there.keys() & value.keys()
    ):
        parent[last] = {**there, **value}
    elif last not in parent:
        parent[last] = value
    else:
        names = ".".join(old), ".".join(path)
        raise RenameError(f"{names[0]}: {names[1]} is given, too; valid: {names[1]} alone")


def _new_path(key: RenamedKey, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of today for a path of before; None if the key has another path."""
    old = key.old.split(".")
    if len(old) != len(path) or any(a not in (ANY, b) for a, b in zip(old, path, strict=True)):
        return None
    names = iter([part for wild, part in zip(old, path, strict=True) if wild == ANY])
    return tuple(next(names) if part == ANY else part for part in key.new.split("."))


def _matching_paths(
    values: Any, pattern: tuple[str, ...], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Paths of `values` that match a pattern."""
    if not pattern:
        yield path
        return
    first, *other_keys = pattern
    for name in _as_mapping(values):
        if first in (ANY, name):
            yield from _matching_paths(values[name], tuple(other_keys), (*path, name))


def _value_at(values: Values, path: list[str] | tuple[str, ...]) -> Values:
    node = values
    for part in path:
        node = node[part]
    return node


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
