"""Questions whose references are wrong are told, and not counted as wrong answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.sample import SampleError
from data.sources.formats.prompts import QuestionSet, program_questions
from data.text.options import ASKED
from mllm_jax.evaluation.metrics import score_choice
from mllm_jax.evaluation.references import ReferencedSet
from tests.configs import config

ANIMALS = ["cat", "dog"]


def questions(folder: Path, record: dict[str, Any]) -> QuestionSet:
    return program_questions(config().data, [record], folder)


def references(folder: Path, **record: Any) -> ReferencedSet:
    asked = {"prompt": "Which animal?", "choices": ANIMALS} | record
    return ReferencedSet(program_questions(config().data, [asked], folder), "all")


@pytest.mark.parametrize("answer", ["B", "dog", "Dog", ["A", "dog"]])
def test_a_right_answer_is_one_of_the_choices(tmp_path: Path, answer: Any) -> None:
    assert references(tmp_path, answer=answer).reference(0).choices == ("cat", "dog")


@pytest.mark.parametrize("source", [7, ["a"], {"name": "a"}])
def test_a_source_that_is_no_text_is_told_with_the_question(tmp_path: Path, source: Any) -> None:
    """And not once all questions have been answered."""
    with pytest.raises(SampleError, match=r"source: .* is no text"):
        references(tmp_path, answer="A", source=source)[0, 0]
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
    assert [turn.text for turn in found[0, 0].turns] == ["What?"]


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
def test_options_are_listed_after_the_question_and_the_answer_is_not_shown(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    found = references(tmp_path, **record)
    (turn,) = found[0, 0].turns
    own = {"prompt": "Which animal?", "choices": ANIMALS} | record
    assert questions(tmp_path, own)[0, 0].turns == found[0, 0].turns  # that of `generate`
    assert turn.text == f"Which animal?\nA. cat\nB. dog\n{ASKED}"
    assert score_choice("B", found.reference(0)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"answer": "B", "answers": ["B"]}, "it has answer and answers; valid: one of them"),
        ({}, "there is no reference; valid: answer, answers, or an answer at the end"),
        ({"answer": []}, "answer: an empty list; valid: at least one text"),
        ({"answer": True}, "answer: True is no text"),
        ({"choices": ["x"] * 27, "answer": "A"}, "choices: 27 options; valid: at least 2, and at"),
        ({"choices": "cat", "answer": "A"}, "choices: 1 option; valid: at least 2, and at most 26"),
        ({"choices": ["cat", "dog", "cat"], "answer": "A"}, "choices.2: 'cat' is like option A"),
        (
            {"choices": ["cat", "dog", "Dog. "], "answer": "A"},
            "choices.2: 'Dog. ' is like option B",
        ),
        ({"choices": ["1", 1], "answer": "A"}, "choices.1: '1' is like option A, '1'; valid: opt"),
        ({"choices": ["cat", " "], "answer": "A"}, "choices.1: an empty text; valid: an option"),
    ],
)
def test_references_of_the_wrong_shape_are_told(
    tmp_path: Path, record: dict[str, Any], why: str
) -> None:
    with pytest.raises(SampleError) as told:
        references(tmp_path, **record).reference(0)
    assert why in str(told.value)


def asked(answer: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "Which animal?"},
        {"role": "assistant", "content": answer},
    ]


#: Records with an answer of the question, `end`, by what holds it.
ENDS: dict[str, Any] = {
    "completion": lambda end: {"prompt": "What?", "completion": end},
    "response": lambda end: {"query": "What?", "response": end},
    "output": lambda end: {"instruction": "What?", "output": end},
    "messages": lambda end: {"messages": asked(end)},
    "texts": lambda end: {"texts": [{"user": "What?", "assistant": end}]},
}


@pytest.mark.parametrize("form", ENDS)
@pytest.mark.parametrize("own", [{"answer": "b"}, {"answers": ["b", "c"]}, {"answer": 7}])
def test_two_answers_that_differ_are_told_and_none_is_dropped(
    form: str, own: dict[str, Any], tmp_path: Path
) -> None:
    free = {"prompt": None, "choices": None}
    told = f"it has an answer at the end, 'a', and another one in {next(iter(own))}; valid: one of"
    with pytest.raises(SampleError, match=told):
        references(tmp_path, **free | ENDS[form]("a") | own)[0, 0]
    found = references(tmp_path, **free | ENDS[form](" b") | {"answers": ["b", "c"]})
    assert found.reference(0).answers == ("b", "c")
    assert references(tmp_path, **free | ENDS[form]("a")).reference(0).answers == ("a",)


def test_an_answer_at_the_end_agrees_by_the_option_that_it_names(tmp_path: Path) -> None:
    own = {"prompt": None, "messages": asked("The answer is B, as it barks.")}
    assert references(tmp_path, **own, answer="dog").reference(0).answers == ("dog",)
    with pytest.raises(SampleError, match="another one in answer"):
        references(tmp_path, **own, answer="A").reference(0)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"answer": ""}, "answer"),
        ({"answer": " \n"}, "answer"),
        ({"answers": [""]}, "answers"),
        ({"answers": ["cat", ""]}, "answers"),
        ({"completion": ""}, "an answer at the end"),
        ({"prompt": None, "messages": asked("")}, "an answer at the end"),
        ({"answer": "", "choices": ANIMALS}, "answer"),
    ],
)
def test_an_empty_right_answer_is_told(record: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(SampleError, match=f"{field}: an empty text; valid: a right answer"):
        references(tmp_path, **{"choices": None} | record)[0, 0]


def test_options_of_a_prompt_are_listed_without_a_right_answer(tmp_path: Path) -> None:
    """They stand after the last question; placeholders in them are words."""
    earlier = [*asked("A cat."), {"role": "user", "content": "And this?"}]
    (*_, last) = questions(tmp_path, {"messages": earlier, "choices": ["<image>", 7]})[0, 0].turns
    assert last.text == f"And this?\nA. <image>\nB. 7\n{ASKED}"
    assert last.count("<image>") == 0
    with pytest.raises(SampleError, match=r"choices.1: 'cat' is like option A"):
        questions(tmp_path, {"prompt": "What?", "choices": ["cat", "cat"]})[0, 0]


def test_options_without_a_question_are_told(tmp_path: Path) -> None:
    own = {"messages": asked("A")[1:], "choices": ANIMALS}
    with pytest.raises(SampleError, match="choices: there is no question before them"):
        questions(tmp_path, own)[0, 0]
