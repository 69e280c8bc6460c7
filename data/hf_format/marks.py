"""Places of the texts of messages in the output of a chat template.

A template may trim, move or leave out what it is given, and a text may also occur where it is not
meant (an answer `user` in the header of every turn). So the conversation is rendered once more with
marks around every text; where marks are in that rendering the texts are, and without the marks it
must be the rendering itself.

    ⟨0 Hi 0⟩ -> <|user|>⟨0 Hi 0⟩<|end|>      text 0 is at 8 to 10 of <|user|>Hi<|end|>

Marks are inside of the white space around a text, so that a template that trims it still does. How
much of that white space is written is seen from a rendering of texts that have none: what is more
around the marks is the text's, and the rest the template's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from data.sample import ConversationError

Span = tuple[int, int]  # first character, and one after the last

# Code points that Unicode keeps free of characters for such use inside of a program.
_OPEN, _CLOSE, _END, _DIGITS = "\ufdd0", "\ufdd1", "\ufdd2", "\ufde0"
_MARK = re.compile(f"([{_OPEN}{_CLOSE}])([{_DIGITS}-\ufde9]+){_END}")
_RESERVED = re.compile("[\ufdd0-\ufdef]")


def _encode_number(number: int) -> str:
    return "".join(chr(ord(_DIGITS) + int(digit)) for digit in str(number)) + _END


def add_marks(text: str, number: int) -> str:
    """`text` with marks around it, but inside of the white space around it.

    Raises:
        ConversationError: the text has characters that the marks consist of.
    """
    reserved = _RESERVED.search(text)
    if reserved:
        raise ConversationError(f"a text has U+{ord(reserved[0]):04X}, which is no character")
    core = text.strip()
    if not core:
        return text
    leading, trailing = white_space(text)
    return (
        f"{leading}{_OPEN}{_encode_number(number)}{core}{_CLOSE}{_encode_number(number)}{trailing}"
    )


def white_space(text: str) -> tuple[str, str]:
    """White space before and after the characters of `text`, which has some."""
    core = text.strip()
    begin = text.index(core)
    return text[:begin], text[begin + len(core) :]


@dataclass(frozen=True)
class FoundMark:
    """Places of the marks of one text in a rendering, in characters."""

    opened: tuple[int, ...]
    closed: tuple[int, ...]

    def text_span(self, text: str, rendered: str) -> Span | None:
        """The place of the text, if it occurs once; if one mark is lost, the text must be there.

        Templates that split a text (at `</think>`, say) lose a mark and may well write all
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

    def text_spans(self, text: str, rendered: str) -> list[Span] | None:
        """Everywhere that the text is; None if that is not known."""
        if len(self.opened) != len(self.closed):
            one = self.text_span(text, rendered)
            return None if one is None else [one]
        pairs = list(zip(self.opened, self.closed, strict=True))
        return pairs if all(begin <= end for begin, end in pairs) else None


_Mark = tuple[str, int]


def _split_at_marks(with_marks: str) -> tuple[list[str], list[_Mark]]:
    """Marks, and the text before each and after the last."""
    pieces, marks, done = [], [], 0
    for mark in _MARK.finditer(with_marks):
        pieces.append(with_marks[done : mark.start()])
        marks.append((mark[1], int("".join(str(ord(digit) - ord(_DIGITS)) for digit in mark[2]))))
        done = mark.end()
    return [*pieces, with_marks[done:]], marks


def found_in(rendered: str, with_marks: str, texts: Sequence[str]) -> list[FoundMark]:
    """Places of the marks of `texts`, which are numbered in their order.

    Args:
        rendered: without marks.
        with_marks: the same conversation with marks.
        texts: without white space around them.

    Raises:
        ConversationError: the template makes something else of texts with marks.
    """
    pieces, marks = _split_at_marks(with_marks)
    at = 0
    places: dict[_Mark, list[int]] = defaultdict(list)
    for piece, mark in zip(pieces, marks, strict=False):
        at += len(piece)
        places[mark].append(at)
    if "".join(pieces) != rendered:
        raise ConversationError(
            "the chat template changes the texts of this conversation, so that its answers cannot "
            "be found in what it writes"
        )
    numbers = range(len(texts))
    return [FoundMark(tuple(places[_OPEN, n]), tuple(places[_CLOSE, n])) for n in numbers]


def written_spaces(
    with_marks: str, bare: str, spaces: Sequence[tuple[str, str]]
) -> list[tuple[int, int]]:
    """The white space that a rendering has before and after each text, as numbers of characters.

    Args:
        with_marks: the rendering.
        bare: the rendering of texts without white space around them.
        spaces: white space of the texts, as of `white_space`; empty where `bare` has it, too.
    """
    (pieces, marks), (others, same) = _split_at_marks(with_marks), _split_at_marks(bare)
    counts = [[0, 0] for _ in spaces]
    if marks != same:
        return [(0, 0)] * len(spaces)
    for number, (piece, other) in enumerate(zip(pieces, others, strict=True)):
        closed = [n for mark, n in marks[max(number - 1, 0) : number] if mark == _CLOSE]
        opened = [n for mark, n in marks[number : number + 1] if mark == _OPEN]
        trailing = "".join(spaces[n][1] for n in closed)
        leading = "".join(spaces[n][0] for n in opened)
        after, before = _match_spaces(piece, other, trailing, leading)
        for n in opened:
            counts[n][0] = before
        for n in closed:
            counts[n][1] = after
    return [(before, after) for before, after in counts]


def _match_spaces(piece: str, other: str, trailing: str, leading: str) -> tuple[int, int]:
    """How much of `trailing` begins `piece` and of `leading` ends it, around `other`."""
    more = len(piece) - len(other)
    for after in range(min(more, len(trailing)), -1, -1):
        before = more - after
        if piece == trailing[:after] + other + leading[max(len(leading) - before, 0) :]:
            return after, before
    return 0, 0
