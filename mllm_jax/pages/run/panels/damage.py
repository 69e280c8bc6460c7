"""The panel of records that are damaged, or have no checksums."""

from __future__ import annotations

from mllm_jax.pages.html.markup import joined, note
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.run.files import RunFiles, told_unchecked


def damage(run: RunFiles) -> Panel | None:
    """What is damaged in the records of the run, and left out of the page; None if nothing is."""
    sentences = [f"{sentence}." for sentence in run.damage]
    sentences += [f"{sentence}." for sentence in told_unchecked(run.unchecked)]
    if not sentences:
        return None
    told = "Records have checksums; what does not match its checksum is in no figure of this page."
    content = joined(note(sentence) for sentence in sentences)
    return Panel("records", "Records of the run", content, "", told, wide=True)
