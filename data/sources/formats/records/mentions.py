"""What keys that decide nothing may say all the same: a medium, a weight, or words of the talk.

    {"image_id": 458752, "question": "What?", "answer": "A cat."}         VQAv2, without its image
    {"source": "a.png", "question": "What?", "answer": "A cat."}
    {"role": "assistant", "content": "A cat.", "metadata": {"weight": 0}}
    {"metadata": {"system": "You are a cat."}, "question": "What?", "answer": "Miaow."}

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
#: Keys there of texts that a model would read or write, and of the tools that it would have.
_TEXTS = frozenset(
    (
        *("system", "system_prompt", "system_message"),
        *("reasoning", "reasoning_content", "thinking", "thought"),
    )
)
_TOOLS = frozenset(("tools", "functions", "tool_calls", "function_call"))
_MOST_JSON = 100_000  # characters of a text that may be JSON
_MOST_ITEMS, _MOST_LEVELS = 100, 4  # of lists, and of mappings in one another


@dataclass(frozen=True)
class ValueMention:
    """A medium, a weight or a part of the conversation that a value speaks of.

    Attributes:
        below: keys from the value on, each after a dot; empty for the value itself.
        kind: kind of the medium; None for a weight or a part of the conversation.
        is_file: whether the value is the name of a file.
        is_talk: whether it is a part of the conversation.
    """

    below: str
    kind: Kind | None
    is_file: bool = False
    is_talk: bool = False


def mention_of(key: str, value: object) -> ValueMention | None:
    """What a key that decides nothing speaks of first; None if of nothing."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) <= _MOST_JSON:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return next(_find_mentions(key, value, key in FACTS), None)


def _find_mentions(
    key: str, value: object, is_facts: bool, below: str = "", levels: int = _MOST_LEVELS
) -> Iterator[ValueMention]:
    if isinstance(value, Mapping):
        for name, inner in value.items() if levels else ():
            if isinstance(name, str):
                place = f"{below}.{name}"
                yield from _of_facts(name, inner, is_facts, place)
                yield from _find_mentions(name, inner, is_facts, place, levels - 1)
    elif isinstance(value, list):
        for item in islice(value, _MOST_ITEMS) if levels else ():
            yield from _find_mentions(key, item, is_facts, below, levels - 1)
    else:
        named = file_kind(value) if isinstance(value, str) else None
        kind = medium_of_number(key) if _is_number_of_one(value) else None
        if named or kind:
            yield ValueMention(below, named or kind, is_file=named is not None)


def _of_facts(key: str, value: object, is_facts: bool, place: str) -> Iterator[ValueMention]:
    """Media, weights and parts of the conversation that a key below another names by itself."""
    is_number = isinstance(value, bool | int | float)
    is_talk = (key in _TEXTS and _is_sentence(value)) or (key in _TOOLS and _has_mapping(value))
    if is_facts and is_talk:
        yield ValueMention(place, None, is_talk=True)
    if is_facts and (
        (key in _WEIGHTS and (is_number or isinstance(value, list)))
        or (key in _SWITCHES and is_number and value in (0, 1))
    ):
        yield ValueMention(place, None)
    kind = medium_of(key)
    if kind is not None and _is_something(value):
        yield ValueMention(place, kind)


def _is_something(value: object) -> bool:
    return value not in (None, "", 0, [], {})


def _is_sentence(value: object) -> bool:
    """Whether a value is a text of several words, and not a name such as `linux`."""
    return isinstance(value, str) and len(value.split(maxsplit=2)) > 1


def _has_mapping(value: object) -> bool:
    """Whether a value describes a tool or a call, or several."""
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, Mapping) and item for item in items)


def _is_number_of_one(value: object) -> bool:
    """Whether a value numbers a medium, as 0 does, and not NaN, which tables have for null."""
    return not (value is None or value == "" or isinstance(value, bool) or value != value)
