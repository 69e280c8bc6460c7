"""The panel of samples that could not be used."""

from __future__ import annotations

from mllm_jax.pages.html import skips
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.run.files import RunFiles


def skipped_panel(run: RunFiles) -> PagePanel:
    """Samples that were skipped, by reason, and the first of them by name."""
    every = [
        skips.SkippedEntry(
            line["step"], str(line["sample"]), str(line["reason"]), str(line["text"])
        )
        for line in run.skipped
    ]
    return skips.make_skipped_panel(every, "step", "the run's skipped.jsonl")
