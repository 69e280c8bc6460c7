"""The panel of samples that could not be used."""

from __future__ import annotations

from collections import Counter

from mllm_jax.report.files import RunFiles
from mllm_jax.report.markup import Markup, joined, note, table
from mllm_jax.report.panels.panel import Panel

#: Samples that are listed.
LISTED = 50


def skipped(run: RunFiles) -> Panel:
    """Samples that were skipped, by reason, and the first of them by name."""
    content = Markup()
    if run.skipped:
        reasons = Counter(str(line["reason"]) for line in run.skipped)
        every = [(line["step"], line["sample"], line["text"]) for line in run.skipped[:LISTED]]
        parts = [
            table(("reason", "samples"), reasons.most_common()),
            table(("step", "sample", "what is wrong"), every),
        ]
        if len(run.skipped) > LISTED:
            parts.append(note(f"{len(run.skipped) - LISTED} more are in the run's skipped.jsonl."))
        content = joined(parts)
    return Panel("skipped", "Skipped samples", content, "No sample was skipped.")
