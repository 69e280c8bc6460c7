"""Metrics on examples that others have published or that can be counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.evaluation.evaluate import EvaluationResult, JudgedAnswer
from mllm_jax.evaluation.metrics import (
    AnswerReference,
    MetricScore,
    edit_distance,
    exact_match,
    find_option,
    score_anls,
    score_choice,
    score_wer,
    wer_normalised,
)
from mllm_jax.generate.answers import AnswerReply, AnswerTiming


@pytest.mark.parametrize(
    ("own", "other", "distance"),
    [
        ("kitten", "sitting", 3),  # Wagner and Fischer's problem, as textbooks have it
        ("saturday", "sunday", 3),
        ("", "abc", 3),
        ("abc", "abc", 0),
        ("flaw", "lawn", 2),
    ],
)
def test_edit_distances(own: str, other: str, distance: int) -> None:
    assert edit_distance(own, other) == edit_distance(other, own) == distance


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edits_are_a_distance(a: str, b: str, c: str) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


@pytest.mark.parametrize(
    ("answer", "references", "score"),
    [
        # The metric's own rules: case and spaces aside, nearest reference, nothing from 0.5 on.
        ("Coca Cola", ["coca cola"], 1.0),
        ("coca  cola ", ["Coca Cola"], 1.0),
        ("coca cola company", ["coca cola"], 1 - 8 / 17),
        ("coat", ["cat"], 0.75),
        ("0.28", ["0.82"], 0.0),  # two edits of four characters are not below a half
        ("abcd", ["abxx", "abcx"], 0.75),
        ("yes", ["no"], 0.0),
        ("", ["stop"], 0.0),
    ],
)
def test_anls(answer: str, references: list[str], score: float) -> None:
    found = score_anls(answer, AnswerReference(tuple(references)))
    assert found.amount == pytest.approx(score)
    assert found.weight == 1


@pytest.mark.parametrize(
    ("answer", "references", "errors", "words"),
    [
        # hypothesis "the cat sat" of "the cat sat on the mat": three deletions of six words
        ("the cat sat", ["the cat sat on the mat"], 3, 6),
        ("the bat sat on a mat", ["the cat sat on the mat"], 2, 6),
        ("a b c d", ["a b"], 2, 2),  # more than all words can be wrong
        ("hello duck", ["hello world", "hello  duck"], 0, 2),
        ("x", [""], 1, 0),
    ],
)
def test_word_errors(answer: str, references: list[str], errors: float, words: float) -> None:
    assert score_wer(answer, AnswerReference(tuple(references))) == (errors, words)


@pytest.mark.parametrize(
    ("answer", "reference", "plain", "normalised"),
    [
        ("Hello, World!", "hello world", 2, 0),
        ("HELLO  world.", "hello world", 2, 0),
        ("It's a well-known cat", "it s a well known cat", 4, 0),
        ("hello word", "Hello, world!", 2, 1),
        ("\uff28\uff29", "hi", 1, 0),  # full-width letters
        ("!", "hello world", 2, 2),
    ],
)
def test_word_errors_of_normalised_texts(
    answer: str, reference: str, plain: int, normalised: int
) -> None:
    own = AnswerReference((reference,))
    assert score_wer(answer, own).amount == plain
    assert wer_normalised(answer, own).amount == normalised
    assert wer_normalised(answer.upper(), own) == wer_normalised(answer, own)


def test_exact_match_is_to_the_letter() -> None:
    reference = AnswerReference(("Stop", "halt"))
    assert exact_match(" halt\n", reference) == (1.0, 1.0)
    assert exact_match("stop", reference) == (0.0, 1.0)


@pytest.mark.parametrize(
    "answer",
    [
        *("B", "b", "(B)", "B.", "[B]", "**B**", "**B.**", "`B`", "$\\boxed{B}$", "_B_"),
        *("B) dog", "B: dog", "B dog", "B. dog", "B - dog", "**B** dog", "(B) It barks."),
        *("dog", "Dog.", "**dog**", "Option B", "option (B): dog", "Choice B."),
        *("The answer is B", "Answer: B.", "The answer is B because it barks", "The answer is (B)"),
        *("The correct answer is **B**.", "Final answer: B, a dog", "The answer is option B."),
    ],
)
def test_an_option_is_named_by_letter_or_text(answer: str) -> None:
    choices = ("cat", "dog", "bird")
    for right in ("B", "dog"):
        assert score_choice(answer, AnswerReference((right,), choices)) == (1.0, 1.0)
    assert score_choice(answer, AnswerReference(("A",), choices)) == (0.0, 1.0)


@pytest.mark.parametrize(
    "answer", ["It rains.", "it rains", "It rains. ", "A", "(A)", "A. It rains."]
)
def test_options_may_end_in_a_full_stop(answer: str) -> None:
    choices = ("It rains.", "It snows.")
    for right in ("A", "It rains.", "It rains"):
        assert score_choice(answer, AnswerReference((right,), choices)) == (1.0, 1.0)
    assert score_choice(answer, AnswerReference(("It snows.",), choices)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("answer", "choices", "number"),
    [
        ("A", ("B", "A"), 0),  # the letter, which is asked for
        ("(b)", ("B", "A"), 1),
        ("C", ("C", "D"), 0),  # no option has this letter
        ("A. Smith", ("B. Jones", "A. Smith"), 1),  # more than a letter: the text
        ("A. Smith", ("B. Jones", "C. Smith"), 0),
    ],
)
def test_a_letter_wins_where_it_is_the_text_of_another_option(
    answer: str, choices: tuple[str, ...], number: int
) -> None:
    assert find_option(answer, choices) == number


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("A cat", 0),  # the text of the option agrees
        ("A", 0),
        ("A.", 0),
        ("a", 0),
        ("A - it meows", 0),
        ("A. It meows", 0),
        ("A\nIt meows", 0),
        ("The answer is A because it meows", 0),
        ("The answer is a cat.", 0),
        ("A dog", None),
        ("A bird in the hand", None),
        ("a lot of it", None),
        ("The answer is a dog", None),
        ("I think so", None),
    ],
)
def test_an_article_is_no_option(answer: str, number: int | None) -> None:
    assert find_option(answer, ("cat", "dog", *"cdefghi")) == number


@pytest.mark.parametrize(
    "answer", ["", "D", "A dog", "Because", "none of them", "The answer depends", "B's", "option"]
)
def test_what_names_no_option_is_wrong(answer: str) -> None:
    for right in "ABC":
        assert score_choice(answer, AnswerReference((right,), ("cat", "dog", "bird"))) == (0.0, 1.0)


def test_a_mean_counts_every_word_and_only_what_has_the_metric() -> None:
    """Word errors of all answers together, as speech is measured, and not the mean of rates."""

    def judged(source: str, **scores: MetricScore) -> JudgedAnswer:
        return JudgedAnswer(source, AnswerReply("x", "y"), AnswerReference(("z",)), scores)

    each = [
        judged("a", wer=MetricScore(3, 6)),
        judged("a", wer=MetricScore(2, 2), choice=MetricScore(1, 1)),
        judged("b", wer=MetricScore(0, 4)),
        JudgedAnswer("b", AnswerReply("x", None, error="unusable"), None, {}),
    ]
    found = EvaluationResult("m", ("wer", "choice"), each, AnswerTiming())
    assert found.mean_scores("a") == {"wer": 5 / 8, "choice": 1.0}
    assert found.mean_scores("b") == {"wer": 0.0, "choice": None}
    assert found.rows[-1] == ("all", 3, 1, 5 / 12, 1.0)
