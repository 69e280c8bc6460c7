"""Questions as a source: prompts, or conversations up to where an answer is wanted.

    {"prompt": "What is this?", "image": "a.png"}

    {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"},
                                               {"type": "text", "text": "What is this?"}]}]}

Conversations and media are as in training (`records/record.py`), and keys are read as strictly; an
answer at the end of a conversation is no part of the question. A `question`, `query` or
`instruction` is a prompt, too. Media of a prompt that its text does not mention come first. Options
in `choices` are listed after the question (`options.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

import numpy as np

from data.config import DataConfig, FieldsConfig, LlavaSource
from data.faults import FaultKind, SampleFault
from data.media.file_bytes import FileBytes
from data.quotes import quoted
from data.sample import DataError, MediaError, Sample, SampleError, pattern_of
from data.sources.formats.conversations import ConversationSet, RecordList
from data.sources.formats.llava import records_of
from data.sources.formats.records.fields import CONVERSATIONS, PAIRS, QUESTIONS, PairFields
from data.sources.formats.records.forms import listed_keys, refused_key
from data.sources.formats.records.keys import QUESTION, ReadPurpose, RecordKeys, ShapeError
from data.sources.formats.records.record import ParsedConversation, RecordForm
from data.sources.formats.records.turns import Media
from data.sources.source import SampleKey, Source
from data.text.chat import marks_of
from data.text.options import CHOICES, check_options, with_options

#: Field of a question without a conversation.
PROMPT = "prompt"
#: Fields of right answers and options, which an evaluation reads.
REFERENCES = ("answer", "answers", CHOICES)


ASKING = ReadPurpose(QUESTION, "asked", "valid: one of them", REFERENCES, is_learnt=False)


@dataclass(frozen=True)
class QuestionForm(RecordForm):
    """Understands records of questions."""

    purpose: ClassVar[ReadPurpose] = ASKING

    def parse_record(
        self, name: str, record: object, attached: Media | None = None
    ) -> ParsedConversation:
        """The conversation of a record, up to its question.

        Raises:
            SampleError: the record has a wrong structure; the message says where.
        """
        conversation = super().parse_record(name, record, attached)
        if not conversation.turns:
            raise misshapen_record(
                name, "there is no question; valid: one with a text or with media"
            )
        self._check_end(name, conversation)
        return conversation

    def _check_end(self, name: str, conversation: ParsedConversation) -> None:
        """Check that no medium is part of an answer at the end, which is not part of a question.

        Raises:
            SampleError: one has.
        """
        last = conversation.turns[-1]
        for kind, mark in self.marks.items():
            if last.role == "assistant" and conversation.media[kind] and last.count(mark):
                raise misshapen_record(
                    name,
                    f"{mark} in the answer at the end, which is not asked; valid: {mark} in the "
                    f"question; or, where it is no medium but words, media in parts of type {kind}",
                )

    def text_fields(self, keys: Collection[str]) -> tuple[str, ...] | PairFields:
        """See `RecordFields.text_fields`; a question needs no answer, and `REFERENCES` are none."""
        asked = [pair for pair in PAIRS if pair.question in keys]
        if not asked or {*CONVERSATIONS} & {*keys}:
            return CONVERSATIONS
        if len(asked) > 1:
            both = " and ".join(pair.question or "" for pair in asked)
            raise ShapeError(f"it has {both}; {self.purpose.which}")
        (pair,) = asked
        is_told = pair.answer in keys and pair.answer not in REFERENCES
        return pair if is_told else replace(pair, answer=None)

    def _explain_missing(self, keys: RecordKeys, attached: Media | None) -> str:
        record = keys.values
        refused = refused_key(record, self.reading_of({}))
        if refused is not None:
            return refused
        likely = (name for name in (*QUESTIONS, "text") if isinstance(record.get(name), str))
        meant = next(likely, None)
        hint = "" if meant is None else f"; {meant} may be meant as {PROMPT}"
        fields = " or ".join((*CONVERSATIONS, PROMPT))
        return f"{fields}: Field required; it has {listed_keys(record)}{hint}"


#: Field of a record's own name, which goes with its answer.
ID = "id"


class QuestionSource(Source, Protocol):
    """A source of questions."""

    def record_id(self, index: int) -> Any:
        """The value of the field `id` of a record; None if there is none."""


class QuestionSet(ConversationSet):
    """Questions as a source, with the records that they come from."""

    def record_id(self, index: int) -> Any:
        """See `QuestionSource.record_id`."""
        try:
            return self.question_record(index).get(ID)
        except SampleError:  # which is reported for the question
            return None

    def question_record(self, index: int) -> Mapping[str, Any]:
        """Record `index`, which may have more fields than a question.

        Raises:
            SampleError: the record is no mapping of fields.
        """
        record, _ = self._records.read_record(index)
        if not isinstance(record, Mapping):
            reason = f"a {type(record).__name__}, not a mapping of fields"
            raise misshapen_record(self.name(index), reason)
        return record

    def answer_text(self, index: int) -> str | None:
        """The answer at the end of a conversation, if there is one. Raises as `__getitem__`."""
        return answer_of(super().__getitem__((index, 0)))

    def answer_choices(self, index: int) -> tuple[str, ...]:
        """The options of a question; none of most.

        Raises:
            SampleError: they have the wrong shape.
        """
        choices, name = (
            texts_in(self.question_record(index), CHOICES, self.name(index)),
            self.name(index),
        )
        try:
            if choices:
                check_options(choices)
        except ValueError as error:
            raise misshapen_record(name, str(error)) from error
        return choices

    def __getitem__(self, key: SampleKey) -> Sample:
        """A question, after which its options are listed, if it has any."""
        sample, choices = super().__getitem__(key), self.answer_choices(key[0])
        if not choices:
            return sample
        try:
            marks = pattern_of(self._form.marks.values())
            return replace(sample, turns=with_options(sample.turns, choices, marks))
        except ValueError as error:
            raise misshapen_record(sample.name, str(error)) from error


class ProgramRecords(RecordList):
    """Records of a program; paths in them are those of the program.

    Args:
        records: the records.
        folder: folder that relative paths are relative to.
    """

    def __init__(self, records: Sequence[Mapping[str, Any]], folder: Path) -> None:
        super().__init__((), np.array([len(records)]), None)
        self._records, self._media_root = tuple(records), folder

    def read_record(self, index: int) -> tuple[object, Media | None]:
        """See `RecordList.read_record`."""
        return self._records[index], None

    def name(self, index: int) -> str:
        """`prompt 0`."""
        return f"prompt {index}"

    def find_medium(self, index: int, path: str) -> FileBytes:
        """See `RecordList.find`; any file of this machine."""
        return _ProgramFile(path, self._media_root / path)


@dataclass(frozen=True)
class _ProgramFile(FileBytes):
    name: str
    path: Path

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        try:
            file = self.path.open("rb")
        except OSError as error:
            text = f"{quoted(self.name)} cannot be opened: {error.strerror}"
            raise MediaError(FaultKind.MISSING, text) from error
        with file:
            yield file


def open_questions(config: DataConfig, path: str, media: str | None = None) -> QuestionSet:
    """Questions in JSON Lines, or in JSON (a list).

    Args:
        config: configuration of the data.
        path: the file.
        media: folder of images and clips; None: the folder of the file.

    Raises:
        DataError: as of `open_llava`; the message names the file, and no key of a configuration.
    """
    options = LlavaSource(kind="llava", path=path, media=media)
    try:
        records = records_of(config, options, path)
    except DataError as error:
        raise DataError(_without_keys(str(error))) from error
    return QuestionSet(records, _question_form(config), config)


def _without_keys(message: str) -> str:
    """A message about a file of training for one of questions, which no configuration names."""
    message = re.sub(r", which kind: \w+ reads[^;]*", "", message.removeprefix("data.source: "))
    message = message.replace("valid for kind: llava: ", "valid: ")
    return message.replace("data.source.media: ", "the folder of media: ")


def program_questions(
    config: DataConfig, records: Sequence[Mapping[str, Any]], folder: Path
) -> QuestionSet:
    """Questions of a program; see `ProgramRecords` and `open_questions`."""
    return QuestionSet(ProgramRecords(records, folder), _question_form(config), config)


def answer_of(sample: Sample) -> str | None:
    """The answer at the end of a conversation, if there is one."""
    last = sample.turns[-1]
    return last.text if last.role == "assistant" else None


def texts_in(record: Mapping[str, Any], field: str, name: str) -> tuple[str, ...]:
    """The texts of a field, one or a list; numbers count as their texts.

    Raises:
        SampleError: the field of the record `name` holds something else, or an empty list.
    """
    value = record.get(field)
    listed: Sequence[Any] = value if isinstance(value, list) else () if value is None else (value,)
    if value is not None and not listed:
        raise misshapen_record(name, f"{field}: an empty list; valid: at least one text")
    for text in listed:
        if not isinstance(text, str | int | float) or isinstance(text, bool):
            raise misshapen_record(name, f"{field}: {text!r:.80} is no text")
    return tuple(map(str, listed))


def misshapen_record(name: str, reason: str) -> SampleError:
    """The error of a record of wrong shape."""
    return SampleError(name, SampleFault(FaultKind.RECORD, f"record of wrong shape: {reason}"))


def _question_form(config: DataConfig) -> QuestionForm:
    return QuestionForm(FieldsConfig(), marks_of(config))
