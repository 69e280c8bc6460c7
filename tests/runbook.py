"""The runbook: which of its messages the program says."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.configs import ROOT

#: Words that a quotation within a sentence has at least, if it is a message.
WORDS = 5
#: What others than this program say, or are told.
OTHERS = ("dmesg ", "launch.py ", "resource_tracker: ")


def messages(page: str) -> list[str]:
    """Messages of a page, in its headings and within its sentences."""
    text = (ROOT / "docs" / "how-to" / page).read_text()
    headings = re.findall(r"^### `(.*)`$", text, flags=re.MULTILINE)
    assert len(headings) == text.count("\n### "), "each section is about one message"
    rest = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    quoted = [" ".join(own.split()) for own in re.findall(r"`([^`]+)`", rest)]
    return headings + [
        own for own in quoted if len(own.split()) >= WORDS and not own.startswith(OTHERS)
    ]


def unsaid(page: str, said: Iterable[str | None]) -> list[str]:
    """Messages of a page that are in nothing of what was said; `...` stands for anything."""
    told = [" ".join(own.split()) for own in said if own]
    return [own for own in messages(page) if not any(_pattern(own).search(text) for text in told)]


def _pattern(message: str) -> re.Pattern[str]:
    parts = message.replace("(...)", "...").split("...")
    return re.compile(".*".join(re.escape(part.strip()) for part in parts), flags=re.DOTALL)
