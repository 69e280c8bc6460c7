"""The processors of images of SigLIP and SigLIP 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, PositiveInt

from data.hf_format.image_settings import ImageSettings, Positive, Sides
from data.hf_format.images import Resize
from data.hf_format.media import SettingsSource
from data.media.image.row_spec import ImageRowSpec
from data.sample import Size


class SiglipImages(ImageSettings):
    """Settings of `SiglipImageProcessor`: an image is resized, whatever its shape is."""

    size: Sides = Field({"height": 224, "width": 224})
    image_mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    image_std: tuple[Positive, Positive, Positive] = (0.5, 0.5, 0.5)


class Siglip2Images(ImageSettings):
    """Settings of `Siglip2ImageProcessor`: an image has up to a number of patches."""

    resample: Literal[0, 1, 2, 3, 4, 5] = 2
    image_mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    image_std: tuple[Positive, Positive, Positive] = (0.5, 0.5, 0.5)
    patch_size: PositiveInt = 16
    max_num_patches: PositiveInt = 256

    def resize_rule(self, source: SettingsSource) -> Resize:
        """Resizing to the number of patches; `size` has no effect."""
        del source
        return PatchBudget(self.patch_size, self.max_num_patches)

    def centre_size(self, source: SettingsSource) -> None:
        """Nothing is cropped."""
        del source


@dataclass(frozen=True)
class PatchBudget(Resize):
    """Resize, up or down, to as many whole patches as there may be (NaFlex, arXiv 2307.06304).

    Attributes:
        patch: pixels of a patch's side.
        most: patches.
    """

    patch: int
    most: int

    def target_size(self, size: Size) -> Size:
        """The new size, by bisection of the scale, as released."""
        low, high = 1e-6, 100.0
        while high - low >= 1e-5:
            middle = (low + high) / 2
            low, high = (middle, high) if self._fits_budget(size, middle) else (low, middle)
        rows, columns = self._patch_grid(size, low)
        return rows * self.patch, columns * self.patch

    def find_misfit(self, spec: ImageRowSpec) -> tuple[str, str] | None:
        """See `Resize`."""
        if spec.patch != (self.patch, self.patch):
            return f"has patch_size {self.patch}", f"patch {spec.patch}"
        if spec.block != (1, 1):
            block = f"connector.stack {spec.block}, which joins whole blocks of them"
            return "gives images of any number of patches", block
        return None

    def _patch_grid(self, size: Size, scale: float) -> Size:
        rows, columns = (max(1, math.ceil(side * scale / self.patch)) for side in size)
        return rows, columns

    def _fits_budget(self, size: Size, scale: float) -> bool:
        return math.prod(self._patch_grid(size, scale)) <= self.most
