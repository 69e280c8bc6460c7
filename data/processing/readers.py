"""Images and clips to encoder inputs: what `Processor` asks, and the readers by configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from data.config import AudioConfig, ImageConfig
from data.kinds.frames import frames_medium, frames_of
from data.kinds.modality import Modality
from data.kinds.patches import grid_of, patches_of, with_class_token
from data.kinds.tiles import Size
from data.sample import DataError, Medium


class ImageReader(Protocol):
    """Images as inputs of one encoder; what it measures it must read. It must be picklable."""

    def measure(self, size: Size, alone: bool) -> tuple[int, Size | None]:
        """Input positions of an image of `size`, and the grid of a tiled one (`Lengths.grids`).

        Args:
            size: (height, width) in pixels.
            alone: whether it is the only image of its conversation.

        Raises:
            MediaError: it cannot be used.
        """

    def read(self, pixels: NDArray[np.uint8], alone: bool) -> Medium:
        """Pixels [height, width, channels] as encoder input. Raises MediaError."""


class AudioReader(Protocol):
    """Clips as inputs of one encoder; what it measures it must read. It must be picklable."""

    def measure(self, samples: int, rate: int) -> int:
        """Input positions of a clip of so many samples at `rate` Hz. Raises MediaError."""

    def read(self, wave: NDArray[np.float32]) -> Medium:
        """A waveform [samples] as encoder input. Raises MediaError."""


@dataclass(frozen=True)
class ConfiguredImages:
    """Images by `data.image`.

    Raises:
        DataError: normalisation constants that fit neither one nor all channels, or an encoder of
            tiles, of which `data.image` says nothing.
    """

    config: ImageConfig
    modality: Modality

    def __post_init__(self) -> None:
        """Refuse what does not fit."""
        for name in ("mean", "std"):
            values = getattr(self.config, name)
            if len(values) not in (1, self.modality.channels):
                raise DataError(
                    f"data.image.{name} has {len(values)} values; valid: 1 or "
                    f"{self.modality.channels}"
                )
        if self.modality.tiling is not None:
            raise DataError(
                f"the encoder {self.modality.name!r} takes tiles, into which images are cut by a "
                "released processor alone; valid: data.processor, a folder with "
                "preprocessor_config.json"
            )

    def measure(self, size: Size, alone: bool) -> tuple[int, Size | None]:
        """Patches, and the class token; no grid."""
        grid = grid_of(size, self.modality, self.config)
        return math.prod(grid) + self.modality.class_tokens, None

    def read(self, pixels: NDArray[np.uint8], alone: bool) -> Medium:
        """Patches of an image."""
        return with_class_token(patches_of(pixels, self.modality, self.config), self.modality)


@dataclass(frozen=True)
class ConfiguredClips:
    """Clips by `data.audio`."""

    config: AudioConfig
    modality: Modality

    def measure(self, samples: int, rate: int) -> int:
        """Frames of a clip, and those behind it."""
        frames = frames_of(samples, rate, self.config, self.modality.longest)
        return frames + self.modality.lookahead

    def read(self, wave: NDArray[np.float32]) -> Medium:
        """Log-mel frames of a clip."""
        return frames_medium(wave, self.modality, self.config)
