"""Turns of a conversation, in each form that people write, as utterances with their media.

    {"from": "human", "value": "<image>\\nWhat is this?"}              LLaVA, ShareGPT
    {"role": "user", "content": "<image>\\nWhat is this?"}             messages
    {"role": "user", "content": [{"type": "image", "image": "a.png"},  messages of typed parts
                                 {"type": "text", "text": "What?"}]}
    {"role": "user", "content": "What is this?", "images": ["a.png"]}  ollama
    {"user": "What is this?", "assistant": "A cat."}                   the_cauldron

In a text a placeholder stands for a medium, but not in a part of type text, nor anywhere in a
conversation some of whose media are typed parts: there it is a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.media.file_bytes import FileBytes
from data.media.naming import medium_of
from data.media.registry import MEDIA_TYPES
from data.quotes import quoted
from data.rows.spec import Kind
from data.sample import Role, Turn, pattern_of
from data.sources.formats.records.keys import MEDIUM, MESSAGE, PART, WEIGHTS, RecordKeys, ShapeError
from data.text.tags import refuse_tags

#: Roles by the names that turns and messages give them.
ROLES: Mapping[str, Role] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
#: Names of roles that are not read, by the name of the one that is meant.
_LIKELY_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("developer", "sys", "system_prompt"), "system"),
    **dict.fromkeys(
        ("model", "bot", "ai", "chatbot", "chatgpt", "claude", "bard", "bing", "llm", "agent"),
        "assistant",
    ),
    **dict.fromkeys(("prompter", "customer", "instruction", "question", "questioner"), "user"),
    **dict.fromkeys(("answer", "output", "response"), "assistant"),
}
#: Roles of conversations with tools.
TOOL_ROLES = (
    *("tool", "function", "observation", "ipython", "tool_call", "tool_calls", "tool_response"),
    *("tool_result", "function_call", "function_response"),
)
#: Types of parts that are known and not read, with the way out.
REFUSED_PARTS: Mapping[str, str] = {
    **dict.fromkeys(
        ("reasoning", "thinking", "redacted_thinking"),
        "reasoning is not read by itself yet; valid: write it into a part of type text, or "
        "leave it out",
    ),
    **dict.fromkeys(
        ("tool_use", "tool_result", "tool_call", "tool_response", "function_call", "function"),
        "calls of tools are not read yet; valid: write them into parts of type text",
    ),
    **dict.fromkeys(("input_text", "output_text"), "valid: text"),
    **dict.fromkeys(("file", "document", "input_file"), "documents are not read; valid: images"),
    "refusal": "a refusal is an answer; valid: its text in a part of type text",
}
#: Kind of the media in the parts of messages, by the type of the part.
KIND_OF: Mapping[str, Kind] = {
    part: name for name, media_type in MEDIA_TYPES.items() for part in media_type.part_types
}
#: Names by which a turn says who speaks, and those of what is said.
FORMS = (("role", "content"), ("from", "value"))
#: Names of a question and its answer in one turn.
QUESTION_KEY, ANSWER_KEY = "user", "assistant"


_Bytes = bytes  # in a class that has a field of this name


@dataclass(frozen=True)
class StoredMedium:
    """A medium as hubs store it: bytes, or else the path of a file."""

    bytes: _Bytes | None = None
    path: str | None = None


Reference = str | bytes | StoredMedium | FileBytes
Media = Mapping[Kind, Sequence[Reference]]
#: Indices by which parts of messages name the media next to the messages, by kind.
Places = Mapping[Kind, list[int | None]]


@dataclass(frozen=True)
class TypedMedium:
    """A medium in a typed part; without a reference it is one of those next to the messages."""

    kind: Kind
    reference: Reference | None
    index: int | None


@dataclass(frozen=True)
class RecordTurn:
    """A turn as a record has it.

    Attributes:
        place: its place in the record.
        role: who speaks.
        content: a text, or the texts and media of typed parts.
        media: media in fields of the turn itself, by kind.
        learnt: whether it is learnt, if it is an answer.
        paired: whether it comes with its answer, or question, in one turn of the record.
    """

    place: str
    role: Role
    content: str | Sequence[str | TypedMedium]
    media: Media = field(default_factory=dict)
    learnt: bool = True
    paired: bool = False

    @property
    def is_typed(self) -> bool:
        """Whether a medium is a typed part."""
        return any(isinstance(part, TypedMedium) for part in self.content)


@dataclass(frozen=True)
class SpokenTurns:
    """The turns of a record.

    Attributes:
        turns: the turns.
        media: media inside of them, by kind.
        places: places that parts name of media next to them.
        paired: whether nothing stands for a medium, as in pairs of a question and its answer.
    """

    turns: tuple[Turn, ...]
    media: Media
    places: Places
    paired: bool


def join_utterances(utterances: Sequence[RecordTurn], marks: Mapping[Kind, str]) -> SpokenTurns:
    """Utterances as turns, in whose texts `marks` are the placeholders of media.

    Raises:
        ShapeError: a turn has other media than placeholders, or names some between tags.
    """
    media: dict[Kind, list[Reference]] = {kind: [] for kind in MEDIA_TYPES}
    places: Places = {kind: [] for kind in MEDIA_TYPES}
    mark = pattern_of(marks.values())
    typed = any(utterance.is_typed for utterance in utterances)
    turns = []
    for utterance in utterances:
        for kind, items in utterance.media.items():
            media[kind] += items
        if isinstance(utterance.content, str):
            if not typed:
                check_tags(utterance.place, utterance.content, marks)
            front = "".join(_in_front(utterance, kind, marks[kind]) for kind in utterance.media)
            turn = Turn(utterance.role, front + utterance.content, utterance.learnt)
            turns.append(turn.with_words(mark) if typed else turn)
            continue
        turns.append(_join_parts(utterance, utterance.content, marks, mark))
        for part in utterance.content:
            if isinstance(part, TypedMedium) and part.reference is None:
                places[part.kind].append(part.index)
            elif isinstance(part, TypedMedium) and part.reference is not None:
                media[part.kind].append(part.reference)
    return SpokenTurns(
        tuple(turns), media, places, any(utterance.paired for utterance in utterances)
    )


def _join_parts(
    utterance: RecordTurn,
    parts: Sequence[str | TypedMedium],
    marks: Mapping[Kind, str],
    mark: re.Pattern[str],
) -> Turn:
    """Typed parts as a turn, with a placeholder for each medium; those in texts are words."""
    text, media = "", set()
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            media.add(len(text))
            text += marks[part.kind]
    # Of the whole text, as two parts may spell a placeholder together.
    places = (placeholder.start() for placeholder in mark.finditer(text))
    words = tuple(place for place in places if place not in media)
    return Turn(utterance.role, text, utterance.learnt, words)


def _in_front(utterance: RecordTurn, kind: Kind, mark: str) -> str:
    """Placeholders before the text of a turn for its own media, if the text has none."""
    count, placeholders = len(utterance.media[kind]), str(utterance.content).count(mark)
    if count and placeholders not in (0, count):
        raise ShapeError(
            f"{utterance.place}: {placeholders} {mark} placeholders for {count} {kind} files"
        )
    return "" if placeholders else (mark + "\n") * count


# ---- reading -------------------------------------------------------------------------------------


def utterances_of(keys: RecordKeys, field: str, value: object) -> list[RecordTurn]:
    """The turns in a field of a record.

    Raises:
        ShapeError: they are none; the message says where.
    """
    if not isinstance(value, list):
        raise ShapeError(f"{field}: {describe_type(value)}, not a list of turns")
    utterances: list[RecordTurn] = []
    for number, turn in enumerate(value):
        if not isinstance(turn, Mapping):
            reason = f"{describe_type(turn)}, not a turn such as {{role, content}}"
            raise ShapeError(f"{field}.{number}: {reason}")
        turn_keys = keys.inner_keys(turn, MESSAGE, field, number)
        utterances += (
            _parse_exchange(turn_keys)
            if QUESTION_KEY in turn_keys or ANSWER_KEY in turn_keys
            else [_parse_utterance(turn_keys)]
        )
    return utterances


def _parse_utterance(keys: RecordKeys) -> RecordTurn:
    speaker, said = next((form for form in FORMS if form[0] in keys), FORMS[0])
    name, value = keys.read_value(speaker), keys.read_value(said)
    media, learnt = _media_of_turn(keys), _stated_weight(keys)
    if isinstance(name, str) and name in TOOL_ROLES:
        raise ShapeError(
            f"{keys.place_of(speaker)}: {name!r}: tools and calls of tools are not read yet; "
            "valid: records without, or with their results as text of the user"
        )
    keys.check_unread()
    role = ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise ShapeError(f"{keys.place_of(speaker)}: {_no_role(name)}")
    if isinstance(value, list):
        content: Any = list(_parse_parts(keys, said, value))
        if any(media.values()):
            raise ShapeError(f"{keys.place}: media are in a field of the message and in its parts")
    else:
        content = text_of(keys, said, value)
    return RecordTurn(keys.place, role, content, media, _check_learnt(keys, role, learnt))


def _no_role(name: object) -> str:
    """Why a name is that of no role, and which one is meant."""
    valid = f"valid: {', '.join(ROLES)}"
    if name is None:
        return f"Field required; {valid}"
    low = name.strip().lower() if isinstance(name, str) else ""
    likely = low if low in ROLES else _LIKELY_ROLES.get(low)
    meant = "" if likely is None else f"; {likely} may be meant"
    return f"{quoted(name)}; {valid}{meant}"


def _parse_exchange(keys: RecordKeys) -> list[RecordTurn]:
    """A question and its answer, in one turn."""
    question, answer = keys.read_value(QUESTION_KEY), keys.read_value(ANSWER_KEY)
    media, learnt = _media_of_turn(keys), _stated_weight(keys)
    keys.check_unread()
    return [
        RecordTurn(keys.place, "user", text_of(keys, QUESTION_KEY, question), media, paired=True),
        RecordTurn(
            keys.place,
            "assistant",
            text_of(keys, ANSWER_KEY, answer),
            learnt=learnt is not False,
            paired=True,
        ),
    ]


def _stated_weight(keys: RecordKeys) -> bool | None:
    """Whether a turn says that it is learnt; None if it does not say, or nothing is learnt."""
    said: dict[str, bool] = {}
    if not keys.purpose.is_learnt:
        for key in WEIGHTS:
            keys.read_value(key)
        return None
    for key in WEIGHTS:
        value = keys.read_value(key)
        if value is None:
            continue
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise ShapeError(
                f"{keys.place_of(key)}: {quoted(value)}; valid: 0 or 1 (false or true): an answer "
                "is learnt or not"
            )
        said[key] = bool(value)
    if len({*said.values()}) > 1:
        weights = " and ".join(f"{key} {str(value).lower()}" for key, value in said.items())
        raise ShapeError(f"{keys.place}: {weights} contradict each other; valid: one of them")
    return next(iter(said.values()), None)


def _check_learnt(keys: RecordKeys, role: Role, learnt: bool | None) -> bool:
    """Whether a turn is learnt, if it is an answer; raises ShapeError for another that shall be."""
    if role != "assistant" and learnt:
        raise ShapeError(
            f"{keys.place}: it says that a turn of the {role} is learnt; only answers are"
        )
    return learnt is not False


def _media_of_turn(keys: RecordKeys) -> dict[Kind, list[Reference]]:
    """Media in fields of a turn itself."""
    media = {}
    for kind, medium in MEDIA_TYPES.items():
        key, value = keys.one_of(medium.record_fields, "valid: one of them")
        media[kind] = media_references(keys, key, value)
    return {kind: items for kind, items in media.items() if items}


def _parse_parts(keys: RecordKeys, said: str, values: list[Any]) -> Iterator[str | TypedMedium]:
    for number, part in enumerate(values):
        if not isinstance(part, Mapping):
            place = keys.place_of(f"{said}.{number}")
            raise ShapeError(f"{place}: {describe_type(part)}, not a part such as {{type, text}}")
        part_keys = keys.inner_keys(part, PART, said, number)
        kind = part_keys.read_value("type")
        if kind == "text":
            text = part_keys.read_value("text")
            part_keys.check_unread()
            yield text_of(part_keys, "text", text)
        elif isinstance(kind, str) and kind in KIND_OF:
            yield _typed_medium(part_keys, kind)
        else:
            raise ShapeError(f"{part_keys.place_of('type')}: {_no_type(kind)}")


def _no_type(name: object) -> str:
    """Why a part has no type that is read."""
    if isinstance(name, str) and name in REFUSED_PARTS:
        return f"{name!r}: {REFUSED_PARTS[name]}"
    kind = medium_of(name) if isinstance(name, str) else None
    valid = ", ".join(("text", *KIND_OF) if kind is None else MEDIA_TYPES[kind].part_types)
    return f"{'Field required' if name is None else quoted(name)}; valid: {valid}"


def _typed_medium(keys: RecordKeys, name: str) -> TypedMedium:
    """A part that is a medium."""
    kind = KIND_OF[name]
    form, value = keys.one_of((name, "path", "url"), "valid: one of them")
    index = keys.read_value("index")
    keys.check_unread()
    if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
        raise ShapeError(f"{keys.place_of('index')}: {quoted(index)} is no whole number")
    if isinstance(value, Mapping) and form == name and name != kind:
        value = _unwrap_medium(keys, name, value)
    return TypedMedium(kind, None if value is None else media_reference(keys, form, value), index)


def _unwrap_medium(keys: RecordKeys, name: str, value: Mapping[Any, Any]) -> Any:
    """The medium in `{"url": ...}` or, in base64, in `{"data": ...}`, as OpenAI's parts have it."""
    inner_keys = keys.inner_keys(value, PART, name)
    inner = "data" if name.startswith("input_") else "url"
    text = inner_keys.read_value(inner)
    inner_keys.check_unread()
    text_of(inner_keys, inner, text)
    is_bare = inner == "data" and text[:5].lower() != "data:"
    return f"data:;base64,{text}" if is_bare else text


# ---- values --------------------------------------------------------------------------------------


def media_references(keys: RecordKeys, field: str, value: Any) -> list[Reference]:
    """The media in a field: one, or a list; none in null, an empty text or an empty list."""
    if value is None or value in ("", []):
        return []
    if not isinstance(value, list):
        return [media_reference(keys, field, value)]
    return [media_reference(keys, field, item, number) for number, item in enumerate(value)]


def media_reference(
    keys: RecordKeys, field: str, value: Any, number: int | None = None
) -> Reference:
    """A medium in a field, or in item `number` of it. Raises ShapeError: it is none."""
    if isinstance(value, bytes | FileBytes) or (isinstance(value, str) and value):
        return value
    if isinstance(value, Mapping) and _is_stored(value):
        medium = keys.inner_keys(value, MEDIUM, field, number)
        data, path = medium.read_value("bytes"), medium.read_value("path")
        medium.check_unread()
        if isinstance(data, bytes) or (data is None and isinstance(path, str) and path):
            return StoredMedium(data, path if isinstance(path, str) else None)
        value = {"bytes": describe_type(data), "path": describe_type(path)}
    raise ShapeError(
        f"{keys.place_of(field if number is None else f'{field}.{number}')}: {quoted(value)} is no "
        "medium; valid: a path, a data URI, bytes, or {bytes, path}"
    )


def _is_stored(value: Mapping[Any, Any]) -> bool:
    return value.get("bytes") is not None or value.get("path") is not None


def text_of(keys: RecordKeys, field: str, value: object) -> str:
    """A text of a record. Raises ShapeError: it is none."""
    if not isinstance(value, str):
        raise ShapeError(f"{keys.place_of(field)}: {describe_type(value)}, not a text")
    return value


def check_tags(place: str, text: str, marks: Mapping[Kind, str]) -> None:
    """Raise ShapeError for a text that names a medium between tags, `<img>a.png</img>`."""
    if why := refuse_tags(text, marks):
        raise ShapeError(f"{place}: {why}")


def describe_type(value: object) -> str:
    """The kind of a value, in a message."""
    if value is None:
        return "null"
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
