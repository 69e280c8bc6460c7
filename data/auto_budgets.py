"""Type of `data.budgets`: capacities by name, or `auto`, which leaves them to be chosen."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PositiveInt

#: The value of `data.budgets` that leaves them to be chosen; it is read as no budgets at all.
AUTO = "auto"


def _as_budgets(value: object) -> object:
    """Budgets that are given; none for `auto`."""
    if isinstance(value, str) and value != AUTO:
        raise ValueError(f"{value!r:.80} is neither budgets, e.g. {{tokens: 4096, ...}}, nor auto")
    if isinstance(value, dict) and not value:
        raise ValueError("data.budgets lacks segments, tokens")
    return {} if value == AUTO else value


#: Capacities by name; `auto` is kept as an empty mapping, and written as `auto`.
Budgets = Annotated[
    dict[str, PositiveInt],
    BeforeValidator(_as_budgets),
    PlainSerializer(lambda values: values or AUTO, return_type=Any),
]
