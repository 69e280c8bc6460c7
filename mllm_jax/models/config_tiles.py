"""Typed configuration of images that are cut into tiles."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Rows and columns, or height and width.
Size = tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]


class TilesConfig(BaseModel):
    """Images of any resolution, cut into tiles that are encoded each by itself.

    As in LLaVA-OneVision (arXiv 2408.03326, section 3.2): an image is seen whole, and once more at
    the best of several resolutions. The decoder needs an extra token, which ends a row of outputs.

    Args:
        pixels: height and width of a tile.
        pinpoints: resolutions, heights and widths in pixels, whole multiples of a tile's.
        most: tiles whose outputs are as many as an image's may be, that of the whole apart; larger
            grids of outputs are shrunk.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    pixels: Size
    pinpoints: Annotated[tuple[Size, ...], Field(min_length=1)]
    most: int = Field(9, gt=0)

    @model_validator(mode="after")
    def _whole(self) -> TilesConfig:
        for pinpoint in self.pinpoints:
            if any(n % tile for n, tile in zip(pinpoint, self.pixels, strict=True)):
                raise ValueError(
                    f"tiles.pinpoints: {list(pinpoint)} is not a whole number of tiles of "
                    f"{list(self.pixels)} pixels"
                )
        return self
