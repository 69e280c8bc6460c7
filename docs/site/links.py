"""Hooks of the documentation site: pages outside docs/, and links to files that the site lacks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: A link to a file of the repository outside docs/, from a page so many folders below docs/: its
#: text and its place.
_OUTSIDE = r"\[([^\]]+)\]\((?:\.\./){%d}([^)#\s]+)(#[^)\s]*)?\)"
_API = """# Python API

What `import mllm_jax` gives, from its docstrings.

::: mllm_jax.api
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, and the page of the API."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    own = re.sub(r"\]\((?!docs/|https?:|#)([^)]+)\)", r"](../\1)", readme)
    pages = {"index.md": own.replace("](docs/", "]("), "reference/api.md": _API}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Name files outside docs/ instead of linking to them."""
    depth = len(Path(page.file.src_uri).parts)
    return re.sub(_OUTSIDE % depth, _named, markdown)


def _named(link: re.Match[str]) -> str:
    text, place = link[1], link[2]
    return f"`{place}`" if text.strip("`").endswith(Path(place).name) else f"{text} (`{place}`)"
