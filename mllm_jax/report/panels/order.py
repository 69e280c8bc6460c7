"""All panels, in the order of the page."""

from __future__ import annotations

from mllm_jax.report.panels import attempts, figures, ranks, samples, schedule, settings
from mllm_jax.report.panels.panel import MakePanel

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
