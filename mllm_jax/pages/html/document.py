"""A whole page: its head, its main figures in large letters, and its panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from mllm_jax.pages.html.markup import Markup, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.runtime.folder import RunError

#: Names and words of the main figures.
Figures = Iterable[tuple[str, str]]


def render_document(
    title: str, subtitle: str, figures: Figures, panels: Sequence[PagePanel]
) -> str:
    """The text of a page; it names no other file, and asks no network for anything.

    Args:
        title: heading.
        subtitle: a sentence below it.
    """
    head = make_tag(
        "head",
        make_tag("meta", charset="utf-8"),
        make_tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        make_tag("meta", name="color-scheme", content="light dark"),
        make_tag("title", f"{title} \N{MIDDLE DOT} mllm_jax"),
        make_tag("style", Markup(_read_asset("page.css"))),
    )
    links = make_tag("nav", *(panel.link for panel in panels))
    body = make_tag(
        "body",
        make_tag("header", make_tag("h1", title), make_tag("p", subtitle), links),
        make_tag("main", _make_tiles(figures), *(panel.section for panel in panels)),
        make_tag("script", Markup(_read_asset("page.js"))),
    )
    return f"<!doctype html>\n{make_tag('html', head, body, lang='en')}\n"


def write_page(text: str, path: Path, option: str) -> Path:
    """Write a page; returns its file.

    Args:
        option: the option that names another file.

    Raises:
        RunError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}; choose {option}") from error
    return path


def _read_asset(name: str) -> str:
    """Text of a file next to this module."""
    return files("mllm_jax.pages.html").joinpath(name).read_text(encoding="utf-8")


def _make_tiles(figures: Figures) -> Markup:
    """The main figures."""
    tiles = [
        make_tag("div", make_tag("span", name), make_tag("b", value), class_="tile")
        for name, value in figures
    ]
    return make_tag("div", *tiles, class_="tiles")
