"""The panel of slow processes and devices: heat maps over the steps, and who was found slow."""

from __future__ import annotations

import numpy as np

from mllm_jax.pages.html.heat import heat_map, heat_scale
from mllm_jax.pages.html.markup import Markup, joined, note, table
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.train.listeners.stragglers.heat import FACTOR, HeatMap, heat_maps, slow_ones


def ranks(run: RunFiles) -> Panel:
    """Times of all processes and devices over the steps."""
    maps = heat_maps(run.times)
    content = Markup()
    if maps:
        found = slow_ones(run.times)
        told = table(("step", "found slow"), found) if found else note("Nobody was found slow.")
        scale = heat_scale(
            f"{FACTOR:.2g} times the median or more", f"1/{FACTOR:.2g} of the median or less"
        )
        content = joined([told, scale, *(_drawn(own) for own in maps)])
    empty = "No times of processes are kept: run.stragglers is false, or no report has been made."
    read = (
        "Seconds over their median in the same window: red is slow, blue is fast. Processes of a "
        "step end it together, so what is compared is what each does by itself."
    )
    return Panel("ranks", "Processes and devices", content, empty, read, wide=True)


def _drawn(own: HeatMap) -> Markup:
    ends = f"step {own.steps[0]:.0f}", f"{own.steps[-1]:.0f}"
    # Time that was not measured is 0.
    ratio = np.where(own.ratio > 0, own.ratio, np.nan)
    return heat_map(own.title, own.places, ratio, ends, FACTOR)
