"""JSON of records: a key that is there twice is an error."""

from __future__ import annotations

import json
from typing import Any

from data.quotes import quoted
from data.sources.formats.records.keys import ShapeError


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for a key that is there twice."""
    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
        raise ValueError(f"the key {quoted(twice)} is there twice")
    return values


def parse_json_field(field: str, text: str) -> object:
    """The value of a field that holds JSON. Raises ShapeError."""
    try:
        return load_json(text)
    except (ValueError, RecursionError) as error:
        raise ShapeError(f"{field}: not JSON: {error}") from error
