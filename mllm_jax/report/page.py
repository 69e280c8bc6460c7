"""The page of the report: the head with the run's main figures, and the panels."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from mllm_jax.report.files import METRICS, RunFiles, read_run
from mllm_jax.report.markup import Markup, joined, tag
from mllm_jax.report.panels.order import PANELS
from mllm_jax.report.panels.panel import Panel
from mllm_jax.report.words import known, number, percent, seconds
from mllm_jax.runtime.folder import RunError

#: Name of the page in the folder of a run.
PAGE = "report.html"


def report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of a run, which may still go on; returns its file.

    Args:
        output: the file; None: `report.html` in the folder of the run.

    Raises:
        RunError: `folder` is none of a run, or the file cannot be written.
    """
    run, path = read_run(folder), output or folder / PAGE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(run), encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}; choose --output") from error
    return path


def page(run: RunFiles) -> str:
    """The whole page; it names no other file, and asks no network for anything."""
    panels = [make(run) for make in PANELS]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{run.name} \N{MIDDLE DOT} mllm_jax"),
        tag("style", Markup(_own("page.css"))),
    )
    body = tag(
        "body",
        tag("header", tag("h1", run.name), tag("p", _standing(run)), _links(panels)),
        tag("main", _tiles(run), *(_section(panel) for panel in panels)),
        tag("script", Markup(_own("page.js"))),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _own(name: str) -> str:
    """Text of a file beside this module."""
    return files("mllm_jax.report").joinpath(name).read_text(encoding="utf-8")


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


def _links(panels: Iterable[Panel]) -> Markup:
    """Links to the panels; those without data are pale."""
    links = [
        tag("a", panel.title, href=f"#{panel.key}", class_="" if panel.content else "pale")
        for panel in panels
    ]
    return tag("nav", *links)


def _tiles(run: RunFiles) -> Markup:
    """The main figures, in large letters."""
    tiles = [
        tag("div", tag("span", name), tag("b", value), class_="tile") for name, value in _main(run)
    ]
    return tag("div", *tiles, class_="tiles")


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


def _section(panel: Panel) -> Markup:
    heading = tag("h2", panel.title)
    shape = " ".join(["panel", *["wide"] * panel.wide, *["empty"] * (not panel.content)])
    return tag("section", joined((heading, panel.body)), id=panel.key, class_=shape)
