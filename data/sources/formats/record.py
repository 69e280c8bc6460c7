"""Records of any format: a conversation and its media.

    {"conversations": [{"from": "human", "value": "<image>\\nWhat is this?"},
                       {"from": "gpt", "value": "A cat."}],
     "image": "a.png"}

    {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"},
                                               {"type": "text", "text": "What is this?"}]},
                  {"role": "assistant", "content": "A cat."}]}

    {"question": "What is this?", "answer": "A cat.", "image": "a.png"}

`turns.py` has the forms of turns. Media are in fields named as their kind, `image` or `images` (one
or a list), and belong to the placeholders in order, or to the parts of messages by their `index`;
or they are in the turns, or in the parts of a message. Each is a path, a data URI, base64, bytes,
or `{"bytes", "path"}` as hubs have it. Where a kind has several encoders, the field `image_encoder`
or `image_encoders` may name that of all images, or a list that of each, null for those of
`data.routes`. `data.source.fields` gives all of these other names. `keys.py` says what becomes of
other keys: some are harmless, and all others make a bad sample.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from data.config import ONLY_WHERE_TAKEN, FieldsConfig
from data.faults import Fault, FaultKind
from data.kinds.modality import Kind
from data.kinds.registry import KINDS
from data.quotes import enumerated, quoted
from data.sample import SampleError, Turn, pattern_of
from data.sources.formats.keys import (
    NONE_ALLOWED,
    RECORD,
    REFUSED_OF_RECORDS,
    Allowed,
    Keys,
    Met,
    ShapeError,
    like,
)
from data.sources.formats.turns import (
    Media,
    Reference,
    Spoken,
    check_tags,
    references,
    spoken,
    text_of,
    utterances_of,
    what,
)

S = TypeVar("S")
MEDIA = FaultKind.MEDIA

#: Fields that hold conversations, if `data.source.fields` names none.
CONVERSATIONS = ("conversations", "messages", "texts")
#: Field of a system message that stands before a conversation, if `data.source.fields` names none.
SYSTEM = "system"
#: Fields of a question and an answer that are likely, in messages.
_QUESTIONS = ("question", "query", "prompt", "instruction", "problem", "input", "user")
_ANSWERS = (
    *("answer", "response", "output", "completion", "solution", "caption", "text"),
    *("multiple_choice_answer", "answers", "label", "assistant"),
)
#: Fields of the path of a medium, which is likely an image.
_FILES = ("file_name", "filename", "image_path", "img")
_CHATS = ("conversation", "chat", "dialog", "dialogue", "turns", "history")

#: Encoders of media, None for that of `data.routes`.
Names = tuple[str | None, ...]
#: By kind, the encoder that each medium is for.
Encoders = Mapping[Kind, Names]


@dataclass(frozen=True)
class Pair:
    """Fields of a question and its answer.

    Attributes:
        question: field of what the user says; None: nothing but the media.
        answer: field of what is learnt; None for a question alone.
        behind: field of a text behind the question, which may be absent or empty.
        history: field of earlier questions with their answers, likewise.
    """

    question: str | None
    answer: str | None
    behind: str | None = None
    history: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields."""
        every = (self.question, self.answer, self.behind, self.history)
        return tuple(name for name in every if name is not None)


#: Questions and answers that are read if `data.source.fields` names none.
PAIRS = (
    Pair("question", "answer"),
    Pair("query", "response", history="history"),
    Pair("prompt", "completion"),
    Pair("instruction", "output", "input", "history"),
)


@dataclass(frozen=True)
class Conversation:
    """A record that has been understood: turns with placeholders, and their media in order.

    Attributes:
        turns: the turns.
        media: media by kind.
        encoders: encoders that the record names.
        met: keys of the record.
    """

    turns: tuple[Turn, ...]
    media: Media
    encoders: Encoders = field(default_factory=dict)
    met: Met = field(default_factory=Met, compare=False)


@dataclass(frozen=True)
class Caption:
    """A record that is nothing but a text about its media."""

    text: str


@dataclass(frozen=True)
class RecordForm:
    """Understands records.

    fields: where a record keeps its parts; marks: placeholders of media in the text; allowed: keys
    that need not be read.
    """

    fields: FieldsConfig
    marks: Mapping[Kind, str]
    allowed: Allowed = NONE_ALLOWED

    # ---- fields ----------------------------------------------------------------------------------

    def texts(self, keys: Collection[str]) -> tuple[str, ...] | Pair:
        """The fields of which a record with such keys has one, its conversation; or its pair.

        Args:
            keys: keys that have a value.

        Raises:
            ShapeError: there are several pairs.
        """
        given = self.fields
        if given.answer is not None:
            return Pair(given.question, given.answer)
        if given.conversation is not None:
            return (given.conversation,)
        pairs = [pair for pair in PAIRS if pair.question in keys and pair.answer in keys]
        if not pairs or {*CONVERSATIONS} & {*keys}:
            return CONVERSATIONS
        if len(pairs) > 1:
            both = " and ".join(f"{pair.question}, {pair.answer}" for pair in pairs)
            raise ShapeError(f"it has {both}; data.source.fields says which are meant")
        return pairs[0]

    @property
    def system(self) -> str:
        """Field of a system message."""
        return self.fields.system or SYSTEM

    def media_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which a record may have one."""
        given = getattr(self.fields, kind, None)
        return KINDS[kind].fields if given is None else (given,)

    def encoder_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which one may name the encoders of media."""
        given = getattr(self.fields, f"{kind}_encoder", None)
        return (f"{kind}_encoder", f"{kind}_encoders") if given is None else (given,)

    def fields_for(self, texts: tuple[str, ...] | Pair) -> tuple[str, ...]:
        """All fields that are read of a record with such texts."""
        named = texts.fields if isinstance(texts, Pair) else texts
        media = [name for kind in KINDS for name in self.media_fields(kind)]
        encoders = [name for kind in KINDS for name in self.encoder_fields(kind)]
        return (*named, self.system, *media, *encoders)

    def is_told(self, record: object) -> bool:
        """Whether a record has a conversation or an answer."""
        if not isinstance(record, Mapping):
            return False
        texts = self.texts(_present(record))
        wanted = (texts.answer or "",) if isinstance(texts, Pair) else texts
        return any(record.get(name) is not None for name in wanted)

    @property
    def names(self) -> frozenset[str]:
        """All fields that are read of some record."""
        texts = [self.texts(()), *(PAIRS if self._is_open else ())]
        return frozenset(name for own in texts for name in self.fields_for(own))

    @property
    def _is_open(self) -> bool:
        """Whether no field of texts has a name given."""
        return self.fields.answer is None and self.fields.conversation is None

    def check_metadata(self, record: Mapping[Any, Any]) -> None:
        """See that what lies beside a caption has nothing in it that records are read for.

        Raises:
            ShapeError: it has, or something that is like it.
        """
        numbers = {
            f for kind in KINDS for f in KINDS[kind].fields if _is_number(kind, record.get(f))
        }
        for name in self.names - numbers:
            if record.get(name) not in (None, "", []):
                raise ShapeError(
                    f"{name}: it is not read beside a caption; valid: a record with the caption as "
                    "its answer, or metadata without this key"
                )
        keys = Keys(record, RECORD, "", Allowed(self.allowed.ignored, others=True), Met())
        for name in self.names:
            keys.value(name)
        keys.close()

    # ---- records ---------------------------------------------------------------------------------

    def parse(self, name: str, record: object, beside: Media | None = None) -> Conversation:
        """The conversation of a record.

        Args:
            name: name of the record in messages.
            record: record as read from a file.
            beside: media that come with the record, for one that itself names none of their kind;
                None where records come alone.

        Raises:
            SampleError: the record has a wrong structure; the message says where.
        """
        try:
            return self._parse(record, beside)
        except ShapeError as error:
            told = str(error)
            if error.kind is FaultKind.RECORD:
                told = f"record of wrong shape: {told}"
            raise SampleError(name, Fault(error.kind, told)) from error

    def _parse(self, record: object, beside: Media | None) -> Conversation:
        if isinstance(record, Caption):
            media = _whole(beside or {})
            if not any(media.values()):
                raise ShapeError("a caption without media; valid: an image or a clip beside", MEDIA)
            check_tags("caption", record.text, self.marks)
            return Conversation(self._placed("", record.text, media), media)
        if not isinstance(record, Mapping):
            raise ShapeError(f"{what(record)}, not a mapping of fields")
        keys = Keys(record, RECORD, "", self.allowed, Met())
        texts = self.texts(_present(record))
        if isinstance(texts, Pair):
            return self._pair(keys, texts, beside)
        return self._dialogue(keys, texts, beside)

    # ---- a question and its answer ---------------------------------------------------------------

    def _pair(self, keys: Keys, pair: Pair, beside: Media | None) -> Conversation:
        asked, told = (
            None if name is None else self._text(keys, name, keys.value(name))
            for name in (pair.question, pair.answer)
        )
        behind = None if pair.behind is None else keys.value(pair.behind)
        if behind:
            asked = f"{asked}\n{self._text(keys, pair.behind or '', behind)}"
        earlier = [] if pair.history is None else self._history(keys, pair.history)
        system, listed = self._system(keys), self._listed(keys)
        media = {kind: listed[kind] or (beside or {}).get(kind, ()) for kind in KINDS}
        encoders = self._encoders(keys, media)
        keys.close()
        self._check_media(keys, media, beside)
        if not asked and not any(media.values()):
            raise ShapeError("there is neither a question nor a medium before the answer", MEDIA)
        turns = self._in_front((*earlier, *self._turns(asked or "", told)), media)
        return Conversation((*system, *turns), media, encoders, keys.met)

    def _history(self, keys: Keys, name: str) -> list[Turn]:
        """Earlier questions with their answers: a list of pairs."""
        value = keys.value(name)
        turns = []
        for number, pair in enumerate(value or () if isinstance(value, list | None) else (value,)):
            if not isinstance(pair, list) or len(pair) != 2:
                raise ShapeError(f"{name}.{number}: {quoted(pair)} is no [question, answer]")
            asked, told = (self._text(keys, f"{name}.{number}", own) for own in pair)
            turns += [Turn("user", asked), Turn("assistant", told)]
        return turns

    def _placed(self, asked: str, told: str, media: Media) -> tuple[Turn, ...]:
        """Turns of a question and its answer; media that neither mentions come first."""
        return self._in_front(self._turns(asked, told), media)

    def _turns(self, asked: str, told: str | None) -> tuple[Turn, ...]:
        answer = () if told is None else (Turn("assistant", told),)
        return (Turn("user", asked), *answer)

    def _in_front(self, turns: Sequence[Turn], media: Media) -> tuple[Turn, ...]:
        """Turns, before which come media that no text mentions; a first one is dropped if empty."""
        first, *others = turns
        marks = [
            self.marks[kind] + "\n"
            for kind, items in media.items()
            if not any(self.marks[kind] in turn.text for turn in turns)
            for _ in items
        ]
        front = "".join(marks)
        words = tuple(len(front) + word for word in first.words)
        begun = replace(first, text=front + first.text, words=words)
        return (*((begun,) if begun.text else ()), *others)

    def _check_media(self, keys: Keys, media: Media, beside: Media | None) -> None:
        """See that there are media where nothing in a text counts them.

        Raises:
            ShapeError: a field of media, or a sample of members, holds none.
        """
        fields = [
            name
            for kind in KINDS
            for name in self.media_fields(kind)
            if keys.has(name) and not _is_number(kind, keys.value(name))
        ]
        if any(media.values()):
            return
        if fields:
            raise ShapeError(
                f"{enumerated(fields)} holds no medium, and the texts would be learnt without; "
                "valid: a medium, messages for a conversation without, or a record without the key",
                MEDIA,
            )
        if beside is not None:
            raise ShapeError(
                "no member of the sample is a medium, and the texts would be learnt without; "
                "valid: a medium, or messages for a conversation without",
                MEDIA,
            )

    # ---- conversations ---------------------------------------------------------------------------

    def _dialogue(self, keys: Keys, fields: tuple[str, ...], beside: Media | None) -> Conversation:
        name, value = keys.one_of(fields, "data.source.fields says which one is meant")
        if value is None:
            raise ShapeError(self._nothing(keys, fields))
        turns = _from_json(name, value) if isinstance(value, str) else value
        told = self._spoken(keys, name, turns)
        system, listed = self._system(keys), self._listed(keys)
        for kind in KINDS:
            if told.media[kind] and listed[kind]:
                raise ShapeError(f"{kind} media are both in the {name} and beside them")
        media = {
            kind: told.media[kind]
            or _picked(kind, listed[kind] or (beside or {}).get(kind, ()), told.places[kind])
            for kind in KINDS
        }
        encoders = self._encoders(keys, media)
        keys.close()
        if system and any(turn.role == "system" for turn in told.turns):
            raise ShapeError(f"{self.system}: the conversation has a system message, too")
        said = told.turns
        if told.paired:
            self._check_media(keys, media, beside)
            said = self._in_front(said, media)
        ordered = {k: tuple(_picked(k, own, told.places[k])) for k, own in encoders.items()}
        return Conversation((*system, *said), media, ordered, keys.met)

    def _spoken(self, keys: Keys, name: str, turns: object) -> Spoken:
        return spoken(utterances_of(keys, name, turns), self.marks)

    def _nothing(self, keys: Keys, fields: tuple[str, ...]) -> str:
        """Why a record without a conversation is none, and what may be meant."""
        for name in keys.names:
            if name in keys and name in REFUSED_OF_RECORDS:
                return f"{name}: {REFUSED_OF_RECORDS[name]}"
        has = enumerated(keys.names) or "no keys"
        if self.fields.conversation is not None:
            return f"{fields[0]}: Field required; it has {has}"
        pairs = ", ".join(f"{pair.question} and {pair.answer}" for pair in PAIRS)
        texts = ((name, like(str(name), fields)) for name in keys.names)
        near = [f"{name} is like {own}" for name, own in texts if own is not None]
        has = f"{has}; {enumerated(near)}" if near else has
        told = f"it has {has}; valid: {' or '.join(fields)}; {pairs}; or others by"
        return f"{told} data.source.fields{meant(keys.names)}"

    # ---- what goes with either -------------------------------------------------------------------

    def _system(self, keys: Keys) -> tuple[Turn, ...]:
        """The system message in a field of its own; none in an empty one."""
        value = keys.value(self.system)
        if value is None or value == "":
            return ()
        turn = Turn("system", text_of(keys, self.system, value))
        return (turn.with_words(pattern_of(self.marks.values())),)

    def _text(self, keys: Keys, field: str, value: object) -> str:
        """A text in which placeholders stand for media."""
        text = text_of(keys, field, value)
        check_tags(keys.at(field), text, self.marks)
        return text

    def _listed(self, keys: Keys) -> dict[Kind, list[Reference]]:
        """Media in fields of their own."""
        found: dict[Kind, list[Reference]] = {}
        for kind in KINDS:
            name, value = keys.one_of(
                self.media_fields(kind), "data.source.fields says which one is meant"
            )
            found[kind] = [] if _is_number(kind, value) else references(keys, name, value)
        return found

    def _encoders(self, keys: Keys, media: Media) -> dict[Kind, Names]:
        """Encoders that a record names for its media, in the order in which it lists these."""
        found = {}
        for kind in KINDS:
            name, value = keys.one_of(
                self.encoder_fields(kind), "data.source.fields says which one is meant"
            )
            if value is not None and media[kind]:
                found[kind] = _names(name, value, len(media[kind]), kind)
        return found


def _is_number(kind: Kind, value: object) -> bool:
    """Whether a field named like media of a kind holds a number, as in many data sets."""
    return kind in ONLY_WHERE_TAKEN and isinstance(value, int | float)


def meant(names: Collection[object]) -> str:
    """`: {question: problem, answer: solution}`, if some keys are likely to be these."""
    answer = next((name for name in _ANSWERS if name in names), None)
    question = next((name for name in _QUESTIONS if name in names and name != answer), None)
    chat = next((name for name in _CHATS if name in names), None)
    if chat is not None and answer is None:
        return f": {{conversation: {chat}}}"
    if answer is None:
        return ""
    asked = f"question: {question}, " if question else ""
    image = next((f", image: {name}" for name in _FILES if name in names), "")
    return f": {{{asked}answer: {answer}{image}}}"


def _present(record: Mapping[Any, Any]) -> set[Any]:
    return {key for key, value in record.items() if value is not None}


def _names(field: str, value: object, count: int, kind: Kind) -> Names:
    """The encoder of each of so many media."""
    names = [value] * count if isinstance(value, str) else value
    if not isinstance(names, list) or not all(n is None or isinstance(n, str) for n in names):
        raise ShapeError(f"{field}: {quoted(value)} is no name, nor a list of names and nulls")
    if len(names) != count:
        raise ShapeError(f"{field}: {len(names)} names of {count} {kind} media")
    return tuple(names)


def _picked(kind: Kind, items: Sequence[S], places: Sequence[int | None]) -> Sequence[S]:
    """The media beside messages, in the order in which the parts of messages name them."""
    named = [place for place in places if place is not None]
    if not named:
        return items
    if len(named) < len(places) or {*named} != {*range(len(items))}:
        raise ShapeError(
            f"{kind} parts have the indices {quoted([*places])} of {len(items)} beside the "
            "messages; valid: all of these from 0, or none"
        )
    return [items[place] for place in named]


def _whole(media: Media) -> Media:
    """`media` with every kind."""
    return {kind: media.get(kind, ()) for kind in KINDS}


def loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for a key that is there twice."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
        raise ValueError(f"the key {quoted(twice)} is there twice")
    return found


def _from_json(field: str, text: str) -> object:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise ShapeError(f"{field}: not JSON: {error}") from error
