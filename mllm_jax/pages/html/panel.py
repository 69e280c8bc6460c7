"""A panel of a page."""

from __future__ import annotations

from dataclasses import dataclass

from mllm_jax.pages.html.markup import Markup, join_markup, make_note, make_tag


@dataclass(frozen=True)
class PagePanel:
    """A panel with its heading.

    Attributes:
        key: name of its place in the page, for links.
        title: heading.
        content: drawings, tables and words; empty without data.
        empty: why there is nothing to show, if there is not.
        note: a sentence that says how to read the content.
        wide: whether it takes the whole width of the page.
    """

    key: str
    title: str
    content: Markup
    empty: str
    note: str = ""
    wide: bool = False

    @property
    def body(self) -> Markup:
        """What is below the heading."""
        if not self.content:
            return make_note(self.empty)
        return Markup((make_note(self.note) if self.note else Markup()) + self.content)

    @property
    def section(self) -> Markup:
        """The panel in the page."""
        heading = make_tag("h2", self.title)
        shape = " ".join(["panel", *["wide"] * self.wide, *["empty"] * (not self.content)])
        return make_tag("section", join_markup((heading, self.body)), id=self.key, class_=shape)

    @property
    def link(self) -> Markup:
        """A link to the panel, pale without data."""
        return make_tag("a", self.title, href=f"#{self.key}", class_="" if self.content else "pale")
