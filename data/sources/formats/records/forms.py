"""What a record is that has no conversation, and how people turn it into one.

Names of `data.source.fields` are proposed where a record can be read by them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from data.config import ONLY_WHERE_TAKEN
from data.media.registry import MEDIA_TYPES
from data.quotes import enumerated
from data.sources.formats.records.advice import RecordReading, advice_for
from data.sources.formats.records.fields import (
    ANSWERS,
    CONVERSATIONS,
    PAIRS,
    QUESTIONS,
    PairFields,
    present_keys,
)
from data.sources.formats.records.keys import TRAINING, ReadPurpose, UnreadField, similar_key

#: What a value may be: a text, turns of a conversation, several values, or something else.
Sort = Literal["text", "turns", "several", "other"]

#: Fields of the path of a medium, which is likely an image.
_FILES = ("file_name", "filename", "image_path", "img")
#: Fields of conversations that are likely.
CHATS = ("conversation", "chat", "dialog", "dialogue", "turns", "history")
#: Fields of texts without questions.
_DOCUMENTS = ("text", "raw_text", "content", "raw_content", "document")
#: Keys of a turn, of which it has one at least.
_OF_TURNS = frozenset(("role", "from", "content", "value", "user", "assistant"))

_ONE_ANSWER = (
    "several right answers, as for evaluation; one answer is learnt; valid: one text, in answer "
    "(launch.py evaluate --questions reads lists)"
)
_TEXT_ALONE = (
    "a text alone, as for pretraining; only answers are learnt; valid: messages: [{role: user, "
    "content: A QUESTION}, {role: assistant, content: THE TEXT}], or a medium beside it"
)
_MESSAGES = (
    "a list of messages, as TRL has them in prompt and completion; valid: all of both in one list, "
    "messages, with weight: 0 for answers of the prompt"
)
_ASKED = "a list of messages; valid: this list as messages, in place of a text"
_RIGHT = "several right answers; valid: answers"


# ---- records -------------------------------------------------------------------------------------


def no_conversation(record: Mapping[Any, Any], reading: RecordReading, *, media: bool) -> str:
    """Why a record has no conversation, and what may be meant.

    Args:
        record: the record.
        reading: how records without a conversation are read.
        media: whether media come with the record.
    """
    refused = refused_key(record, reading)
    if refused is not None:
        return refused
    has, configured = listed_keys(record), reading.fields.fields.conversation
    if configured is not None:
        return f"{configured}: Field required; it has {has}"
    sorts = {name: sort_of(value) for name, value in record.items() if isinstance(name, str)}
    media = media or has_medium(record, reading)
    named = known_form(sorts, media=media)
    if named is not None:
        return named
    texts = ((name, similar_key(str(name), CONVERSATIONS)) for name in present_keys(record))
    near = [f"{name} is like {field}" for name, field in texts if field is not None]
    has = f"{has}; {enumerated(near)}" if near else has
    pairs = ", ".join(f"{pair.question} and {pair.answer}" for pair in PAIRS)
    reason = f"it has {has}; valid: {' or '.join(CONVERSATIONS)}; {pairs}; or others by"
    names = likely_fields(sorts, media=media)
    return f"{reason} {(names and reading.name_fields(**names)) or 'data.source.fields'}"


def refused_key(record: Mapping[Any, Any], reading: RecordReading) -> str | None:
    """What is to be done about the first key of a record that is refused by name, if any is."""
    there, level = present_keys(record), reading.purpose.level
    for name in record:
        if name in there and name in level.refused:
            return f"{name}: {advice_for(UnreadField(name, name, name, level, (), there), reading)}"
    return None


def listed_keys(record: Mapping[Any, Any]) -> str:
    """The keys of a record that have a value, and those that have none."""
    there = present_keys(record)
    has = enumerated(name for name in record if name in there) or "no keys"
    null = enumerated(name for name in record if name not in there)
    return f"{has}, null in {null}" if null else has


def has_medium(record: Mapping[Any, Any], reading: RecordReading) -> bool:
    """Whether a field of media has any."""
    for kind in MEDIA_TYPES:
        for name in reading.fields.media_fields(kind):
            value = record.get(name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value not in (None, "", []) and not (number and kind in ONLY_WHERE_TAKEN):
                return True
    return False


def sort_of(value: object) -> Sort:
    """What a value may be."""
    if isinstance(value, str):
        begin = value.lstrip()[:2]
        return "turns" if begin == "[{" else "text" if begin else "other"
    if isinstance(value, list):
        first = value[0] if value else {"role": ""}
        return "turns" if isinstance(first, Mapping) and is_turn(first) else "several"
    several = isinstance(value, Mapping) and any(isinstance(item, list) for item in value.values())
    return "several" if several else "other"


def is_turn(keys: Iterable[object]) -> bool:
    """Whether keys are those of a turn."""
    return not _OF_TURNS.isdisjoint(keys)


def no_text(pair: PairFields, name: str, sort: Sort, purpose: ReadPurpose = TRAINING) -> str | None:
    """What a field of a question or an answer holds that is no text, if that is known."""
    if sort == "turns":
        return f"{name}: {_MESSAGES if purpose.is_learnt else _ASKED}"
    if sort == "several" and name == pair.answer:
        return f"{name}: {_ONE_ANSWER if purpose.is_learnt else _RIGHT}"
    return None


# ---- forms ---------------------------------------------------------------------------------------


def known_form(sorts: Mapping[str, Sort], *, media: bool) -> str | None:
    """The name and the conversion of a form that is known, and not read, if a record has one.

    Args:
        sorts: what the values of fields are.
        media: whether there are media.
    """
    if likely_fields(sorts, media=media):
        return None
    texts = _text_names(sorts)
    lists = (name for name in ANSWERS if sorts.get(name) == "several")
    if any(name in texts for name in QUESTIONS) or media:
        return next((f"{name}: {_ONE_ANSWER}" for name in lists), None)
    alone = (name for name in _DOCUMENTS if name in texts)
    return next((f"{name}: {_TEXT_ALONE}" for name in alone), None)


def likely_fields(sorts: Mapping[str, Sort], *, media: bool) -> dict[str, str]:
    """`{"question": "problem", "answer": "solution"}`, if some fields are likely to be these."""
    texts = _text_names(sorts)
    answer = next((name for name in ANSWERS if name in texts), None)
    question = next((name for name in QUESTIONS if name in texts and name != answer), None)
    image = None if media else next((name for name in _FILES if name in texts), None)
    if answer is not None and (question or image or media):
        names = {"question": question, "answer": answer, "image": image}
        return {key: name for key, name in names.items() if name is not None}
    chat = next((name for name in CHATS if sorts.get(name) == "turns"), None)
    return {} if chat is None else {"conversation": chat}


def _text_names(sorts: Mapping[str, Sort]) -> Collection[str]:
    return [name for name, sort in sorts.items() if sort == "text"]
