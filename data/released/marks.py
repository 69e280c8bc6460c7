"""Where texts of messages are in what a chat template makes of them.

A template may trim, move or leave out what it is given, and a text may also occur where it is not
meant (an answer `user` in the header of every turn). So the conversation is rendered once more with
marks around every text; where marks are in that rendering the texts are, and without the marks it
must be the rendering itself.

    ⟨0 Hi 0⟩ -> <|user|>⟨0 Hi 0⟩<|end|>      text 0 is at 8 to 10 of <|user|>Hi<|end|>
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from data.sample import ConversationError

Span = tuple[int, int]  # first character, and one behind the last

# Code points that Unicode keeps free of characters for such use inside of a program.
_OPEN, _CLOSE, _END, _DIGITS = "\ufdd0", "\ufdd1", "\ufdd2", "\ufde0"
_MARK = re.compile(f"([{_OPEN}{_CLOSE}])([{_DIGITS}-\ufde9]+){_END}")
_RESERVED = re.compile("[\ufdd0-\ufdef]")


def _number(number: int) -> str:
    return "".join(chr(ord(_DIGITS) + int(digit)) for digit in str(number)) + _END


def marked(text: str, number: int) -> str:
    """`text` with marks around it, but inside of the white space around it.

    Raises:
        ConversationError: it has characters that the marks are made of.
    """
    found = _RESERVED.search(text)
    if found:
        raise ConversationError(f"a text has U+{ord(found[0]):04X}, which is no character")
    core = text.strip()
    if not core:
        return text
    begin = text.index(core)
    around = f"{_OPEN}{_number(number)}{core}{_CLOSE}{_number(number)}"
    return text[:begin] + around + text[begin + len(core) :]


@dataclass(frozen=True)
class Found:
    """Where the marks of one text are in a rendering, in characters."""

    opened: tuple[int, ...]
    closed: tuple[int, ...]

    def span(self, text: str, rendered: str) -> Span | None:
        """Where the text is, if it is there once; if one mark got lost, the text must be there.

        Templates that take a text apart (at `</think>`, say) lose a mark and may well write all
        parts again.
        """
        match self.opened, self.closed:
            case (begin,), (end,):
                return (begin, end) if begin < end else None
            case (), (end,):
                return (end - len(text), end) if rendered[:end].endswith(text) else None
            case (begin,), ():
                end = begin + len(text)
                return (begin, end) if rendered[begin:end] == text else None
        return None

    def spans(self, text: str, rendered: str) -> list[Span] | None:
        """Everywhere that the text is; None if that cannot be told."""
        if len(self.opened) != len(self.closed):
            one = self.span(text, rendered)
            return None if one is None else [one]
        pairs = list(zip(self.opened, self.closed, strict=True))
        return pairs if all(begin <= end for begin, end in pairs) else None


def found_in(rendered: str, with_marks: str, texts: Sequence[str]) -> list[Found]:
    """Where the marks of `texts`, numbered in their order, are.

    Args:
        rendered: without marks.
        with_marks: the same conversation with marks.
        texts: without white space around them.

    Raises:
        ConversationError: the template makes something else of texts with marks.
    """
    pieces, at, done = [], 0, 0
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for mark in _MARK.finditer(with_marks):
        pieces.append(with_marks[done : mark.start()])
        at, done = at + len(pieces[-1]), mark.end()
        number = int("".join(str(ord(digit) - ord(_DIGITS)) for digit in mark[2]))
        places[mark[1], number].append(at)
    pieces.append(with_marks[done:])
    if "".join(pieces) != rendered:
        raise ConversationError(
            "the chat template changes the texts of this conversation, so that its answers cannot "
            "be found in what it writes"
        )
    numbers = range(len(texts))
    return [Found(tuple(places[_OPEN, n]), tuple(places[_CLOSE, n])) for n in numbers]
