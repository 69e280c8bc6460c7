"""Values of users in messages, never longer than a line or two."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

#: Characters of a value, and names of a list, that a message shows.
SHOWN, NAMED = 80, 20


def quoted(value: object, most: int = SHOWN) -> str:
    """`value` as Python writes it, of which a long one is cut: `'iVBORw0KGgo...' (722480 long)`.

    Args:
        value: any value of a record or a configuration.
        most: most characters of it.
    """
    if isinstance(value, str | bytes):
        begin = value[:most]
        return repr(begin) if len(begin) == len(value) else f"{begin!r}... ({len(value)} long)"
    text = _SHORT.repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def printable(text: str, allowed: str = "") -> str:
    """`text` with an escape for each character that would not be seen, or would act on a terminal.

    Among these are line breaks, which would begin a line of a log, and halves of characters
    (surrogates), which no file of text can hold.

    Args:
        text: text for people.
        allowed: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in allowed else repr(character)[1:-1]
        for character in text
    )


def enumerated(names: Iterable[object], most: int = NAMED) -> str:
    """Names one after the other, of which only the first are written if there are many."""
    every = [printable(str(name)) for name in names]
    text = ", ".join(name if len(name) <= SHOWN else f"{name[:SHOWN]}..." for name in every[:most])
    return text if len(every) <= most else f"{text}, ... ({len(every) - most} more)"


def cut(text: str, most: int) -> str:
    """`text`, of which a long one is cut in its middle: reasons stand at either end."""
    if len(text) <= most:
        return text
    front = most * 2 // 3
    return f"{text[:front]} ... ({len(text)} characters) ... {text[front - most :]}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = SHOWN
