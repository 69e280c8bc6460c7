"""The documentation site has all pages of docs/, and what these link to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.configs import ROOT

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
#: Pages that the site's hook makes.
MADE = {"index.md", "api.md"}


def pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for own in entry.values():
            yield from pages(own) if isinstance(own, list) else [own]


def test_the_site_has_every_page_once() -> None:
    config = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text())
    named = list(pages(config["nav"]))
    assert sorted(named) == sorted({*PAGES, *MADE})


@pytest.mark.parametrize("name", PAGES)
def test_pictures_and_pages_that_are_linked_are_there(name: str) -> None:
    """Other links of the site are checked by `make docs`."""
    text = (ROOT / "docs" / name).read_text()
    for place in re.findall(r"\]\(([\w./-]+\.(?:md|png))", text):
        assert (ROOT / "docs" / place).exists(), place
