"""CLIP's processor of images, which those of other families share."""

from __future__ import annotations

from pydantic import Field

from data.hf_format.image_settings import ImageSettings, Positive, Sides

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


class ClipImages(ImageSettings):
    """Settings of `CLIPImageProcessor`: an image is resized and cropped at its centre."""

    size: Sides = Field({"shortest_edge": 224})
    crop_size: Sides = Field({"height": 224, "width": 224})
    do_center_crop: bool = True
    image_mean: tuple[float, float, float] = MEAN
    image_std: tuple[Positive, Positive, Positive] = STD
