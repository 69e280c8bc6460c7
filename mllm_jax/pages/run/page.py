"""The page of the report: the head with the run's main figures, and the panels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from mllm_jax.pages.html.document import document, write
from mllm_jax.pages.html.words import known, number, percent, seconds
from mllm_jax.pages.run.files import RunFiles, read_run
from mllm_jax.pages.run.panels.order import panels
from mllm_jax.runtime.folder import METRICS

#: Name of the page in the folder of a run.
PAGE = "report.html"


def report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of a run, which may still go on; returns its file.

    Args:
        output: the file; None: `report.html` in the folder of the run.

    Raises:
        RunError: `folder` is none of a run, or the file cannot be written.
    """
    return write(page(read_run(folder)), output or folder / PAGE, "--output")


def page(run: RunFiles) -> str:
    """The whole page."""
    return document(run.name, _standing(run), _main(run), panels(run))


def _standing(run: RunFiles) -> str:
    """How far the run is, and when it was last heard of."""
    heard = time.gmtime((run.folder / METRICS).stat().st_mtime)
    when = time.strftime("%Y-%m-%d %H:%M UTC", heard)
    steps = run.reports[-1]["steps"] if run.reports else None
    if run.summary and run.step == steps:
        return f"All {steps} steps are done. Last written {when}."
    if steps is None:
        return f"No step has been reported yet. Last written {when}."
    return f"Step {run.step} of {steps}. Last written {when}."


def _main(run: RunFiles) -> Sequence[tuple[str, str]]:
    last = run.reports[-1] if run.reports else {}
    summary = run.summary or {}
    steps = f"{run.step} / {last['steps']}" if last else known(None, number)
    share = run.goodput["share"] if run.goodput else None
    spent = sum(run.goodput["seconds"].values()) if run.goodput else None
    rate = summary.get("tokens_per_second", last.get("tokens_per_second"))
    return (
        ("steps", steps),
        ("training loss", known(last.get("loss"), number)),
        ("tokens per second", known(rate, number)),
        ("MFU", known(summary.get("mfu", last.get("mfu")), percent)),
        ("goodput", known(share, percent)),
        ("time", known(spent, seconds)),
        ("skipped samples", str(len(run.skipped))),
    )
