"""Which fields of a record are read, by their names or by those that `data.source.fields` gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.config import FieldsConfig
from data.media.registry import MEDIA_TYPES
from data.rows.spec import Kind
from data.sources.formats.records.keys import ShapeError

#: Fields that hold conversations, if `data.source.fields` names none.
CONVERSATIONS = ("conversations", "messages", "texts")
#: Field of what objectives other than the next token learn.
LABELS = "labels"
#: Field of a system message that comes before a conversation, if `data.source.fields` names none.
SYSTEM = "system"
#: Fields of a question and an answer that are likely.
QUESTIONS = ("question", "query", "prompt", "instruction", "problem", "input", "inputs", "user")
ANSWERS = (
    *("answer", "response", "output", "completion", "solution", "caption", "text"),
    *("multiple_choice_answer", "answers", "label", "assistant", "captions", "target", "targets"),
    *("transcription", "transcript", "sentence"),
)
#: Fields of options of an answer that are likely.
OPTIONS = ("options", "candidates", "multiple_choices")


@dataclass(frozen=True)
class PairFields:
    """Fields of a question and its answer.

    Attributes:
        question: field of what the user says; None: nothing but the media.
        answer: field of what is learnt; None for a question alone.
        addition: field of a text after the question, which may be absent or empty.
        history: field of earlier questions with their answers, likewise.
    """

    question: str | None
    answer: str | None
    addition: str | None = None
    history: str | None = None

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields."""
        every = (self.question, self.answer, self.addition, self.history)
        return tuple(name for name in every if name is not None)


#: Questions and answers that are read if `data.source.fields` names none.
PAIRS = (
    PairFields("question", "answer"),
    PairFields("query", "response", history="history"),
    PairFields("prompt", "completion"),
    PairFields("instruction", "output", "input", "history"),
)


@dataclass(frozen=True)
class RecordFields:
    """Which fields are read of records; `fields`: names that a configuration gives them."""

    fields: FieldsConfig

    def text_fields(self, keys: Collection[str]) -> tuple[str, ...] | PairFields:
        """The fields of which a record with such keys has one, its conversation; or its pair.

        Args:
            keys: keys that have a value.

        Raises:
            ShapeError: there are several pairs.
        """
        configured = self.fields
        if configured.answer is not None:
            return PairFields(configured.question, configured.answer)
        if configured.conversation is not None:
            return (configured.conversation,)
        pairs = [pair for pair in PAIRS if pair.question in keys and pair.answer in keys]
        if not pairs or {*CONVERSATIONS} & {*keys}:
            return CONVERSATIONS
        if len(pairs) > 1:
            both = " and ".join(f"{pair.question}, {pair.answer}" for pair in pairs)
            raise ShapeError(f"it has {both}; {self._choosing_pair(pairs, keys)}")
        return pairs[0]

    def _choosing_pair(self, pairs: Sequence[PairFields], keys: Collection[str]) -> str:
        """What is to be done about a record with several pairs."""
        del pairs, keys
        return "data.source.fields says which are meant"

    @property
    def system_field(self) -> str:
        """Field of a system message."""
        return self.fields.system or SYSTEM

    def media_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which a record may have one."""
        configured = getattr(self.fields, kind, None)
        return MEDIA_TYPES[kind].record_fields if configured is None else (configured,)

    def encoder_fields(self, kind: Kind) -> tuple[str, ...]:
        """Fields of which one may name the encoders of media."""
        configured = getattr(self.fields, f"{kind}_encoder", None)
        return (f"{kind}_encoder", f"{kind}_encoders") if configured is None else (configured,)

    def fields_for(self, texts: tuple[str, ...] | PairFields) -> tuple[str, ...]:
        """All fields that are read of a record with such texts."""
        named = texts.field_names if isinstance(texts, PairFields) else texts
        media = [name for kind in MEDIA_TYPES for name in self.media_fields(kind)]
        encoders = [name for kind in MEDIA_TYPES for name in self.encoder_fields(kind)]
        return (*named, self.system_field, *media, *encoders)

    def has_texts(self, record: object) -> bool:
        """Whether a record has a conversation or an answer."""
        if not isinstance(record, Mapping):
            return False
        texts = self.text_fields(stated_keys(record))
        fields = (texts.answer or "",) if isinstance(texts, PairFields) else texts
        return any(name in stated_keys(record) for name in fields)

    @property
    def all_fields(self) -> frozenset[str]:
        """All fields that are read of some record."""
        texts = [self.text_fields(()), *(PAIRS if self._is_open else ())]
        return frozenset(name for fields in texts for name in self.fields_for(fields))

    @property
    def _is_open(self) -> bool:
        """Whether no field of texts has a name given."""
        return self.fields.answer is None and self.fields.conversation is None

    def settled_fields(self, record: Mapping[Any, Any]) -> dict[str, str]:
        """Values of `data.source.fields` that name what is read of a record now, and no more.

        Empty where they are given already, and for records of which they would lose a text.
        """
        if not self._is_open:
            return {}
        there = stated_keys(record)
        texts = self.text_fields(there)
        if not isinstance(texts, PairFields):
            conversation = next((name for name in texts if name in there), None)
            return {} if conversation is None else {"conversation": conversation}
        if texts.question is None or texts.answer is None or {*texts.field_names[2:]} & there:
            return {}
        return {"question": texts.question, "answer": texts.answer}


def stated_keys(record: Mapping[Any, Any]) -> set[Any]:
    """The keys of a record that have a value, but for conversations that are empty."""
    return {key for key in present_keys(record) if not is_empty_conversation(record, key)}


def is_empty_conversation(record: Mapping[Any, Any], key: object) -> bool:
    """Whether a key is that of a conversation without any turns."""
    return key in CONVERSATIONS and record.get(key) in ("", [])


def present_keys(record: Mapping[Any, Any]) -> set[Any]:
    """The keys of a record that have a value."""
    return {key for key, value in record.items() if value is not None}
