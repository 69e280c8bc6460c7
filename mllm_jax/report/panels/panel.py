"""A panel of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mllm_jax.report.files import RunFiles
from mllm_jax.report.markup import Markup, note


@dataclass(frozen=True)
class Panel:
    """A panel with its heading.

    Attributes:
        key: name of its place in the page, for links.
        title: heading.
        content: drawings, tables and words; empty without data.
        empty: why there is nothing to show, if there is not.
        told: a sentence that says how to read the content.
        wide: whether it takes the whole width of the page.
    """

    key: str
    title: str
    content: Markup
    empty: str
    told: str = ""
    wide: bool = False

    @property
    def body(self) -> Markup:
        """What stands below the heading."""
        if not self.content:
            return note(self.empty)
        return Markup((note(self.told) if self.told else Markup()) + self.content)


#: Makes a panel of a run; one small function for each panel.
MakePanel = Callable[[RunFiles], Panel]
