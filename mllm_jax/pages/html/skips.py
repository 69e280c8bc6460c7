"""The panel of samples that could not be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mllm_jax.pages.html.markup import Markup, joined, note, table
from mllm_jax.pages.html.panel import Panel

#: Samples that are listed.
LISTED = 50


@dataclass(frozen=True)
class Skipped:
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


def skipped(every: Sequence[Skipped], place: str, rest: str) -> Panel:
    """Samples that were skipped, by reason, and the first of them by name.

    Args:
        place: what `Skipped.place` is.
        rest: where those are that are not listed.
    """
    content = Markup()
    if every:
        reasons = Counter(own.reason for own in every)
        listed = [(own.place, own.sample, own.text) for own in every[:LISTED]]
        parts = [
            table(("reason", "samples"), reasons.most_common()),
            table((place, "sample", "what is wrong"), listed),
        ]
        if len(every) > LISTED:
            parts.append(note(f"{len(every) - LISTED} more are in {rest}."))
        content = joined(parts)
    return Panel("skipped", "Skipped samples", content, "No sample was skipped.")
