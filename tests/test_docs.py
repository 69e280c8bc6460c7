"""The documentation site has all pages of docs/, and what these link to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site.drawings import DRAWINGS
from tests.configs import LOG, PAGES, ROOT

DOCS = ROOT / "docs"
#: Words of the longest page.
LONG = 2500
#: Pages that the site's hook makes.
MADE = {"index.md", "reference/api.md"}


def pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for own in [entry] if isinstance(entry, str) else entry.values():
            yield from pages(own) if isinstance(own, list) else [own]


def test_the_site_has_every_page_once() -> None:
    config = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text())
    there = {path.relative_to(DOCS).as_posix() for path in [*PAGES[1:], *LOG]}
    assert sorted(pages(config["nav"])) == sorted({*there, *MADE})


def test_no_page_is_long() -> None:
    """As `wc -w` counts: text, tables and code."""
    words = {path.relative_to(ROOT).as_posix(): len(path.read_text().split()) for path in PAGES}
    assert {name: count for name, count in words.items() if count > LONG} == {}


def figures() -> list[tuple[str, list[str]]]:
    """The rows of the tables of figures, without their heads: page and cells."""
    found = []
    for path in sorted((DOCS / "measurements").glob("*.md")):
        for table in re.findall(
            r"(?m)^\| figure \| asked .*\n\|[-|]+\n((?:\|.*\n)+)", path.read_text()
        ):
            found += [(path.name, line.strip("| ").split(" | ")) for line in table.splitlines()]
    return found


def test_every_figure_names_its_command_and_its_entry_in_the_log() -> None:
    log = {
        (path.name, slug(line))
        for path in LOG
        for line in path.read_text().splitlines()
        if line[:3] == "## "
    }
    assert len(figures()) > 50
    for page, cells in figures():
        anchors = re.findall(r"log/([\d-]+\.md)#([\w-]+)\)", cells[-1])
        assert cells[-1].startswith("the same") or anchors, (page, cells)
        assert log.issuperset(anchors), (page, cells)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *LOG], ids=[path.name for path in [*PAGES, *LOG]])
def test_anchors_lead_to_headings(page: Path) -> None:
    """Of links between pages, and to the log."""
    for place, anchor in re.findall(r"\]\(([^)#\s]*\.md)?#([^)\s]+)\)", page.read_text()):
        text = (page.parent / place).read_text() if place else page.read_text()
        assert anchor in {slug(line) for line in text.splitlines() if line.startswith("#")}, anchor


@pytest.mark.parametrize("page", PAGES[1:], ids=[path.name for path in PAGES[1:]])
def test_a_page_begins_with_the_question_that_it_answers(page: Path) -> None:
    title, first, *_ = page.read_text().split("\n\n")
    assert title.startswith("# ")
    assert "?" in first


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
