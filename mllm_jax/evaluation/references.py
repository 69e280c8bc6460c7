"""Questions with references: records as of training or of `generate`, with what is right.

    {"prompt": "What does the sign say?", "image": "a.png", "answers": ["stop", "STOP"],
     "source": "signs"}

    {"prompt": "Which animal is it?", "image": "b.png", "choices": ["cat", "dog"], "answer": "B"}

The right answers are in `answer` or `answers` (one or a list), or else the last answer of the
conversation, or the `completion`, `response` or `output` of the question. Where a record has both,
they must agree, and none is empty. `choices` are listed behind the last question
(`data.text.options`). `source` names the part of the data that a record counts for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data.sample import Sample
from data.sources.formats.prompts import QuestionSet, misshapen, texts_in
from data.sources.source import SampleKey
from data.text.options import LETTERS
from mllm_jax.evaluation.metrics import Reference, exact_match, option_of

#: Fields of right answers, of which a record has one.
ANSWERS = ("answer", "answers")
SOURCE = "source"
#: The right answer of a conversation, in messages.
AT_THE_END = "an answer at the end"


class ReferencedSet:
    """Questions, their options listed, and their references.

    Args:
        questions: the questions.
        default: source of records that name none.
    """

    def __init__(self, questions: QuestionSet, default: str) -> None:
        self._questions, self._default = questions, default
        self.fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self._questions)

    def name(self, index: int) -> str:
        """See `Source.name`."""
        return self._questions.name(index)

    def id(self, index: int) -> Any:
        """See `Asked.id`."""
        return self._questions.id(index)

    @property
    def home(self) -> Path:
        """See `Source.home`."""
        return self._questions.home

    def __getitem__(self, key: SampleKey) -> Sample:
        """A question with its options.

        Raises:
            SampleError: the question cannot be used, or its answer cannot be measured.
        """
        index, _ = key
        self.source(index)  # told before anything is answered
        self.reference(index)
        return self._questions[key]

    def reference(self, index: int) -> Reference:
        """What the answer is compared with.

        Raises:
            SampleError: nothing is, or it has the wrong shape.
        """
        record = self._questions.record(index)
        choices = self._questions.choices(index)
        given = [name for name in ANSWERS if record.get(name) is not None]
        if len(given) > 1:
            raise misshapen(self.name(index), f"it has {' and '.join(given)}; valid: one of them")
        told = self._questions.answer(index)
        if not given and told is None:
            text = "there is no reference; valid: answer, answers, or an answer at the end"
            raise misshapen(self.name(index), text)
        end = (
            None if told is None else self._checked(Reference((told,), choices), AT_THE_END, index)
        )
        if not given and end is not None:
            return end
        own = Reference(texts_in(record, given[0], self.name(index)), choices)
        reference = self._checked(own, given[0], index)
        if end is not None and not _agree(end, reference):
            text = (
                f"it has {AT_THE_END}, {end.answers[0]!r:.80}, and another one in {given[0]}; "
                "valid: one of them, or several in answers"
            )
            raise misshapen(self.name(index), text)
        return reference

    def _checked(self, reference: Reference, field: str, index: int) -> Reference:
        """A reference of which no right answer is empty, and each is an option, if there are any.

        Raises:
            SampleError: one is empty, or no option.
        """
        choices = reference.choices
        if not all(own.strip() for own in reference.answers):
            text = f"{field}: an empty text; valid: a right answer"
            raise misshapen(self.name(index), text)
        for own in reference.answers if choices else ():
            if option_of(own, choices) is None:
                letters = ", ".join(LETTERS[: len(choices)])
                text = f"{field}: {own!r:.80} is none of the choices; valid: {letters}, or a choice"
                raise misshapen(self.name(index), text)
        return reference

    def source(self, index: int) -> str:
        """Name of the source that a record counts for. Raises SampleError: it is no text."""
        found = self._questions.record(index).get(SOURCE)
        if found is not None and not isinstance(found, str):
            raise misshapen(self.name(index), f"{SOURCE}: {found!r:.80} is no text")
        return self._default if found is None else found


def _agree(end: Reference, reference: Reference) -> bool:
    """Whether the answer at the end of a conversation is one of the right answers."""
    if reference.choices:
        (named,) = _options(end)
        return named in _options(reference)
    return exact_match(end.answers[0], reference).amount == 1


def _options(reference: Reference) -> list[int | None]:
    """Numbers of the options that right answers name."""
    return [option_of(own, reference.choices) for own in reference.answers]
