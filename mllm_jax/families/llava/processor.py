"""LLaVA's processor of images: CLIP's, for images that are padded to a square."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from data.hf_format.images import ImageTransforms
from data.hf_format.media import SettingsSource
from mllm_jax.families.clip.processor import ClipImages


class LlavaImages(ClipImages):
    """Settings of `LlavaImageProcessor`."""

    pads: ClassVar[bool] = True

    def read(self, source: SettingsSource) -> ImageTransforms:
        """The transforms of an image. Raises DataError."""
        return replace(self.read_transforms(source), square=self.do_pad)
