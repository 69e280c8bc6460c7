"""LLaVA-OneVision's processors: images as tiles, and the frames of videos, a tile each."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field, PositiveInt

from data.hf_format.image_settings import ImageSettings, Positive, Sides, VideoFrames
from data.hf_format.images import ExactSize, ImageTransforms
from data.hf_format.media import PROCESSOR, SettingsSource
from data.hf_format.typed import TYPED, parse_settings
from data.rows.spec import Kind
from mllm_jax.families.clip.processor import MEAN, STD

_SIDES = range(384, 2305, 384)


class _TileSettings(ImageSettings):
    """Settings by which images, or frames, become tiles of one size."""

    #: The media of messages.
    plural: ClassVar[str]

    size: Sides = Field({"height": 384, "width": 384})
    image_mean: tuple[float, float, float] = MEAN
    image_std: tuple[Positive, Positive, Positive] = STD

    def read_tiles(self, source: SettingsSource) -> ImageTransforms:
        """The transforms of a tile. Raises DataError: tiles have several sizes."""
        if self.do_center_crop:
            valid = f"false, where {self.plural} become tiles"
            raise source.refused_error("do_center_crop", True, valid, self.plural)
        transforms = self.read_transforms(source)
        if not isinstance(transforms.resize, ExactSize):
            valid = "{height, width}, with do_resize, of a tile"
            raise source.refused_error("size", self.size, valid, self.plural)
        return transforms


class _ProcessorSettings(BaseModel):
    """Settings of processor_config.json."""

    model_config = TYPED

    vision_aspect_ratio: Annotated[str, Field(pattern=r"^anyres_max_[1-9]\d{0,3}$")] | None = None


class OnevisionImages(_TileSettings):
    """Settings of `LlavaOnevisionImageProcessor`."""

    plural: ClassVar[str] = "images"
    pads: ClassVar[bool] = True
    processor_keys: ClassVar[tuple[str, ...]] = ("vision_aspect_ratio",)

    image_grid_pinpoints: tuple[tuple[PositiveInt, PositiveInt], ...] = tuple(
        (high, wide) for high in _SIDES for wide in _SIDES
    )

    def read(self, source: SettingsSource) -> ImageTransforms:
        """The transforms of an image. Raises DataError."""
        path = source.folder / PROCESSOR
        ratio = parse_settings(_ProcessorSettings, path, source.processor).vision_aspect_ratio
        return replace(
            self.read_tiles(source),
            pinpoints=self.image_grid_pinpoints,
            most_tiles=None if ratio is None else int(ratio.removeprefix("anyres_max_")),
        )


class OnevisionVideos(_TileSettings):
    """Settings of `LlavaOnevisionVideoProcessor`."""

    kind: ClassVar[Kind] = "video"
    plural: ClassVar[str] = "videos"

    do_sample_frames: bool = False
    num_frames: PositiveInt | None = None
    fps: Positive | None = None

    def read(self, source: SettingsSource) -> VideoFrames:
        """How the frames of videos are processed. Raises DataError."""
        if self.do_sample_frames and self.fps is not None:
            valid = "num_frames, or data.video.frames"
            raise source.refused_error("fps", self.fps, valid, self.plural)
        frames = self.num_frames if self.do_sample_frames else None
        return VideoFrames(self.read_tiles(source), frames)
