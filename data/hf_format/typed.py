"""JSON of a released processor as types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from data.sample import DataError

#: Of types of objects: keys that nothing here reads are ignored.
TYPED = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)
T = TypeVar("T", bound=BaseModel)


def parse_settings(kind: type[T], path: Path, values: Mapping[str, Any]) -> T:
    """The contents of the file `path` as `kind`. Raises DataError: they are none."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise DataError(
            f"data.processor: {path}: {key}: {first['msg']}, got {first['input']!r:.80}"
        ) from error


def stated_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without null keys, which have their defaults; a flag that is null is off."""
    settings = {k: False if v is None and k.startswith("do_") else v for k, v in values.items()}
    return {key: value for key, value in settings.items() if value is not None}
