"""All panels, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.pages.run.panels import (
    attempts,
    damage,
    experts,
    figures,
    ranks,
    samples,
    schedule,
    settings,
)

#: Makes a panel of a run, or None if it does not concern the run; a small function for each panel.
MakePanel = Callable[[RunFiles], Panel | None]

PANELS: tuple[MakePanel, ...] = (
    damage.damage,
    figures.loss,
    figures.evaluations,
    figures.gradient,
    figures.learning_rate,
    figures.throughput,
    figures.mfu,
    figures.pace,
    figures.waits,
    figures.padding,
    figures.imbalance,
    experts.experts,
    attempts.goodput,
    ranks.ranks,
    schedule.schedule,
    settings.plan,
    samples.skipped,
    settings.configuration,
)


def panels(run: RunFiles) -> list[Panel]:
    """The panels that concern a run."""
    made = (make(run) for make in PANELS)
    return [panel for panel in made if panel is not None]
