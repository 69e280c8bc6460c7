"""Images to encoder inputs by `data.image`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.config import ImageConfig
from data.media.image.patches import blocks_of, eight_bits, grid_of, patches_of, with_class_token
from data.media.image.row_spec import ImageRowSpec
from data.sample import DataError, Grid, ProcessedMedium, Size


@dataclass(frozen=True)
class ConfiguredImages:
    """Images by `data.image`, as it is for one encoder.

    Raises:
        DataError: normalisation constants that fit neither one nor all channels, or an encoder of
            tiles, of which `data.image` says nothing.
    """

    config: ImageConfig
    spec: ImageRowSpec

    def __post_init__(self) -> None:
        """Refuse what does not fit."""
        for name in ("mean", "std"):
            values = getattr(self.config, name)
            if len(values) not in (1, self.spec.channels):
                raise DataError(
                    f"data.image.{name} has {len(values)} values; valid: 1 or {self.spec.channels}"
                )
        if self.spec.tiling is not None:
            raise DataError(
                f"the encoder {self.spec.name!r} takes tiles, into which images are cut by a "
                "released processor alone; valid: data.processor, a folder with "
                "preprocessor_config.json"
            )

    def measure(self, size: Size, alone: bool) -> tuple[int, Grid]:
        """Patches with the class token, and the grid of outputs."""
        grid = grid_of(size, self.spec, self.config)
        return math.prod(grid) + self.spec.class_tokens, blocks_of(grid, self.spec)

    def read(self, pixels: NDArray[np.uint8], alone: bool) -> ProcessedMedium:
        """Patches of an image."""
        return with_class_token(patches_of(pixels, self.spec, self.config), self.spec)

    def grey_levels(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Pixels of normalised values [height, width, channels]."""
        mean, std = np.array(self.config.mean), np.array(self.config.std)
        return eight_bits((values * std + mean) * 255)
