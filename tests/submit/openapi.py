"""Objects against a structural schema of Kubernetes (OpenAPI v3): unknown fields are errors.

Rules in the language CEL (`x-kubernetes-validations`) are not evaluated: those of JobSet compare an
object with its former self.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: What is understood, and what says nothing of a single object.
KNOWN = {
    *("type", "properties", "required", "items", "additionalProperties", "enum", "pattern"),
    *("minimum", "minLength", "maxLength", "maxItems", "anyOf", "format", "default"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-map-type", "x-kubernetes-validations"),
}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
RANGES = {"int32": 2**31, "int64": 2**63}


def errors(value: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Everything in `value` that the schema refuses."""
    assert {*schema} <= KNOWN, f"{path}: the schema says { ({*schema} - KNOWN) }"
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: {value!r} is neither a number nor a text"
    elif "type" in schema and not _is(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str):
        yield from _text_errors(value, schema, path)
    elif isinstance(value, bool):
        pass
    elif isinstance(value, int):
        largest = RANGES[schema["format"]] - 1 if "format" in schema else value
        if not schema.get("minimum", value) <= value <= largest:
            yield f"{path}: {value} is out of range"
    elif isinstance(value, list):
        yield from _list_errors(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_errors(value, schema, path)


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _text_errors(value: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} is too short or too long"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"


def _list_errors(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items are too many"
    for number, item in enumerate(value):
        yield from errors(item, schema["items"], f"{path}[{number}]")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    names = [tuple(item.get(key) for key in keys) for item in value] if keys else []
    if len({*names}) < len(names):
        yield f"{path}: two items have the same {keys}"


def _object_errors(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{key}: required" for key in schema.get("required", ()) if key not in value)
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    for key, own in value.items():
        if properties is not None and key in properties:
            yield from errors(own, properties[key], f"{path}.{key}")
        elif others is not None:
            yield from errors(own, others, f"{path}.{key}")
        elif properties is not None:
            yield f"{path}.{key}: unknown field"
