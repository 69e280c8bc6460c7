"""The page of the preview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.quotes import enumerated
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.pages.html.document import render_document, write_page
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_number, format_percent
from mllm_jax.pages.samples.panels import figures, rows, samples
from mllm_jax.pages.samples.preview import DataPreview, RefusedSample, build_preview

#: Name of the page in the folder of a run.
PAGE = "preview.html"
#: All panels, in the order of the page.
PANELS: tuple[Callable[[DataPreview], PagePanel], ...] = (
    rows.rows_panel,
    figures.sources_panel,
    figures.padding_panel,
    figures.lengths_panel,
    figures.skipped_panel,
    samples.samples_panel,
    figures.configuration_panel,
)
#: Those of a source none of whose samples can be used.
WITHOUT_SAMPLES = (figures.skipped_panel, figures.configuration_panel)
#: Columns of the table of sources.
COLUMNS = ("source", "samples", "tokens", "learnt", "samples in all")


@dataclass(frozen=True)
class PreviewPage:
    """A preview, and the file of its page."""

    preview: DataPreview
    file: Path

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """A row of `COLUMNS` for every source."""
        return [
            (
                name,
                len(source_samples),
                sum(sample.tokens for sample in source_samples),
                sum(sample.learnt for sample in source_samples),
                self.preview.sizes[name],
            )
            for name, source_samples in self.preview.by_source.items()
        ]

    @property
    def lines(self) -> list[str]:
        """Skipped samples by reason, padding, the file, and differences from the run."""
        shares = ", ".join(
            f"{name} {format_percent(share)}" for name, share in self.preview.padding.items()
        )
        padding = [f"padding: {shares}"] * bool(shares)
        written = f"written: {self.file}"
        return [*self._skipped_lines(), *padding, *preview_notes(self.preview), written]

    def _skipped_lines(self) -> list[str]:
        """A line for each reason, with the first sample."""
        kinds: dict[str, list[RefusedSample]] = {}
        for sample in self.preview.skipped:
            kinds.setdefault(sample.fault.kind.value, []).append(sample)
        return [
            f"skipped: {kind}, {len(every)}; the first, {every[0].name}: {every[0].fault}"
            for kind, every in kinds.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {
            **self.preview.to_json(),
            "notes": preview_notes(self.preview),
            "file": str(self.file),
        }


def write_preview(config: ExperimentConfig, count: int, output: Path | None = None) -> PreviewPage:
    """Write a page of the first `count` samples of a run.

    Args:
        output: the file; None: `preview.html` in the folder of the run.

    Raises:
        DataError: the data cannot be used; but a source none of whose samples can be used has a
            page of the reasons.
        SampleError: a sample cannot be used, with `data.on_error: raise`.
        RunError: the file cannot be written.
    """
    preview = build_preview(config, count)
    return PreviewPage(
        preview, write_page(render_page(preview), output or config.run.path / PAGE, "--out")
    )


def render_page(preview: DataPreview) -> str:
    """The whole page."""
    subtitle = " ".join((_describe_progress(preview), *preview_notes(preview)))
    panels = WITHOUT_SAMPLES if preview.refused else PANELS
    return render_document(
        preview.config.run.name,
        subtitle,
        _main_figures(preview),
        [make(preview) for make in panels],
    )


def preview_notes(preview: DataPreview) -> list[str]:
    """What is not as in the run, and what was read of records."""
    if preview.refused:
        total = sum(preview.sizes.values())
        return [f"None of {total} samples can be used: train refuses these data."]
    group, lines = preview.config.data.balance_group, []
    if group is not None:
        lines.append(f"All hosts are taken for one group, though data.balance_group is {group}.")
    if preview.read:
        lines.append(f"Keys of records that are read: {enumerated(preview.read)}.")
    if preview.passed:
        lines.append(f"Keys that decide nothing, and are not read: {enumerated(preview.passed)}.")
    return lines


def _describe_progress(preview: DataPreview) -> str:
    """What the page shows."""
    if preview.refused:
        return "What the model would see: nothing."
    count = len(preview.microbatches)
    which = "microbatch" if count == 1 else f"{count} microbatches"
    return f"What the model sees: the first {which} of a run with seed {preview.config.train.seed}."


def _main_figures(preview: DataPreview) -> Sequence[tuple[str, str]]:
    tokens = sum(sample.tokens for sample in preview.used)
    learnt = sum(sample.learnt for sample in preview.used)
    return (
        ("samples", str(len(preview.used))),
        ("tokens", format_number(tokens)),
        ("learnt", format_percent(learnt / tokens if tokens else 0.0)),
        *((f"padding, {name}", format_percent(share)) for name, share in preview.padding.items()),
        ("skipped samples", str(len(preview.skipped))),
    )
