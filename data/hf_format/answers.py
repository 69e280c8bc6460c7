"""Where an answer begins and ends in the tokens of a conversation, for all who ask.

    <|user|>Hi<|end|><|assistant|>\nYo \n<|end|>\n
                                  |  |      |
    the prompt, up to where an answer begins; its text; its end, with the white space before it

What is learnt is everything after the prompt up to the end of the text, and then, if nothing but
white space is in between, the special token that ends an answer. Generation goes on from the same
prompt, and stops at the same token.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.hf_format.marks import Span
from data.hf_format.tokens import TokenizedText

#: What stands for the answer where the prompt of an answer is asked for. No text has it.
ASKED = "\ufdd3"


@dataclass(frozen=True)
class ConversationAnswer:
    """An answer in the text of a conversation.

    Attributes:
        turn: number of its turn.
        learnt: whether it is learnt.
        spans: characters of its texts, with the white space around them that is theirs; there are
            several if media stand between them.
    """

    turn: int
    learnt: bool
    spans: tuple[Span, ...]

    @property
    def begin(self) -> int:
        """Its first character."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """The character after it."""
        return self.spans[-1][1]


def prompt_before(written: str) -> str | None:
    """The prompt in a rendering with `ASKED` for the answer; None if that is not written once.

    Blanks at its end are left to the answer: most tokenizers join a blank with the word after it.
    """
    before, _, after = written.partition(ASKED)
    once = before != written and ASKED not in after
    return before.rstrip(" ") if once else None


def learnt_tokens(
    text: str,
    tokens: TokenizedText,
    answer: ConversationAnswer,
    start: int,
    ends: Collection[int] | None,
) -> NDArray[np.bool_]:
    """`[tokens]`, which of them are learnt of an answer.

    Args:
        text: the conversation.
        tokens: its tokens.
        answer: the answer.
        start: characters of its prompt.
        ends: tokens that end answers; None: any special token.
    """
    (_, first), *others = answer.spans
    begins = tokens.spans[:, 0] >= start
    # A special token after the prompt may be part of a header, but not of the answer's text.
    header = ~tokens.special | (tokens.spans[:, 1] <= answer.begin)
    learnt = tokens.in_span((start, first)) & begins & header
    for span in others:
        learnt |= tokens.in_span(span) & begins & ~tokens.special
    if learnt.any():
        text_end = int(np.flatnonzero(learnt)[-1]) + 1
        learnt[text_end : _end_after(text, tokens, text_end, ends)] = True
    return learnt


def _end_after(
    text: str, tokens: TokenizedText, text_end: int, ends: Collection[int] | None
) -> int:
    """One more than the token that ends an answer whose text ends before token `text_end`.

    `text_end` itself if none of `ends` is there.
    """
    at = text_end
    while at < len(tokens.ids) and not tokens.special[at] and not _is_visible(text, tokens, at):
        at += 1
    is_special = at < len(tokens.ids) and bool(tokens.special[at])
    return at + 1 if is_special and (ends is None or tokens.ids[at] in ends) else text_end


def _is_visible(text: str, tokens: TokenizedText, number: int) -> bool:
    """Whether a token is more than white space."""
    begin, end = tokens.spans[number]
    return not text[begin:end].isspace()


def end_of(tokens: TokenizedText, learnt: NDArray[np.bool_]) -> int | None:
    """The token that ends the last of the answers that are learnt, if one does."""
    last = np.flatnonzero(learnt)[-1:]
    return next((int(tokens.ids[at]) for at in last if tokens.special[at]), None)


def first_difference(one: str, other: str) -> int:
    """The first character in which two texts differ."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def excerpt_of(text: str, at: int, most: int = 24) -> str:
    """A few characters of a text from `at` on, for messages."""
    return repr(text[at : at + most])


def template_with_prompt(template: str, parts: bool) -> str:
    """A chat template whose generation prompt is the one that `prompt_before` finds.

    Everything else is written as `template` does.

    Args:
        template: the chat template.
        parts: whether it takes the content of answers in parts.
    """
    content = "[{'type': 'text', 'text': '\\ufdd3'}]" if parts else "'\\ufdd3'"
    body = template.removesuffix("\n")
    return (
        "{#- Written by mllm_jax: the generation prompt is what stood before answers in training.\n"
        "    The template of the training follows twice, unchanged. -#}\n"
        "{%- if add_generation_prompt %}\n"
        f"{{%- set messages = messages + [{{'role': 'assistant', 'content': {content}}}] %}}\n"
        "{%- set add_generation_prompt = false %}\n"
        f"{{%- set asked %}}\n{body}{{{{ '' }}}}{{%- endset %}}\n"
        "{{- asked.split('\\ufdd3')[0].rstrip(' ') }}\n"
        f"{{%- else %}}\n{body}{{{{ '' }}}}{{% endif %}}"
    )
