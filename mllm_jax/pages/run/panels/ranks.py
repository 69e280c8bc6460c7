"""The panel of slow processes and devices: heat maps over the steps, and names of slow ones."""

from __future__ import annotations

import numpy as np

from mllm_jax.pages.html.heat import heat_map, heat_scale
from mllm_jax.pages.html.markup import Markup, join_markup, make_note, make_table
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.train.listeners.stragglers.heat import FACTOR, HeatMap, heat_maps, slow_ones


def ranks_panel(run: RunFiles) -> PagePanel:
    """Times of all processes and devices over the steps."""
    maps = heat_maps(run.times)
    content = Markup()
    if maps:
        slow = slow_ones(run.times)
        verdict = (
            make_table(("step", "found slow"), slow)
            if slow
            else make_note("Nobody was found slow.")
        )
        scale = heat_scale(
            f"{FACTOR:.2g} times the median or more", f"1/{FACTOR:.2g} of the median or less"
        )
        content = join_markup(
            [verdict, scale, *(_draw_map(heat_map_data) for heat_map_data in maps)]
        )
    empty = "No times of processes are kept: run.stragglers is false, or no report has been made."
    explanation = (
        "Seconds over their median in the same window: red is slow, blue is fast. Processes of a "
        "step end it together, so what is compared is what each does by itself."
    )
    return PagePanel("ranks", "Processes and devices", content, empty, explanation, wide=True)


def _draw_map(times: HeatMap) -> Markup:
    ends = f"step {times.steps[0]:.0f}", f"{times.steps[-1]:.0f}"
    # Time that was not measured is 0.
    ratio = np.where(times.ratio > 0, times.ratio, np.nan)
    return heat_map(times.title, times.places, ratio, ends, FACTOR)
