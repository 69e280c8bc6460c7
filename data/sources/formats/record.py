"""Records of any format: a conversation and its media.

    {"conversations": [{"from": "human", "value": "<image>\\nWhat is this?"},
                       {"from": "gpt", "value": "A cat."}],
     "image": "a.png"}

    {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"},
                                               {"type": "text", "text": "What is this?"}]},
                  {"role": "assistant", "content": "A cat."}]}

    {"question": "What is this?", "answer": "A cat.", "image": "a.png"}

Media are in fields named as their kind, `image` or `images` (one or a list), and belong to
the placeholders in order, or to the parts of messages by their `index`; or they are in the parts
of a message. Each is a path, a data URI, bytes,
or `{"bytes", "path"}` as hubs have it. Where a kind has several encoders, the field `image_encoder`
or `image_encoders` may name that of all images, or a list that of each, null for those of
`data.routes`. `data.source.fields` gives all of these other names. Other fields are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from data.config import ONLY_WHERE_TAKEN, FieldsConfig
from data.faults import Fault, FaultKind
from data.kinds.blob import Blob
from data.kinds.modality import Kind
from data.kinds.registry import KINDS
from data.sample import Role, SampleError, Turn

_ROLES: dict[str, Role] = {"human": "user", "gpt": "assistant", "system": "system"}
#: Fields that hold conversations, if `data.source.fields` names none.
CONVERSATIONS = ("conversations", "messages")


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)


_Bytes = bytes  # in a class that has a field of this name


class Stored(_Shape):
    """A medium as hubs store it: bytes, or else the path of a file."""

    bytes: _Bytes | None = None
    path: str | None = None


Reference = str | bytes | Stored | Blob


class _Utterance(_Shape):
    speaker: Literal["human", "gpt", "system"] = Field(alias="from")
    value: str


class _Url(_Shape):
    url: str


class _Spoken(_Shape):
    data: str  # in base64


#: Kind of the media in the parts of messages, by the type of the part.
_KIND_OF = {part: name for name, kind in KINDS.items() for part in kind.parts}


class _Part(_Shape):
    type: str
    text: str | None = None
    path: str | None = None
    url: str | None = None
    index: int | None = None  # among the media beside the messages

    @property
    def kind(self) -> Kind | None:
        """The kind of media of the part; None for text."""
        return _KIND_OF.get(self.type)

    @property
    def medium(self) -> Reference | None:
        """The medium of a part; None if it is one of the media beside the messages."""
        own = getattr(self, self.type)
        if isinstance(own, _Url):
            return own.url
        if isinstance(own, _Spoken):
            return f"data:;base64,{own.data}"
        return next((found for found in (own, self.path, self.url) if found is not None), None)


class _Message(_Shape):
    role: Role
    content: str | list[_Part]


def _part_type() -> type[_Part]:
    """A part that may be a medium of any kind, each in a field of its own."""

    def form(part: str, kind: Kind) -> Any:
        if part == kind:
            return Reference | None
        return _Spoken | None if part.startswith("input_") else str | _Url | None

    fields: dict[str, Any] = {part: (form(part, kind), None) for part, kind in _KIND_OF.items()}
    fields["type"] = (Literal[("text", *_KIND_OF)], ...)
    made: type[_Part] = create_model("_Part", __base__=_Part, **fields)
    return made


def _message_type() -> Any:
    content: Any = (str | GenericAlias(list, (_part_type(),)), ...)
    return create_model("_Message", __base__=_Message, content=content)


T = TypeVar("T")
S = TypeVar("S")
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_UTTERANCES: TypeAdapter[list[_Utterance]] = TypeAdapter(list[_Utterance])
_MESSAGES: TypeAdapter[list[_Message]] = TypeAdapter(
    cast(Any, GenericAlias(list, (_message_type(),)))
)
_REFERENCES: TypeAdapter[list[Reference]] = TypeAdapter(list[Reference], config=_STRICT)

Media = Mapping[Kind, Sequence[Reference]]
#: Encoders of media, None for that of `data.routes`.
Names = tuple[str | None, ...]
#: By kind, the encoder that each medium is for.
Encoders = Mapping[Kind, Names]
#: Indices by which parts of messages name the media beside the messages, by kind.
Places = Mapping[Kind, list[int | None]]


@dataclass(frozen=True)
class Conversation:
    """A record that has been understood: turns with placeholders, and their media in order."""

    turns: tuple[Turn, ...]
    media: Media
    encoders: Encoders = field(default_factory=dict)


@dataclass(frozen=True)
class Caption:
    """A record that is nothing but a text about its media."""

    text: str


class _ShapeError(Exception):
    """A record of wrong shape."""


@dataclass(frozen=True)
class RecordForm:
    """Understands records.

    fields: where a record keeps its parts; marks: placeholders of media in the text.
    """

    fields: FieldsConfig
    marks: Mapping[Kind, str]

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Fields of which a record has one: a conversation, or an answer."""
        if self.fields.answer is not None:
            return (self.fields.answer,)
        return CONVERSATIONS if self.fields.conversation is None else (self.fields.conversation,)

    def media_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which a record may have one."""
        given = getattr(self.fields, kind, None)
        return KINDS[kind].fields if given is None else (given,)

    def encoder_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which one may name the encoders of media."""
        given = getattr(self.fields, f"{kind}_encoder", None)
        return (f"{kind}_encoder", f"{kind}_encoders") if given is None else (given,)

    def is_told(self, record: object) -> bool:
        """Whether a record has a conversation or an answer."""
        fields = self.text_fields
        return isinstance(record, Mapping) and any(record.get(f) is not None for f in fields)

    def parse(self, name: str, record: object, beside: Media | None = None) -> Conversation:
        """The conversation of a record.

        Args:
            name: name of the record in messages.
            record: record as read from a file.
            beside: media that come with the record, for one that itself names none of their kind.

        Raises:
            SampleError: the record has a wrong structure; the message says where.
        """
        try:
            return self._parse(record, beside or {})
        except _ShapeError as error:
            raise SampleError(
                name, Fault(FaultKind.RECORD, f"record of wrong shape: {error}")
            ) from error

    def _parse(self, record: object, beside: Media) -> Conversation:
        if isinstance(record, Caption):
            return Conversation(self._placed("", record.text, beside), _whole(beside))
        if not isinstance(record, Mapping):
            raise _ShapeError(f"a {type(record).__name__}, not a mapping of fields")
        listed = {kind: self._listed(record, kind) for kind in KINDS}
        if self.fields.answer is not None:
            media = {kind: listed[kind] or beside.get(kind, ()) for kind in KINDS}
            turns = self._asked(record, self.fields.answer, media)
            return Conversation(turns, media, self._encoders(record, media))
        turns, inner, places = self._told(record)
        for kind in KINDS:
            if inner[kind] and listed[kind]:
                raise _ShapeError(f"{kind} media are both in the messages and beside them")
        media = {
            kind: inner[kind] or _picked(kind, listed[kind] or beside.get(kind, ()), places[kind])
            for kind in KINDS
        }
        encoders = self._encoders(record, media)
        return Conversation(
            turns, media, {k: tuple(_picked(k, own, places[k])) for k, own in encoders.items()}
        )

    def _listed(self, record: Mapping[str, Any], kind: Kind) -> Sequence[Reference]:
        """Media of a kind in a field of their own."""
        field, value = _chosen(record, self.media_fields(kind))
        if value is None or (kind in ONLY_WHERE_TAKEN and isinstance(value, int | float)):
            return ()
        return _validated(_REFERENCES, field, value if isinstance(value, list) else [value])

    def _asked(self, record: Mapping[str, Any], answer: str, media: Media) -> tuple[Turn, ...]:
        asked = "" if self.fields.question is None else _text(record, self.fields.question)
        return self._placed(asked, _text(record, answer), media)

    def _placed(self, asked: str, told: str, media: Media) -> tuple[Turn, ...]:
        """Turns of a question and its answer; media that neither mentions come first."""
        marks = [
            self.marks[kind] + "\n"
            for kind, items in media.items()
            if self.marks[kind] not in asked + told
            for _ in items
        ]
        asked = "".join(marks) + asked
        turns = [Turn("user", asked)] if asked else []
        return (*turns, Turn("assistant", told))

    def _told(self, record: Mapping[str, Any]) -> tuple[tuple[Turn, ...], Media, Places]:
        """Turns of a conversation, media in its parts, and places of media beside it."""
        field, value = _chosen(record, self.text_fields)
        if value is None:
            names = " or ".join(self.text_fields)
            raise _ShapeError(f"{names}: Field required; it has {', '.join(map(str, record))}")
        turns = _from_json(field, value) if isinstance(value, str) else value
        media: dict[Kind, list[Reference]] = {kind: [] for kind in KINDS}
        places: Places = {kind: [] for kind in KINDS}
        if (
            isinstance(turns, list)
            and turns
            and isinstance(turns[0], Mapping)
            and "role" in turns[0]
        ):
            messages = _validated(_MESSAGES, field, turns)
            told = [Turn(m.role, self._joined(m.content, media, places)) for m in messages]
            return tuple(told), media, places
        utterances = _validated(_UTTERANCES, field, turns)
        return tuple(Turn(_ROLES[u.speaker], u.value) for u in utterances), media, places

    def _joined(
        self, content: str | list[_Part], media: dict[Kind, list[Reference]], places: Places
    ) -> str:
        """Text of a message, with a placeholder for every part that is a medium."""
        if isinstance(content, str):
            return content
        pieces = []
        for part in content:
            kind, medium = part.kind, part.medium
            if kind is None:
                pieces.append(part.text or "")
                continue
            pieces.append(self.marks[kind])
            if medium is None:
                places[kind].append(part.index)
            else:
                media[kind].append(medium)
        return "".join(pieces)

    def _encoders(self, record: Mapping[str, Any], media: Media) -> dict[Kind, Names]:
        """Encoders that a record names for its media, in the order in which it lists these."""
        found = {}
        for kind in KINDS:
            field, value = _chosen(record, self.encoder_fields(kind))
            if value is not None and media[kind]:
                found[kind] = _names(field, value, len(media[kind]), kind)
        return found


def _names(field: str, value: object, count: int, kind: Kind) -> Names:
    """The encoder of each of so many media."""
    names = [value] * count if isinstance(value, str) else value
    if not isinstance(names, list) or not all(n is None or isinstance(n, str) for n in names):
        raise _ShapeError(f"{field}: {value!r:.80} is no name, nor a list of names and nulls")
    if len(names) != count:
        raise _ShapeError(f"{field}: {len(names)} names of {count} {kind} media")
    return tuple(names)


def _picked(kind: Kind, items: Sequence[S], places: Sequence[int | None]) -> Sequence[S]:
    """The media beside messages, in the order in which the parts of messages name them."""
    named = [place for place in places if place is not None]
    if not named:
        return items
    if len(named) < len(places) or {*named} != {*range(len(items))}:
        raise _ShapeError(
            f"{kind} parts have the indices {[*places]!r:.80} of {len(items)} beside the messages; "
            "valid: all of these from 0, or none"
        )
    return [items[place] for place in named]


def _whole(media: Media) -> Media:
    """`media` with every kind."""
    return {kind: media.get(kind, ()) for kind in KINDS}


def _chosen(record: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, Any]:
    """The one of `fields` that a record has, and its value; None if it has none."""
    present = [field for field in fields if record.get(field) is not None]
    if len(present) > 1:
        both = " and ".join(present)
        raise _ShapeError(f"it has {both}; data.source.fields says which one is meant")
    return (present[0], record[present[0]]) if present else (fields[0], None)


def _text(record: Mapping[str, Any], field: str) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        raise _ShapeError(f"{field}: a {type(value).__name__}, not a text")
    return value


def _from_json(field: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _ShapeError(f"{field}: not JSON: {error}") from error


def _validated(adapter: TypeAdapter[T], field: str, value: object) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise _ShapeError(_explain(field, error)) from error


def _explain(field: str, error: ValidationError) -> str:
    """`conversations.1.from: Input should be 'human', 'gpt' or 'system'` and so on."""
    found = error.errors(include_url=False, include_input=False)
    # If several readings failed, the one that went the furthest says most.
    deepest = max(found, key=lambda one: len(one["loc"]))
    return f"{'.'.join([field, *map(str, deepest['loc'])])}: {deepest['msg']}"
