"""Elements of HTML and SVG as text; all text of a run is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

#: Elements that have no content, and no end.
VOID = ("img", "meta")


class Markup(str):
    """Text that is markup already, and is not escaped once more."""

    __slots__ = ()


def make_tag(name: str, /, *content: str, **attributes: str | float) -> Markup:
    """An element; in names of attributes `_` stands for `-`, and `class_` for `class`.

    >>> make_tag("text", "a < b", x=1, class_="tick", text_anchor="end")
    '<text x="1" class="tick" text-anchor="end">a &lt; b</text>'
    """
    words = [name]
    for key, value in attributes.items():
        if key == "class_" and not value:
            continue
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    end = "" if name in VOID else f"{join_markup(content)}</{name}>"
    return Markup(f"<{' '.join(words)}>{end}")


def join_markup(parts: Iterable[str]) -> Markup:
    """Parts one after the other; those that are no markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def script_data(value: Any, name: str) -> Markup:
    """A value for the script of the page, in an element of the class `name`."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" class="{escape(name)}">{text}</script>')


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table; numbers are aligned to the right."""
    head = make_tag("tr", *(make_tag("th", column) for column in columns))
    body = [make_tag("tr", *map(_make_cell, row)) for row in rows]
    element = make_tag("table", make_tag("thead", head), make_tag("tbody", *body))
    return make_tag("div", element, class_="scroll")


def _make_cell(value: object) -> Markup:
    if isinstance(value, int | float):
        return make_tag(
            "td", f"{value:.4g}" if isinstance(value, float) else f"{value}", class_="right"
        )
    return make_tag("td", value if isinstance(value, str) else str(value))


def make_facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names with their values."""
    rows = [make_tag("div", make_tag("dt", name), make_tag("dd", value)) for name, value in pairs]
    return make_tag("dl", *rows, class_="facts")


def make_note(*text: str) -> Markup:
    """A sentence in small letters."""
    return make_tag("p", *text, class_="note")
