"""The page of the preview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.quotes import enumerated
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.pages.html.document import document, write
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import number, percent
from mllm_jax.pages.samples.panels import figures, rows, samples
from mllm_jax.pages.samples.seen import Preview, RefusedSample, see

#: Name of the page in the folder of a run.
PAGE = "preview.html"
#: All panels, in the order of the page.
PANELS: tuple[Callable[[Preview], Panel], ...] = (
    rows.rows,
    figures.sources,
    figures.padding,
    figures.lengths,
    figures.skipped,
    samples.samples,
    figures.configuration,
)
#: Those of a source none of whose samples can be used.
WITHOUT_SAMPLES = (figures.skipped, figures.configuration)
#: Columns of the table of sources.
COLUMNS = ("source", "samples", "tokens", "learnt", "samples in all")


@dataclass(frozen=True)
class Previewed:
    """A preview, and the file of its page."""

    preview: Preview
    file: Path

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """A row of `COLUMNS` for every source."""
        return [
            (
                name,
                len(own),
                sum(sample.tokens for sample in own),
                sum(sample.learnt for sample in own),
                self.preview.sizes[name],
            )
            for name, own in self.preview.by_source.items()
        ]

    @property
    def lines(self) -> list[str]:
        """Skipped samples by reason, padding, the file, and what is not as in the run."""
        shares = ", ".join(f"{name} {percent(own)}" for name, own in self.preview.padding.items())
        padding = [f"padding: {shares}"] * bool(shares)
        written = f"written: {self.file}"
        return [*self._skipped(), *padding, *notes(self.preview), written]

    def _skipped(self) -> list[str]:
        """A line for each reason, with the first sample."""
        kinds: dict[str, list[RefusedSample]] = {}
        for own in self.preview.skipped:
            kinds.setdefault(own.fault.kind.value, []).append(own)
        return [
            f"skipped: {kind}, {len(every)}; the first, {every[0].name}: {every[0].fault}"
            for kind, every in kinds.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {**self.preview.to_json(), "notes": notes(self.preview), "file": str(self.file)}


def preview(config: ExperimentConfig, count: int, output: Path | None = None) -> Previewed:
    """Write a page of the first `count` samples of a run.

    Args:
        output: the file; None: `preview.html` in the folder of the run.

    Raises:
        DataError: the data cannot be used; but a source none of whose samples can be used has a
            page of the reasons.
        SampleError: a sample cannot be used, with `data.on_error: raise`.
        RunError: the file cannot be written.
    """
    seen = see(config, count)
    return Previewed(seen, write(page(seen), output or config.run.path / PAGE, "--out"))


def page(seen: Preview) -> str:
    """The whole page."""
    told = " ".join((_standing(seen), *notes(seen)))
    panels = WITHOUT_SAMPLES if seen.refused else PANELS
    return document(seen.config.run.name, told, _main(seen), [make(seen) for make in panels])


def notes(seen: Preview) -> list[str]:
    """What is not as in the run, and what was read of records."""
    if seen.refused:
        total = sum(seen.sizes.values())
        return [f"None of {total} samples can be used: train refuses these data."]
    group, found = seen.config.data.balance_group, []
    if group is not None:
        found.append(f"All hosts are taken for one group, though data.balance_group is {group}.")
    if seen.read:
        found.append(f"Keys of records that are read: {enumerated(seen.read)}.")
    if seen.passed:
        found.append(f"Keys that decide nothing, and are not read: {enumerated(seen.passed)}.")
    return found


def _standing(seen: Preview) -> str:
    """What the page shows."""
    if seen.refused:
        return "What the model would see: nothing."
    count = len(seen.microbatches)
    which = "microbatch" if count == 1 else f"{count} microbatches"
    return f"What the model sees: the first {which} of a run with seed {seen.config.train.seed}."


def _main(seen: Preview) -> Sequence[tuple[str, str]]:
    tokens = sum(own.tokens for own in seen.used)
    learnt = sum(own.learnt for own in seen.used)
    return (
        ("samples", str(len(seen.used))),
        ("tokens", number(tokens)),
        ("learnt", percent(learnt / tokens if tokens else 0.0)),
        *((f"padding, {name}", percent(own)) for name, own in seen.padding.items()),
        ("skipped samples", str(len(seen.skipped))),
    )
