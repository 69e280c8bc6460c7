"""All panels, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

from mllm_jax.pages.html.panel import PagePanel
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
MakePanel = Callable[[RunFiles], PagePanel | None]

PANELS: tuple[MakePanel, ...] = (
    damage.damage_panel,
    figures.loss_panel,
    figures.evaluations_panel,
    figures.gradient_panel,
    figures.learning_rate_panel,
    figures.throughput_panel,
    figures.mfu_panel,
    figures.pace_panel,
    figures.waits_panel,
    figures.padding_panel,
    figures.imbalance_panel,
    experts.experts_panel,
    attempts.goodput_panel,
    ranks.ranks_panel,
    schedule.schedule_panel,
    settings.plan_panel,
    samples.skipped_panel,
    settings.configuration_panel,
)


def make_panels(run: RunFiles) -> list[PagePanel]:
    """The panels that concern a run."""
    candidates = (make(run) for make in PANELS)
    return [panel for panel in candidates if panel is not None]
