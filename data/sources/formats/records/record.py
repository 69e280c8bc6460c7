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
`data.routes`. `data.source.fields` gives all of these other names (`records/fields.py`). The field
`labels` has what objectives other than the next token learn of the record, by objective:
`{"scene": 3}`. `keys.py` says what becomes of other keys: some are harmless, and all others make a
bad sample. `records/forms.py` says what a record is that has no conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from data.faults import FaultKind, SampleFault
from data.media.registry import MEDIA_TYPES
from data.quotes import enumerated, quoted
from data.rows.spec import Kind
from data.sample import SampleError, Turn, pattern_of
from data.sources.formats.records.advice import RecordReading, advice_for
from data.sources.formats.records.fields import (
    ANSWERS,
    CONVERSATIONS,
    LABELS,
    PairFields,
    RecordFields,
    is_empty_conversation,
    stated_keys,
)
from data.sources.formats.records.forms import no_conversation, no_text, refused_key, sort_of
from data.sources.formats.records.json_text import parse_json_field
from data.sources.formats.records.keys import (
    NONE_ALLOWED,
    TRAINING,
    AllowedKeys,
    MetKeys,
    ReadPurpose,
    RecordKeys,
    ShapeError,
    UnreadKey,
    shorten_path,
)
from data.sources.formats.records.listed_media import (
    Names,
    check_parts,
    encoder_names,
    is_number_field,
    pick_places,
    with_all_kinds,
)
from data.sources.formats.records.turns import (
    Media,
    Reference,
    SpokenTurns,
    check_tags,
    describe_type,
    join_utterances,
    media_references,
    text_of,
    utterances_of,
)

MEDIA = FaultKind.MEDIA

_ASKS_NOTHING = "there is neither a question nor a medium; valid: one of them"

#: By kind, the encoder that each medium is for.
Encoders = Mapping[Kind, Names]


@dataclass(frozen=True)
class ParsedConversation:
    """A record that has been understood: turns with placeholders, and their media in order.

    Attributes:
        turns: the turns.
        media: media by kind.
        encoders: encoders that the record names.
        met: keys of the record.
        labels: what objectives other than the next token learn of it, by objective.
    """

    turns: tuple[Turn, ...]
    media: Media
    encoders: Encoders = field(default_factory=dict)
    met: MetKeys = field(default_factory=MetKeys, compare=False)
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CaptionRecord:
    """A record that is nothing but a text about its media."""

    text: str


@dataclass(frozen=True)
class RecordForm(RecordFields):
    """Understands records.

    Attributes:
        fields: names that a configuration gives to the parts of a record.
        marks: placeholders of media in the text, by kind.
        allowed: keys that need not be read.
    """

    purpose: ClassVar[ReadPurpose] = TRAINING

    marks: Mapping[Kind, str]
    allowed: AllowedKeys = NONE_ALLOWED

    def check_metadata(self, record: Mapping[Any, Any]) -> None:
        """Check that what lies next to a caption has nothing in it that records are read for.

        Raises:
            ShapeError: it has, or something that is like it.
        """
        numbers = {
            f
            for kind in MEDIA_TYPES
            for f in MEDIA_TYPES[kind].record_fields
            if is_number_field(kind, record.get(f))
        }
        for name in self.all_fields - numbers:
            if record.get(name) not in (None, "", []):
                raise ShapeError(
                    f"{name}: it is not read beside a caption; valid: a record with the caption as "
                    "its answer, or metadata without this key"
                )
        keys = RecordKeys(record, self.purpose, AllowedKeys(self.allowed.ignored, others=True))
        for name in self.all_fields:
            keys.read_value(name)
        try:
            keys.check_unread()
        except UnreadKey as error:
            raise self._shape_error(error, {}) from error

    # ---- records ---------------------------------------------------------------------------------

    def parse_record(
        self, name: str, record: object, attached: Media | None = None
    ) -> ParsedConversation:
        """The conversation of a record.

        Args:
            name: name of the record in messages.
            record: record as read from a file.
            attached: media that come with the record, for one that itself names none of their kind;
                None where records come alone.

        Raises:
            SampleError: the record has a wrong structure; the message says where.
        """
        try:
            return self._parse_any(record, attached)
        except ShapeError as error:
            reason = str(error)
            if error.kind is FaultKind.RECORD:
                reason = f"record of wrong shape: {reason}"
            raise SampleError(name, SampleFault(error.kind, reason)) from error

    def _parse_any(self, record: object, attached: Media | None) -> ParsedConversation:
        if isinstance(record, CaptionRecord):
            media = with_all_kinds(attached or {})
            if not any(media.values()):
                raise ShapeError("a caption without media; valid: an image or a clip beside", MEDIA)
            check_tags("caption", record.text, self.marks)
            self._check_answer("caption", record.text, media)
            return ParsedConversation(self._placed_turns("", record.text, media), media)
        if not isinstance(record, Mapping):
            raise ShapeError(f"{describe_type(record)}, not a mapping of fields")
        try:
            return self._fields_of(RecordKeys(record, self.purpose, self.allowed), attached)
        except UnreadKey as error:
            raise self._shape_error(error, record) from error

    def _fields_of(self, keys: RecordKeys, attached: Media | None) -> ParsedConversation:
        texts = self.text_fields(stated_keys(keys.values))
        if isinstance(texts, PairFields):
            for name in CONVERSATIONS:
                if is_empty_conversation(keys.values, name):
                    keys.read_value(name)
            return self._parse_pair(keys, texts, attached)
        return self._parse_dialogue(keys, texts, attached)

    def _close_keys(self, keys: RecordKeys) -> None:
        """Tell of keys that nobody has read, but for those of answers that are compared."""
        for name in self.purpose.compared:
            self._check_beside(name, keys.read_value(name))
        keys.check_unread()

    def _check_mentions(self, keys: RecordKeys, media: Media) -> None:
        """Tell of the first harmless key that names a medium, in a record without media."""
        if keys.met.mentions and not any(media.values()):
            raise UnreadKey(keys.met.mentions[0])

    def _check_beside(self, name: str, value: object) -> None:
        """Check that options of an answer, which are asked, name no media between tags."""
        for number, text in enumerate(value if isinstance(value, list) else ()):
            if isinstance(text, str) and name not in ANSWERS:
                check_tags(f"{name}.{number}", text, self.marks)

    def _shape_error(self, error: UnreadKey, record: Mapping[Any, Any]) -> ShapeError:
        """What is to be done about a key of a record."""
        reading = self.reading_of(record)
        return ShapeError(
            f"{shorten_path(error.unread.place)}: {advice_for(error.unread, reading)}"
        )

    def reading_of(self, record: Mapping[Any, Any]) -> RecordReading:
        """How a record is read that has such keys with values."""
        return RecordReading(self, self.allowed, self.purpose, self.settled_fields(record))

    def _choosing_pair(self, pairs: Sequence[PairFields], keys: Collection[str]) -> str:
        """The settings by which one of several pairs is read."""
        chosen = []
        for pair in pairs:
            if pair.question is None or pair.answer is None or {*pair.field_names[2:]} & {*keys}:
                continue  # which data.source.fields cannot name
            every = dict.fromkeys(
                name for other in pairs for name in other.field_names if name in keys
            )
            others = [name for name in every if name not in pair.field_names]
            chosen.append(({"question": pair.question, "answer": pair.answer}, others))
        return self._list_choices(chosen) or super()._choosing_pair(pairs, keys)

    def _field_choice(self, keys: RecordKeys, fields: Sequence[str], setting: str) -> str:
        """The settings by which one of several fields is read that a record has."""
        there = [name for name in fields if keys.values.get(name) not in (None, "", [])]
        if len(there) < 2:
            return self.purpose.which  # which nobody reads
        chosen = [({setting: field}, [name for name in there if name != field]) for field in there]
        return self._list_choices(chosen) or self.purpose.which

    def _list_choices(self, chosen: Sequence[tuple[Mapping[str, str], Sequence[str]]]) -> str:
        """Settings of which each is enough, the first two of them; empty if there are none."""
        if not self.purpose.is_learnt:
            return ""
        choices = (self.reading_of({}).choose_fields(names, others) for names, others in chosen)
        valid = [choice for choice in choices if choice is not None][:2]
        return f"valid: {'; or '.join(valid)}" if valid else ""

    # ---- a question and its answer ---------------------------------------------------------------

    def _parse_pair(
        self, keys: RecordKeys, pair: PairFields, attached: Media | None
    ) -> ParsedConversation:
        question, answer = (
            None if name is None else self._whole_text(keys, pair, name)
            for name in (pair.question, pair.answer)
        )
        addition = None if pair.addition is None else keys.read_value(pair.addition)
        if addition is not None and addition != "":
            question = f"{question}\n{self._checked_text(keys, pair.addition or '', addition)}"
        earlier = [] if pair.history is None else self._parse_history(keys, pair.history)
        system, listed = self._system_turns(keys), self._listed_media(keys)
        media = {kind: listed[kind] or (attached or {}).get(kind, ()) for kind in MEDIA_TYPES}
        encoders, labels = self._listed_encoders(keys, media), _read_labels(keys)
        self._close_keys(keys)
        self._check_media(keys, media, attached)
        self._check_mentions(keys, media)
        self._check_answers(keys, pair, earlier, answer, media)
        if not (question or "").strip() and not any(media.values()):
            before = "" if pair.answer is None else " before the answer"
            none = f"there is neither a question nor a medium{before}"
            raise ShapeError(f"{none}; valid: one of them, or messages", MEDIA)
        turns = self._in_front((*earlier, *self._make_turns(question or "", answer)), media)
        return ParsedConversation((*system, *turns), media, encoders, keys.met, labels)

    def _parse_history(self, keys: RecordKeys, name: str) -> list[Turn]:
        """Earlier questions with their answers: a list of pairs."""
        value = keys.read_value(name)
        turns = []
        pairs = (
            () if value is None or value == "" else value if isinstance(value, list) else (value,)
        )
        for number, pair in enumerate(pairs):
            if not isinstance(pair, list) or len(pair) != 2:
                raise ShapeError(f"{name}.{number}: {quoted(pair)} is no [question, answer]")
            question, answer = (self._checked_text(keys, f"{name}.{number}", text) for text in pair)
            if not question.strip():
                raise ShapeError(f"{name}.{number}: the question is empty; valid: a text")
            turns += [Turn("user", question), Turn("assistant", answer)]
        return turns

    def _whole_text(self, keys: RecordKeys, pair: PairFields, name: str) -> str:
        """A question or an answer."""
        value = keys.read_value(name)
        reason = (
            None if isinstance(value, str) else no_text(pair, name, sort_of(value), self.purpose)
        )
        if reason is not None:
            raise ShapeError(reason)
        return self._checked_text(keys, name, value)

    def _placed_turns(self, question: str, answer: str, media: Media) -> tuple[Turn, ...]:
        """Turns of a question and its answer; media that neither mentions come first."""
        return self._in_front(self._make_turns(question, answer), media)

    def _make_turns(self, question: str, answer: str | None) -> tuple[Turn, ...]:
        answers = () if answer is None else (Turn("assistant", answer),)
        return (Turn("user", question), *answers)

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

    def _check_answers(
        self,
        keys: RecordKeys,
        pair: PairFields,
        earlier: Sequence[Turn],
        answer: str | None,
        media: Media,
    ) -> None:
        """Check that no answer of a pair, nor one that is compared, has the place of a medium."""
        for number, turn in enumerate(earlier):
            if turn.role == "assistant":
                self._check_answer(f"{pair.history}.{number // 2}", turn.text, media)
        compared = {
            name: keys.values.get(name) for name in self.purpose.compared if name in ANSWERS
        }
        for name, value in (*compared.items(), (pair.answer, answer)):
            for text in value if isinstance(value, list) else (value,):
                if isinstance(text, str):
                    self._check_answer(name or "", text, media)

    def _check_answer(self, place: str, text: str, media: Media) -> None:
        """Raise ShapeError for an answer that has the place of a medium of its question."""
        for kind, mark in self.marks.items():
            if mark in text and media.get(kind):
                raise ShapeError(
                    f"{place}: {quoted(mark)} in an answer, where media belong to the question; "
                    f"valid: {mark} in the question or nowhere; messages, where the answer has a "
                    "medium; or, where it is no medium but words, messages whose media are parts "
                    f"of type {kind}"
                )

    def _check_media(self, keys: RecordKeys, media: Media, attached: Media | None) -> None:
        """Check that there are media where nothing in a text counts them.

        Raises:
            ShapeError: a field of media, or a sample of members, holds none.
        """
        fields = [
            name
            for kind in MEDIA_TYPES
            for name in self.media_fields(kind)
            if keys.has_key(name) and not is_number_field(kind, keys.read_value(name))
        ]
        if any(media.values()):
            return
        if fields:
            raise ShapeError(
                f"{enumerated(fields)} holds no medium, and the texts would be "
                f"{self.purpose.done} without; "
                "valid: a medium, messages for a conversation without, or a record without the key",
                MEDIA,
            )
        if attached is not None:
            raise ShapeError(
                "no member of the sample is a medium, and the texts would be "
                f"{self.purpose.done} without; "
                "valid: a medium, or messages for a conversation without",
                MEDIA,
            )

    # ---- conversations ---------------------------------------------------------------------------

    def _parse_dialogue(
        self, keys: RecordKeys, fields: tuple[str, ...], attached: Media | None
    ) -> ParsedConversation:
        name, value = keys.one_of(fields, self._field_choice(keys, fields, "conversation"))
        if value is None:
            raise ShapeError(self._explain_missing(keys, attached))
        if value in ("", []):
            refused = refused_key(keys.values, self.reading_of({}))
            valid = "valid: a list of turns, such as {role, content}"
            raise ShapeError(refused or f"{name}: it is empty; {valid}")
        turns = parse_json_field(name, value) if isinstance(value, str) else value
        dialogue = self._parse_turns(keys, name, turns)
        system, listed = self._system_turns(keys), self._listed_media(keys)
        for kind in MEDIA_TYPES:
            if dialogue.media[kind] and listed[kind]:
                raise ShapeError(f"{kind} media are both in the {name} and beside them")
        media = {
            kind: dialogue.media[kind]
            or pick_places(
                kind, listed[kind] or (attached or {}).get(kind, ()), dialogue.places[kind]
            )
            for kind in MEDIA_TYPES
        }
        for kind in MEDIA_TYPES:
            check_parts(name, kind, dialogue, len(media[kind]))
        encoders, labels = self._listed_encoders(keys, media), _read_labels(keys)
        self._close_keys(keys)
        if system and any(turn.role == "system" for turn in dialogue.turns):
            raise ShapeError(
                f"{self.system_field}: the conversation has a system message, too; valid: one of "
                "them"
            )
        spoken_turns = dialogue.turns
        if dialogue.paired:
            self._check_media(keys, media, attached)
            for turn in spoken_turns:
                if turn.role == "assistant":
                    self._check_answer(name, turn.text, media)
            spoken_turns = self._in_front(spoken_turns, media)
        self._check_mentions(keys, media)
        if len(spoken_turns) < len(dialogue.turns):
            raise ShapeError(f"{name}: turn 0: {_ASKS_NOTHING}", MEDIA)
        for number, turn in enumerate(spoken_turns):
            if turn.role == "user" and not turn.text.strip():
                raise ShapeError(f"{name}: turn {number}: {_ASKS_NOTHING}", MEDIA)
        ordered = {
            k: tuple(pick_places(k, names, dialogue.places[k])) for k, names in encoders.items()
        }
        return ParsedConversation((*system, *spoken_turns), media, ordered, keys.met, labels)

    def _parse_turns(self, keys: RecordKeys, name: str, turns: object) -> SpokenTurns:
        return join_utterances(utterances_of(keys, name, turns), self.marks)

    def _explain_missing(self, keys: RecordKeys, attached: Media | None) -> str:
        """Why a record without a conversation is none, and what may be meant."""
        return no_conversation(
            keys.values, self.reading_of({}), media=any((attached or {}).values())
        )

    # ---- what goes with either -------------------------------------------------------------------

    def _system_turns(self, keys: RecordKeys) -> tuple[Turn, ...]:
        """The system message in a field of its own; none in an empty one."""
        value = keys.read_value(self.system_field)
        if value is None or value == "":
            return ()
        turn = Turn("system", text_of(keys, self.system_field, value))
        return (turn.with_words(pattern_of(self.marks.values())),)

    def _checked_text(self, keys: RecordKeys, field: str, value: object) -> str:
        """A text in which placeholders stand for media."""
        text = text_of(keys, field, value)
        check_tags(keys.place_of(field), text, self.marks)
        return text

    def _listed_media(self, keys: RecordKeys) -> dict[Kind, list[Reference]]:
        """Media in fields of their own."""
        media: dict[Kind, list[Reference]] = {}
        for kind in MEDIA_TYPES:
            fields = self.media_fields(kind)
            name, value = keys.one_of(fields, self._field_choice(keys, fields, kind))
            media[kind] = (
                [] if is_number_field(kind, value) else media_references(keys, name, value)
            )
        return media

    def _listed_encoders(self, keys: RecordKeys, media: Media) -> dict[Kind, Names]:
        """Encoders that a record names for its media, in the order in which it lists these."""
        encoders = {}
        for kind in MEDIA_TYPES:
            fields = self.encoder_fields(kind)
            name, value = keys.one_of(fields, self._field_choice(keys, fields, f"{kind}_encoder"))
            if value is not None and media[kind]:
                encoders[kind] = encoder_names(name, value, len(media[kind]), kind)
        return encoders


def _read_labels(keys: RecordKeys) -> dict[str, Any]:
    """Labels of a record, by objective; a list of labels is one of tokens, which is refused."""
    value = keys.values.get(LABELS)
    if not isinstance(value, Mapping):
        return {}
    return {
        str(name): label for name, label in keys.read_value(LABELS).items() if label is not None
    }
