"""Questions whose references are wrong are told, and not counted as wrong answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.sample import SampleError
from data.sources.formats.prompts import given_questions
from mllm_jax.evaluation.references import ReferencedSet
from tests.configs import config

ANIMALS = ["cat", "dog"]


def references(folder: Path, **record: Any) -> ReferencedSet:
    asked = {"prompt": "Which animal?", "choices": ANIMALS} | record
    return ReferencedSet(given_questions(config().data, [asked], folder), "all")


@pytest.mark.parametrize("answer", ["B", "dog", "Dog", ["A", "dog"]])
def test_a_right_answer_is_one_of_the_choices(tmp_path: Path, answer: Any) -> None:
    assert references(tmp_path, answer=answer).reference(0).choices == ("cat", "dog")


@pytest.mark.parametrize("answer", ["D", "bird", ["A", "bird"]])
def test_a_right_answer_that_is_no_choice_is_told(tmp_path: Path, answer: Any) -> None:
    message = r"answer: '(D|bird)' is none of the choices; valid: A, B, or a choice"
    with pytest.raises(SampleError, match=message):
        references(tmp_path, answer=answer).reference(0)
