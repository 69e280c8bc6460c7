"""The panel of records that are damaged, or have no checksums."""

from __future__ import annotations

from mllm_jax.pages.html.markup import join_markup, make_note
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.run.files import RunFiles, describe_unchecked


def damage_panel(run: RunFiles) -> PagePanel | None:
    """Damaged records of the run, which the page leaves out; None without any."""
    sentences = [f"{sentence}." for sentence in run.damage]
    sentences += [f"{sentence}." for sentence in describe_unchecked(run.unchecked)]
    if not sentences:
        return None
    explanation = (
        "Records have checksums; what does not match its checksum is in no figure of this page."
    )
    content = join_markup(make_note(sentence) for sentence in sentences)
    return PagePanel("records", "Records of the run", content, "", explanation, wide=True)
