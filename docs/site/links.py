"""Hooks of the documentation site: pages outside docs/, and links to files that the site lacks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: Files of the repository that are pages of the site, and the places of these.
PAGES = {"README.md": "index.md"}
#: A link to a place of the repository: its text, the place, and an anchor.
_LINK = re.compile(r"\[([^\]]+)\]\(([^):#\s]+)(#[^)\s]*)?\)")
_API = """# Python API

What does `import mllm_jax` give? These functions, described by their docstrings.

::: mllm_jax.api
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's own folder, and the page of the API."""
    for name, place in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=_LINK.sub(_moved(name, place), text)))
    files.append(File.generated(config, "reference/api.md", content=_API))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Name files that are no pages instead of linking to them; give tables of keys more room."""
    own = page.file.src_uri
    if own.startswith("reference/keys/"):
        page.meta["hide"] = ["toc"]
    return markdown if own in PAGES.values() else _LINK.sub(_moved(f"docs/{own}", own), markdown)


def _moved(source: str, place: str) -> Any:
    """What a link of the file `source` is on the page at `place`."""

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        name = os.path.normpath(Path(source).parent / target)
        to = PAGES.get(name, name.removeprefix("docs/"))
        if name in PAGES or (name.startswith("docs/") and not name.startswith("docs/site/")):
            return f"[{text}]({os.path.relpath(to, Path(place).parent)}{anchor})"
        return f"`{name}`" if text.strip("`").endswith(Path(name).name) else f"{text} (`{name}`)"

    return link
