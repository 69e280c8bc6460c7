"""The page of the report: the head with the run's main figures, and the panels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from mllm_jax.pages.html.document import render_document, write_page
from mllm_jax.pages.html.words import format_known, format_number, format_percent, format_seconds
from mllm_jax.pages.run.files import RunFiles, read_run
from mllm_jax.pages.run.panels.order import make_panels
from mllm_jax.runtime.folder import METRICS

#: Name of the page in the folder of a run.
PAGE = "report.html"


def write_report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of a run, which may still go on; returns its file.

    Args:
        output: the file; None: `report.html` in the folder of the run.

    Raises:
        RunError: `folder` is none of a run, or the file cannot be written.
    """
    return write_page(render_page(read_run(folder)), output or folder / PAGE, "--output")


def render_page(run: RunFiles) -> str:
    """The whole page."""
    return render_document(run.name, _describe_progress(run), _main_figures(run), make_panels(run))


def _describe_progress(run: RunFiles) -> str:
    """The progress of the run, and the time of its last record."""
    heard = time.gmtime((run.folder / METRICS).stat().st_mtime)
    when = time.strftime("%Y-%m-%d %H:%M UTC", heard)
    steps = run.reports[-1]["steps"] if run.reports else None
    if run.summary and run.step == steps:
        return f"All {steps} steps are done. Last written {when}."
    if steps is None:
        return f"No step has been reported yet. Last written {when}."
    return f"Step {run.step} of {steps}. Last written {when}."


def _main_figures(run: RunFiles) -> Sequence[tuple[str, str]]:
    last = run.reports[-1] if run.reports else {}
    summary = run.summary or {}
    steps = f"{run.step} / {last['steps']}" if last else format_known(None, format_number)
    share = run.goodput["share"] if run.goodput else None
    total_seconds = sum(run.goodput["seconds"].values()) if run.goodput else None
    rate = summary.get("tokens_per_second", last.get("tokens_per_second"))
    return (
        ("steps", steps),
        ("training loss", format_known(last.get("loss"), format_number)),
        ("tokens per second", format_known(rate, format_number)),
        ("MFU", format_known(summary.get("mfu", last.get("mfu")), format_percent)),
        ("goodput", format_known(share, format_percent)),
        ("time", format_known(total_seconds, format_seconds)),
        ("skipped samples", str(len(run.skipped))),
    )
