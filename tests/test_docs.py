"""The documentation site has all pages of docs/, and what these link to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.configs import PAGES, ROOT

DOCS = ROOT / "docs"
#: Pages that the site's hook makes.
MADE = {"index.md", "api.md"}


def pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for own in entry.values():
            yield from pages(own) if isinstance(own, list) else [own]


def test_the_site_has_every_page_once() -> None:
    config = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text())
    there = {path.relative_to(DOCS).as_posix() for path in PAGES[1:]}
    assert sorted(pages(config["nav"])) == sorted({*there, *MADE})


def test_every_picture_is_on_a_page() -> None:
    text = "".join(path.read_text() for path in PAGES)
    shown = set(re.findall(r"pictures/([\w.-]+)\)", text))
    assert shown == {path.name for path in (DOCS / "pictures").iterdir()}
