"""All panels, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

from mllm_jax.pages.panel import Panel
from mllm_jax.report.files import RunFiles
from mllm_jax.report.panels import attempts, figures, ranks, samples, schedule, settings

#: Makes a panel of a run; one small function for each panel.
MakePanel = Callable[[RunFiles], Panel]

PANELS: tuple[MakePanel, ...] = (
    figures.loss,
    figures.evaluations,
    figures.throughput,
    figures.mfu,
    figures.pace,
    figures.waits,
    figures.padding,
    figures.imbalance,
    attempts.goodput,
    ranks.ranks,
    schedule.schedule,
    settings.plan,
    samples.skipped,
    settings.configuration,
)
