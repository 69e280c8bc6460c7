"""The documentation site has all pages of docs/, and what these link to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs.site.drawings import DRAWINGS
from mllm_jax.runtime.exits import MEANINGS
from tests.configs import PAGES, ROOT

DOCS = ROOT / "docs"
#: Words of the longest page.
LONG = 2500
#: Pages that the site's hook makes.
MADE = {"index.md", "reference/api.md"}


def pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for own in entry.values():
            yield from pages(own) if isinstance(own, list) else [own]


def test_the_site_has_every_page_once() -> None:
    config = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text())
    there = {path.relative_to(DOCS).as_posix() for path in PAGES[1:]}
    assert sorted(pages(config["nav"])) == sorted({*there, *MADE})


def test_no_page_is_long() -> None:
    """As `wc -w` counts: text, tables and code."""
    words = {path.relative_to(ROOT).as_posix(): len(path.read_text().split()) for path in PAGES}
    assert {name: count for name, count in words.items() if count > LONG} == {}


def test_exit_codes_are_those_of_the_code() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text()
    rows = re.findall(r"(?m)^\| (\d+) \| (.*) \|$", page)
    assert rows == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def test_every_picture_is_on_a_page_and_has_a_command() -> None:
    text = "".join(path.read_text() for path in PAGES)
    there = {path.name for path in (DOCS / "pictures").iterdir()}
    assert set(re.findall(r"pictures/([\w.-]+)\)", text)) == there
    page = (DOCS / "extending" / "documentation.md").read_text()
    assert set(re.findall(r"(?m)^\| `([\w.-]+)` \|", page)) == there


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_those_of_the_code(name: str) -> None:
    stale = "refresh: python -m docs.site.drawings"
    assert (DOCS / "pictures" / name).read_text() == DRAWINGS[name](), stale
