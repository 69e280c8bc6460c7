"""Metrics of answers: the correct part of an answer, and the number of parts.

==============  ================================================================================
exact_match     the answer is a reference to the letter, white space around both aside
anls            1 - NL of the nearest reference where NL is below 0.5, else 0: NL is the edit
                distance over the characters of the longer text; cases of letters are equal
                (Biten et al., arXiv 1905.13648, section 4)
wer             word error rate: edits of words over the words of the reference, of all answers
                together; smaller is better. Words are what blanks part: cases and punctuation count
wer_normalised  the same of normalised texts: compatible characters equal (NFKC), lower case, marks,
                symbols and punctuation blank (Radford et al., arXiv 2212.04356, appendix C)
choice          the letter of an option, or its text, whatever the case and a full stop at the end;
                a letter by itself is that option's, even if it is the text of another one. It is
                the one metric of references that have options: the others are of free answers
==============  ================================================================================
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from data.text.options import LETTERS, normalize_option

#: Normalised distance from which on an answer counts for nothing in ANLS.
THRESHOLD = 0.5


class MetricScore(NamedTuple):
    """A part of a mean: `amount` out of `weight`."""

    amount: float
    weight: float


@dataclass(frozen=True)
class AnswerReference:
    """The reference that an answer is compared with.

    Attributes:
        answers: right answers, each as good as the others.
        choices: options to choose from; empty for a free answer.
    """

    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()


def exact_match(answer: str, reference: AnswerReference) -> MetricScore:
    """1 for a right answer, else 0."""
    right = {reference_answer.strip() for reference_answer in reference.answers}
    return MetricScore(float(answer.strip() in right), 1.0)


def score_anls(answer: str, reference: AnswerReference) -> MetricScore:
    """Average normalised Levenshtein similarity of one answer.

    ``score_anls("coat", Reference(("cat",)))`` is 0.75, as one of four letters is too much.
    """
    return MetricScore(
        max(_text_similarity(answer, reference_answer) for reference_answer in reference.answers),
        1.0,
    )


def _text_similarity(answer: str, right: str) -> float:
    normalised, other = (" ".join(text.lower().split()) for text in (answer, right))
    longer = max(len(normalised), len(other))
    distance = edit_distance(normalised, other) / longer if longer else 0.0
    return 1.0 - distance if distance < THRESHOLD else 0.0


def score_wer(answer: str, reference: AnswerReference) -> MetricScore:
    """Edits of words from the nearest reference, out of its words."""
    words = answer.split()
    distances = [
        (edit_distance(words, right), len(right)) for right in map(str.split, reference.answers)
    ]
    return MetricScore(*min(distances, key=lambda pair: pair[0] / max(1, pair[1])))


def wer_normalised(answer: str, reference: AnswerReference) -> MetricScore:
    """`wer` of normalised texts: ``Hello, World!`` has the words of ``hello world``."""
    return score_wer(
        _normalise_text(answer), AnswerReference(tuple(map(_normalise_text, reference.answers)))
    )


def _normalise_text(text: str) -> str:
    """A text as Whisper's basic normaliser leaves it, but for what is in brackets."""
    plain = unicodedata.normalize("NFKC", text.lower())
    return "".join(
        " " if unicodedata.category(character)[0] in "MSP" else character for character in plain
    )


def score_choice(answer: str, reference: AnswerReference) -> MetricScore:
    """1 where the chosen option is a right one, else 0."""
    right = {
        find_option(reference_answer, reference.choices) for reference_answer in reference.answers
    }
    chosen = find_option(answer, reference.choices)
    return MetricScore(float(chosen is not None and chosen in right), 1.0)


#: What sets a letter or a text off and says nothing: emphasis and code of Markdown, boxes of LaTeX.
_MARKUP = re.compile(r"[*`$]+|\\boxed|(?<!\w)_+|_+(?!\w)")
#: A letter and nothing else, perhaps in brackets.
_ALONE = re.compile(r"[(\[{]*([A-Za-z])[)\]}.:,]*")
#: What comes before a letter: "answer is" anywhere, "option" or "choice" at the beginning.
_LEADS = (r"\banswer(?:\s+is)?\s*:?\s*(?:option\s+|choice\s+)?", r"^(?:option|choice)\s+", r"^")
#: A letter that is no part of a word, and what follows it.
_LETTER = r"[(\[{]*([A-Za-z])(?:[)\]}:]|[.,](?=\s|$)|(?=\s|$)|(?=\s*[-\u2013\u2014]))(.*)"
_NAMED = tuple(re.compile(lead + _LETTER, re.IGNORECASE | re.DOTALL) for lead in _LEADS)


def find_option(text: str, choices: Sequence[str]) -> int | None:
    """Number of the option that a text names; None if it names none.

    A letter by itself comes first, as it is what is asked for; then the text of an option, then a
    letter in front of more: ``option_of("A", ("B", "A")) == 0``. A word of one letter in front of
    another word is no option, unless the option's text follows: ``option_of("A dog", ("cat",
    "dog"))`` is None.
    """
    text_only, plain_choices = (
        _MARKUP.sub("", text).strip(),
        [normalize_option(choice) for choice in choices],
    )
    letters = LETTERS[: len(choices)]
    if (match := _ALONE.fullmatch(text_only)) and match[1].upper() in letters:
        return letters.index(match[1].upper())
    for candidate in (normalize_option(text), normalize_option(text_only)):
        if candidate in plain_choices:
            return plain_choices.index(candidate)
    for named in _NAMED:
        if (match := named.search(text_only)) and match[1].upper() in letters:
            number = letters.index(match[1].upper())
            if not _is_word(match) or normalize_option(match[2]) == plain_choices[number]:
                return number
    return None


def _is_word(match: re.Match[str]) -> bool:
    """Whether a letter is a word, such as the article of "A dog", and names nothing."""
    letter, before, after = match[1], match.string[: match.start(1)], match.string[match.end(1) :]
    written = letter in "aI" or (letter in "Ai" and not before.strip())
    return written and re.match(r"[ \t]+\w", after) is not None


def edit_distance(items: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Levenshtein distance: fewest insertions, deletions and substitutions from one to the other.

    ``edits("kitten", "sitting") == 3``.
    """
    row = list(range(len(other) + 1))
    for number, item in enumerate(items, start=1):
        before, row[0] = row[0], number
        for place, right in enumerate(other, start=1):
            change = before + (item != right)
            before = row[place]
            row[place] = min(change, row[place] + 1, row[place - 1] + 1)
    return row[-1]


Metric = Callable[[str, AnswerReference], MetricScore]
#: All metrics by name.
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "exact_match": exact_match,
        "anls": score_anls,
        "wer": score_wer,
        "wer_normalised": wer_normalised,
        "choice": score_choice,
    }
)
#: Metrics of references that have options, and of no others.
OF_CHOICES = frozenset({"choice"})


def parse_metrics(text: str | None) -> tuple[str, ...]:
    """The metrics of `--metrics`, names with commas between; all of them without it.

    Raises:
        ConfigError: as of `check_metrics`.
    """
    names = tuple(METRICS) if text is None else tuple(filter(None, text.split(",")))
    check_metrics(names)
    return names


def check_metrics(names: Sequence[str]) -> None:
    """Check that there are such metrics.

    Raises:
        ConfigError: one is unknown, or none is named.
    """
    from mllm_jax.config.sections import ConfigError  # which --help does not need

    valid = ", ".join(METRICS)
    if not names:
        raise ConfigError("evaluate", [f"--metrics names none; valid: {valid}"])
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ConfigError(
            "evaluate", [f"--metrics: {name!r} is no metric; valid: {valid}" for name in unknown]
        )
