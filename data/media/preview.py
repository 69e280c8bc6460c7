"""How media look: what an encoder gets of them, as pictures and sounds for people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Columns of a picture of numbers, at most; of more, evenly spaced ones are drawn.
COLUMNS = 4096
#: Colours of numbers from the least to the largest, at even distances.
_COLOURS = np.array(
    [(12, 8, 38), (82, 18, 124), (182, 54, 121), (251, 136, 97), (252, 253, 191)], np.float32
)


@dataclass(frozen=True)
class PreviewPicture:
    """A picture, and what it shows.

    Attributes:
        pixels: `[height, width, channels]`, 1 channel (grey) or 3.
        caption: what it shows.
        exact: whether its pixels are numbers to be distinguished, not a photograph.
    """

    pixels: NDArray[np.uint8]
    caption: str
    exact: bool = False


@dataclass(frozen=True)
class PreviewSound:
    """Samples `[samples]` from -1 to 1, and how many there are in a second."""

    wave: NDArray[np.float32]
    rate: int


@dataclass(frozen=True)
class MediaPreview:
    """A medium, as it is and as its encoder gets it.

    Attributes:
        description: size of the medium in its file.
        seen: what the encoder gets: pictures in rows.
        original: the medium itself, if it is a picture.
        sound: likewise, if it is a sound.
    """

    description: str
    seen: tuple[tuple[PreviewPicture, ...], ...]
    original: PreviewPicture | None = None
    sound: PreviewSound | None = None


def draw_levels(values: NDArray[np.float32], caption: str) -> PreviewPicture:
    """A picture of numbers `[rows, columns]`: dark is the least, bright is the largest."""
    columns = values.shape[1]
    if columns > COLUMNS:
        values = values[:, np.linspace(0, columns - 1, COLUMNS).astype(int)]
        caption = f"{caption}; {COLUMNS} of {columns} columns are drawn"
    low, high = float(values.min()), float(values.max())
    at = (values - low) / ((high - low) or 1.0) * (len(_COLOURS) - 1)
    scale = np.arange(len(_COLOURS))
    parts = [np.interp(at, scale, _COLOURS[:, channel]) for channel in range(3)]
    return PreviewPicture(np.stack(parts, axis=-1).round().astype(np.uint8), caption, exact=True)
