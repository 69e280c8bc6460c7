"""Options of a question, listed after it as LLaVA-1.5 was evaluated (arXiv 2310.03744).

What is it?
A. cat
B. dog
Answer with the option's letter from the given choices directly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from data.quotes import quoted

if TYPE_CHECKING:  # which those who read configurations do not need
    from data.sample import Turn

#: Field of a record's options.
CHOICES = "choices"
#: Letters of options, in their order.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: What is asked after the options.
ASKED = "Answer with the option's letter from the given choices directly."


def normalize_option(text: str) -> str:
    """A text without what does not distinguish options."""
    return text.strip().lower().removesuffix(".")


def check_options(choices: Sequence[str]) -> None:
    """Check that options have letters, and that an answer says which of them it names.

    Raises:
        ValueError: there are too few or too many, one is empty, or two are equal.
    """
    if not 1 < len(choices) <= len(LETTERS):
        valid = f"at least 2, and at most {len(LETTERS)}"
        count = f"{len(choices)} option{'s' * (len(choices) > 1)}"
        raise ValueError(f"{CHOICES}: {count}; valid: {valid}")
    first: dict[str, int] = {}
    for number, choice in enumerate(choices):
        if not choice.strip():
            raise ValueError(f"{CHOICES}.{number}: an empty text; valid: an option")
        before = first.setdefault(normalize_option(choice), number)
        if before != number:
            raise ValueError(
                f"{CHOICES}.{number}: {quoted(choice)} is like option {LETTERS[before]}, "
                f"{quoted(choices[before])}; valid: options that differ in more than cases and a "
                "full stop"
            )


def with_options(
    turns: Sequence[Turn], choices: Sequence[str], marks: re.Pattern[str]
) -> tuple[Turn, ...]:
    """A conversation up to its question, after which options are listed with their letters.

    Args:
        turns: the conversation; an answer at its end is left out.
        choices: the options.
        marks: placeholders of media, which are words in an option.

    Raises:
        ValueError: there is no question.
    """
    before = turns[:-1] if turns and turns[-1].role == "assistant" else turns
    if not before or before[-1].role != "user":
        raise ValueError(f"{CHOICES}: there is no question before them; valid: one of the user")
    *earlier, question = before
    options = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    listed = "\n".join(["", *options, ASKED])
    begin = len(question.text)
    words = (begin + mark.start() for mark in marks.finditer(listed))
    asked = replace(question, text=question.text + listed, words=(*question.words, *words))
    return (*earlier, asked)
