"""Questions whose references are wrong are told, and not counted as wrong answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.sample import SampleError
from data.sources.formats.prompts import given_questions
from mllm_jax.evaluation.metrics import choice
from mllm_jax.evaluation.references import ReferencedSet
from tests.configs import config

ANIMALS = ["cat", "dog"]


def references(folder: Path, **record: Any) -> ReferencedSet:
    asked = {"prompt": "Which animal?", "choices": ANIMALS} | record
    return ReferencedSet(given_questions(config().data, [asked], folder), "all")


@pytest.mark.parametrize("answer", ["B", "dog", "Dog", ["A", "dog"]])
def test_a_right_answer_is_one_of_the_choices(tmp_path: Path, answer: Any) -> None:
    assert references(tmp_path, answer=answer).reference(0).choices == ("cat", "dog")


@pytest.mark.parametrize("source", [7, ["a"], {"name": "a"}])
def test_a_source_that_is_no_text_is_told_with_the_question(tmp_path: Path, source: Any) -> None:
    """And not once all questions have been answered."""
    with pytest.raises(SampleError, match=r"source: .* is no text"):
        references(tmp_path, answer="A", source=source)[0]
    assert references(tmp_path, answer="A", source="signs").source(0) == "signs"


@pytest.mark.parametrize("answer", ["D", "bird", ["A", "bird"]])
def test_a_right_answer_that_is_no_choice_is_told(tmp_path: Path, answer: Any) -> None:
    message = r"answer: '(D|bird)' is none of the choices; valid: A, B, or a choice"
    with pytest.raises(SampleError, match=message):
        references(tmp_path, answer=answer).reference(0)


@pytest.mark.parametrize("name", ["answer", "answers"])
def test_questions_of_vqa_are_read_with_their_answers(tmp_path: Path, name: str) -> None:
    own = {"prompt": None, "choices": None, "question": "What?", name: ["a cat", "cat"]}
    found = references(tmp_path, **own)
    assert found.reference(0).answers == ("a cat", "cat")
    assert [turn.text for turn in found[0].turns] == ["What?"]


ASKED = "Answer with the option's letter from the given choices directly."


@pytest.mark.parametrize(
    "record",
    [
        {"answer": "B"},
        {
            "prompt": None,
            "messages": [
                {"role": "user", "content": "Which animal?"},
                {"role": "assistant", "content": "dog"},
            ],
        },
    ],
    ids=["field", "end"],
)
def test_options_are_listed_behind_the_question_and_the_answer_is_not_shown(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    found = references(tmp_path, **record)
    (turn,) = found[0].turns
    assert turn.text == f"Which animal?\nA. cat\nB. dog\n{ASKED}"
    assert choice("B", found.reference(0)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"answer": "B", "answers": ["B"]}, "it has answer and answers; valid: one of them"),
        ({}, "there is no reference; valid: answer, answers, or an answer at the end"),
        ({"answer": []}, "answer: an empty list; valid: at least one text"),
        ({"answer": True}, "answer: True is no text"),
        ({"choices": ["x"] * 27, "answer": "A"}, "choices: 27 options; valid: at most 26"),
    ],
)
def test_references_of_the_wrong_shape_are_told(
    tmp_path: Path, record: dict[str, Any], why: str
) -> None:
    with pytest.raises(SampleError) as told:
        references(tmp_path, **record).reference(0)
    assert why in str(told.value)
