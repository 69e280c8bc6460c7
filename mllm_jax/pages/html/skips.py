"""The panel of samples that could not be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mllm_jax.pages.html.markup import Markup, join_markup, make_note, make_table
from mllm_jax.pages.html.panel import PagePanel

#: Samples that are listed.
LISTED = 50


@dataclass(frozen=True)
class SkippedEntry:
    """A sample that was skipped.

    Attributes:
        place: where in the training, e.g. a step's number.
        sample: name of the sample.
        reason: kind of fault, by which samples are counted.
        text: what is wrong.
    """

    place: object
    sample: str
    reason: str
    text: str


def make_skipped_panel(every: Sequence[SkippedEntry], place: str, remaining_in: str) -> PagePanel:
    """Samples that were skipped, by reason, and the first of them by name.

    Args:
        place: what `Skipped.place` is.
        remaining_in: where those are that are not listed.
    """
    content = Markup()
    if every:
        reasons = Counter(entry.reason for entry in every)
        listed = [(entry.place, entry.sample, entry.text) for entry in every[:LISTED]]
        parts = [
            make_table(("reason", "samples"), reasons.most_common()),
            make_table((place, "sample", "what is wrong"), listed),
        ]
        if len(every) > LISTED:
            parts.append(make_note(f"{len(every) - LISTED} more are in {remaining_in}."))
        content = join_markup(parts)
    return PagePanel("skipped", "Skipped samples", content, "No sample was skipped.")
