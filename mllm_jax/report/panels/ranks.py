"""The panel of slow processes and devices: heat maps over the steps, and who was found slow."""

from __future__ import annotations

import numpy as np
from PIL import Image

from mllm_jax.pages.embedded import png
from mllm_jax.pages.markup import Markup, joined, note, table, tag
from mllm_jax.pages.panel import Panel
from mllm_jax.report.files import RunFiles
from mllm_jax.train.stragglers.heat import FACTOR, HeatMap, heat_maps, kept_times, slow_ones

#: Colours of what is slow and of what is fast; between them the page shines through.
SLOW, FAST = (208, 60, 48), (44, 110, 214)
#: Most places whose names stand beside the map.
NAMED = 32
#: Points of a row, at least and at most, and the height of a whole map.
LEAST, MOST, HEIGHT = 2.0, 18.0, 360.0


def ranks(run: RunFiles) -> Panel:
    """Times of all processes and devices over the steps."""
    times = kept_times(run.folder)
    maps = heat_maps(times)
    content = Markup()
    if maps:
        found = slow_ones(times)
        told = table(("step", "found slow"), found) if found else note("Nobody was found slow.")
        content = joined([told, _scale(), *(_drawn(own) for own in maps)])
    empty = "No times of processes are kept: run.stragglers is false, or no report has been made."
    read = (
        "Seconds over their median in the same window: red is slow, blue is fast. Processes of a "
        "step end it together, so what is compared is what each does by itself."
    )
    return Panel("ranks", "Processes and devices", content, empty, read, wide=True)


def _scale() -> Markup:
    """What the darkest colours stand for."""
    entries = [
        tag("span", tag("i", class_="key", style=f"background:rgb{colour}"), name)
        for colour, name in (
            (SLOW, f"{FACTOR:.2g} times the median or more"),
            (FAST, f"1/{FACTOR:.2g} of the median or less"),
        )
    ]
    return tag("div", *entries, class_="legend")


def _drawn(own: HeatMap) -> Markup:
    """The title of a map, names of its rows, its cells, and its steps."""
    count = len(own.places)
    row = min(MOST, max(LEAST, HEIGHT / count))
    every = -(-count // NAMED)
    names = [tag("span", name, style=f"height:{row * every:g}px") for name in own.places[::every]]
    picture = tag("img", alt=own.title, src=_pixels(own.ratio), style=f"height:{row * count:g}px")
    steps = tag(
        "div",
        tag("span", f"step {own.steps[0]:.0f}"),
        tag("span", f"{own.steps[-1]:.0f}"),
        class_="ends",
    )
    rows = tag("div", *names, class_="names")
    return tag(
        "figure",
        tag("figcaption", own.title),
        tag("div", rows, tag("div", picture, steps), class_="heat"),
        class_="chart",
    )


def _pixels(ratio: np.ndarray) -> str:
    """A PNG of a pixel for each cell, as an address that holds its content."""
    strength = np.log(np.where(np.isnan(ratio) | (ratio <= 0), 1.0, ratio)) / np.log(FACTOR)
    colours = np.where(strength[..., None] > 0, SLOW, FAST)
    opaque = np.clip(np.abs(strength), 0, 1)[..., None] * 255
    image = Image.fromarray(np.concatenate([colours, opaque], axis=-1).astype(np.uint8), "RGBA")
    return png(image)
