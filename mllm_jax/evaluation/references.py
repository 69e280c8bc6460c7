"""Questions with references: records as of training or of `generate`, with what is right.

    {"prompt": "What does the sign say?", "image": "a.png", "answers": ["stop", "STOP"],
     "source": "signs"}

    {"prompt": "Which animal is it?", "image": "b.png", "choices": ["cat", "dog"], "answer": "B"}

The right answers are in `answer` or `answers` (one or a list), or else the last answer of the
conversation, or the `completion`, `response` or `output` of the question. Where a record has both,
they must agree, and none is empty. `choices` are listed after the last question
(`data.text.options`). `source` names the part of the data that a record counts for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data.sample import Sample
from data.sources.formats.prompts import QuestionSet, misshapen_record, texts_in
from data.sources.source import SampleKey
from data.text.options import LETTERS
from mllm_jax.evaluation.metrics import AnswerReference, exact_match, find_option

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

    def record_id(self, index: int) -> Any:
        """See `QuestionSource.record_id`."""
        return self._questions.record_id(index)

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
        self.source(index)  # checked before anything is answered
        self.reference(index)
        return self._questions[key]

    def reference(self, index: int) -> AnswerReference:
        """What the answer is compared with.

        Raises:
            SampleError: nothing is, or it has the wrong shape.
        """
        record = self._questions.question_record(index)
        choices = self._questions.answer_choices(index)
        fields = [name for name in ANSWERS if record.get(name) is not None]
        if len(fields) > 1:
            raise misshapen_record(
                self.name(index), f"it has {' and '.join(fields)}; valid: one of them"
            )
        final_answer = self._questions.answer_text(index)
        if not fields and final_answer is None:
            text = "there is no reference; valid: answer, answers, or an answer at the end"
            raise misshapen_record(self.name(index), text)
        end = (
            None
            if final_answer is None
            else self._check_reference(AnswerReference((final_answer,), choices), AT_THE_END, index)
        )
        if not fields and end is not None:
            return end
        reference_given = AnswerReference(texts_in(record, fields[0], self.name(index)), choices)
        reference = self._check_reference(reference_given, fields[0], index)
        if end is not None and not _are_consistent(end, reference):
            text = (
                f"it has {AT_THE_END}, {end.answers[0]!r:.80}, and another one in {fields[0]}; "
                "valid: one of them, or several in answers"
            )
            raise misshapen_record(self.name(index), text)
        return reference

    def _check_reference(
        self, reference: AnswerReference, field: str, index: int
    ) -> AnswerReference:
        """A reference of which no right answer is empty, and each is an option, if there are any.

        Raises:
            SampleError: one is empty, or no option.
        """
        choices = reference.choices
        if not all(answer.strip() for answer in reference.answers):
            text = f"{field}: an empty text; valid: a right answer"
            raise misshapen_record(self.name(index), text)
        for answer in reference.answers if choices else ():
            if find_option(answer, choices) is None:
                letters = ", ".join(LETTERS[: len(choices)])
                text = (
                    f"{field}: {answer!r:.80} is none of the choices; valid: {letters}, or a choice"
                )
                raise misshapen_record(self.name(index), text)
        return reference

    def source(self, index: int) -> str:
        """Name of the source that a record counts for. Raises SampleError: it is no text."""
        source = self._questions.question_record(index).get(SOURCE)
        if source is not None and not isinstance(source, str):
            raise misshapen_record(self.name(index), f"{SOURCE}: {source!r:.80} is no text")
        return self._default if source is None else source


def _are_consistent(end: AnswerReference, reference: AnswerReference) -> bool:
    """Whether the answer at the end of a conversation is one of the right answers."""
    if reference.choices:
        (named,) = _option_numbers(end)
        return named in _option_numbers(reference)
    return exact_match(end.answers[0], reference).amount == 1


def _option_numbers(reference: AnswerReference) -> list[int | None]:
    """Numbers of the options that right answers name."""
    return [find_option(answer, reference.choices) for answer in reference.answers]
