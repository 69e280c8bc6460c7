"""What keys that decide nothing may say all the same: which medium a record is about, or a weight.

    {"image_id": 458752, "question": "What?", "answer": "A cat."}         VQAv2, without its image
    {"source": "a.png", "question": "What?", "answer": "A cat."}
    {"role": "assistant", "content": "A cat.", "metadata": {"weight": 0}}

Of a record without media the first two would be learnt as texts alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from data.media.naming import file_kind, medium_of, medium_of_number
from data.rows.spec import Kind

#: Keys of further facts, below which a weight may be meant as one.
FACTS = ("metadata", "meta", "info")
#: Keys of weights there, and those of which 0, 1, true and false are likely weights.
_WEIGHTS, _SWITCHES = (
    frozenset(("weight", "loss_weight", "sample_weight", "loss_mask", "trainable")),
    frozenset(("loss", "train")),
)
_MOST_JSON = 100_000  # characters of a text that may be JSON
_MOST_ITEMS, _MOST_LEVELS = 100, 4  # of lists, and of mappings in one another


@dataclass(frozen=True)
class Mention:
    """A medium or a weight that a value speaks of.

    Attributes:
        below: keys from the value on, each behind a dot; empty for the value itself.
        kind: kind of the medium; None for a weight.
        is_file: whether the value is the name of a file.
    """

    below: str
    kind: Kind | None
    is_file: bool = False


def mention_of(key: str, value: object) -> Mention | None:
    """The first medium or weight that a key speaks of which decides nothing; None if none."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) <= _MOST_JSON:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return next(_mentions(key, value, key in FACTS), None)


def _mentions(
    key: str, value: object, is_facts: bool, below: str = "", levels: int = _MOST_LEVELS
) -> Iterator[Mention]:
    if isinstance(value, Mapping):
        for name, inner in value.items() if levels else ():
            if isinstance(name, str):
                place = f"{below}.{name}"
                yield from _of_facts(name, inner, is_facts, place)
                yield from _mentions(name, inner, is_facts, place, levels - 1)
    elif isinstance(value, list):
        for item in islice(value, _MOST_ITEMS) if levels else ():
            yield from _mentions(key, item, is_facts, below, levels - 1)
    else:
        named = file_kind(value) if isinstance(value, str) else None
        kind = medium_of_number(key) if _is_number_of_one(value) else None
        if named or kind:
            yield Mention(below, named or kind, is_file=named is not None)


def _of_facts(key: str, value: object, is_facts: bool, place: str) -> Iterator[Mention]:
    """Media and weights that a key below another names by itself."""
    is_number = isinstance(value, bool | int | float)
    if is_facts and (
        (key in _WEIGHTS and (is_number or isinstance(value, list)))
        or (key in _SWITCHES and is_number and value in (0, 1))
    ):
        yield Mention(place, None)
    kind = medium_of(key)
    if kind is not None and _is_something(value):
        yield Mention(place, kind)


def _is_something(value: object) -> bool:
    return value not in (None, "", 0, [], {})


def _is_number_of_one(value: object) -> bool:
    """Whether a value numbers a medium, as 0 does, and not NaN, which tables have for null."""
    return not (value is None or value == "" or isinstance(value, bool) or value != value)
