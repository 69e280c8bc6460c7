"""A heat map: a row of cells for each name, red above the usual and blue below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mllm_jax.pages.html.embedded import encode_png
from mllm_jax.pages.html.markup import Markup, make_tag

#: Colours of what is above and of what is below; between them the page shines through.
ABOVE, BELOW = (208, 60, 48), (44, 110, 214)
#: Most rows whose names are shown next to the map.
NAMED = 32
#: Points of a row, at least and at most, and the height of a whole map.
LEAST, MOST, HEIGHT = 2.0, 18.0, 360.0


def heat_scale(above: str, below: str) -> Markup:
    """The values of the darkest colours, in words."""
    entries = [
        make_tag("span", make_tag("i", class_="key", style=f"background:rgb{colour}"), name)
        for colour, name in ((ABOVE, above), (BELOW, below))
    ]
    return make_tag("div", *entries, class_="legend")


def heat_map(
    title: str,
    names: Sequence[str],
    ratio: NDArray[np.float64],
    ends: tuple[str, str],
    factor: float,
) -> Markup:
    """The title of a map, names of its rows, its cells, and what is below them.

    Args:
        names: a name for each row.
        ratio: `[rows, columns]`, values over the usual one; a cell without a number has no colour.
        ends: words below the first and below the last column.
        factor: ratio, or one over it, of the darkest colours.
    """
    count = len(names)
    row = min(MOST, max(LEAST, HEIGHT / count))
    every = -(-count // NAMED)
    labels = [make_tag("span", name, style=f"height:{row * every:g}px") for name in names[::every]]
    source = _encode_pixels(ratio, factor)
    picture = make_tag("img", alt=title, src=source, style=f"height:{row * count:g}px")
    below = make_tag("div", *(make_tag("span", end) for end in ends), class_="ends")
    rows = make_tag("div", *labels, class_="names")
    return make_tag(
        "figure",
        make_tag("figcaption", title),
        make_tag("div", rows, make_tag("div", picture, below), class_="heat"),
        class_="chart",
    )


def _encode_pixels(ratio: NDArray[np.float64], factor: float) -> str:
    """A PNG of a pixel for each cell, as a data URL."""
    known = np.isfinite(ratio)
    # Nothing at all is as far below as there is a colour for.
    least = np.where(known, np.maximum(ratio, factor**-2), 1.0)
    strength = np.log(least) / np.log(factor)
    colours = np.where(strength[..., None] > 0, ABOVE, BELOW)
    opaque = np.clip(np.abs(strength), 0, 1)[..., None] * 255
    image = Image.fromarray(np.concatenate([colours, opaque], axis=-1).astype(np.uint8), "RGBA")
    return encode_png(image)
