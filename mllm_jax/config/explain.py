"""Errors of a configuration's values, in one line: key, value, reason, valid choices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from data.credentials import hidden
from mllm_jax.config.keys import key_choices, nearest_key, sibling_keys
from mllm_jax.config.renamed_keys import rename_advice
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.written_form import written_place

#: Characters of a value that a message shows.
MOST_SHOWN = 200


def explain_error(detail: ErrorDetails, values: Mapping[str, Any]) -> str:
    """One line for one validation error: dotted path, reason, valid choices."""
    path = _key_path(detail, _written_location(detail["loc"], values), values)
    name = ".".join(path)
    if (renamed := rename_advice(path, detail["input"])) is not None:
        return f"{name}: {renamed}"
    valid = sibling_keys(ExperimentConfig, path, values) if path else []
    if detail["type"] == "extra_forbidden":
        guess = nearest_key(ExperimentConfig, path, valid)
        return f"{name}: unknown key; did you mean {guess}? valid here: {', '.join(valid)}"
    if detail["type"] == "missing":
        return f"{name}: required, but not given"
    if detail["type"].startswith("union_tag"):
        field = detail["ctx"]["discriminator"].strip("'")
        valid = key_choices(ExperimentConfig, (*path, field), values)
        tag = detail["ctx"].get("tag")
        problem = f"{tag} is refused" if tag else "required, but not given"
        return f"{name}.{field}: {problem}; valid: {', '.join(valid)}"
    if detail["type"] == "literal_error":
        choices = detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"{name}: {_shorten_text(detail['input'])} is refused; valid: {choices}"
    reason = detail["msg"].removeprefix("Value error, ")
    if isinstance(detail["input"], dict):
        return f"{name}: {reason}"
    return f"{name}: {_shorten_text(detail['input'])} is refused: {reason}"


def _written_location(
    location: tuple[str | int, ...], values: Mapping[str, Any]
) -> tuple[str | int, ...]:
    """Location in the values as they are written, of an edge perhaps in its source."""
    model = values.get("model")
    if location[:1] != ("model",) or not isinstance(model, Mapping):
        return location
    return "model", *written_place(model, location[1:])


def _key_path(
    detail: ErrorDetails, location: tuple[str | int, ...], values: Mapping[str, Any]
) -> tuple[str, ...]:
    """Location without the names of union members that pydantic puts between the keys."""
    path: list[str] = []
    node: Any = values
    *parents, last = location or ("",)
    for part in parents:
        if _has_part(node, part):
            node = node[part]
            path.append(str(part))
    inside = _has_part(node, last) or detail["type"] == "missing"
    return (*path, str(last)) if inside else tuple(path)


def _has_part(node: Any, part: int | str) -> bool:
    """Whether `part` is a key, or the number of an item, of `node`."""
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node


def find_coerced(written: Any, converted: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Values that only fit their type after a conversion, such as the text "4" for a number."""
    if isinstance(written, Mapping) and isinstance(converted, Mapping):
        for key in written:
            yield from find_coerced(written[key], converted.get(str(key)), (*path, str(key)))
    elif isinstance(written, list) and isinstance(converted, list):
        for i, (left, right) in enumerate(zip(written, converted, strict=False)):
            yield from find_coerced(left, right, (*path, str(i)))
    elif written is not None and _kind_of_value(written) != _kind_of_value(converted):
        valid = f"a {_kind_of_value(converted)}, e.g. {_shorten_text(converted)}"
        kind = _kind_of_value(written)
        yield f"{'.'.join(path)}: {_shorten_text(written)} is a {kind}, not {valid}"


def _kind_of_value(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _shorten_text(value: object) -> str:
    text = hidden(json.dumps(value, default=str))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text)} characters)"
