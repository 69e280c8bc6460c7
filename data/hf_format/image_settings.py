"""Settings of images that the processors of several families share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from data.config import DataConfig
from data.hf_format.images import ExactSize, ImageTransforms, ReleasedImages, Resize, ShortestEdge
from data.hf_format.media import MediaSettings, SettingsSource, check_idle
from data.media.image.row_spec import ImageRowSpec
from data.rows.spec import Kind
from data.sample import DataError, Size

Positive = Annotated[float, Field(gt=0)]
#: A number of pixels of a side, height and width, or sides by name.
Sides = PositiveInt | tuple[PositiveInt, PositiveInt] | Mapping[str, PositiveInt | None]


class ImageSettings(MediaSettings):
    """The settings of an image: it is resized, cropped, scaled and normalised.

    A family's class has defaults for `image_mean` and `image_std`, and for what else transformers
    has other ones.
    """

    kind: ClassVar[Kind] = "image"
    #: Whether padding has a meaning; `do_pad` is refused else.
    pads: ClassVar[bool] = False

    do_resize: bool = True
    size: Sides = Field({})
    default_to_square: bool = False
    resample: Literal[0, 1, 2, 3, 4, 5] = 3
    do_center_crop: bool = False
    crop_size: Sides = Field({})
    do_rescale: bool = True
    rescale_factor: Positive = 1 / 255
    do_normalize: bool = True
    image_mean: tuple[float, float, float]
    image_std: tuple[Positive, Positive, Positive]
    do_pad: bool = False

    def read(self, source: SettingsSource) -> Any:
        """The transforms of an image, unless a class has more. Raises DataError."""
        return self.read_transforms(source)

    def read_transforms(self, source: SettingsSource) -> ImageTransforms:
        """The transforms of an image. Raises DataError."""
        resize = self.resize_rule(source) if self.do_resize else None
        if self.do_pad and not self.pads:
            raise source.refused_error("do_pad", True, f"false, by {source.class_name}", "images")
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        if self.do_normalize:
            mean, std = self.image_mean, self.image_std
        return ImageTransforms(
            square=False,
            resize=resize,
            resample=self.resample,
            crop=self.centre_size(source) if self.do_center_crop else None,
            scale=self.rescale_factor if self.do_rescale else 1.0,
            mean=mean,
            std=std,
            border=tuple(int(value * 255) for value in self.image_mean),
        )

    def resize_rule(self, source: SettingsSource) -> Resize:
        """The size that images are resized to. Raises DataError: `size` says none."""
        match _size_fields(self.size, self.default_to_square):
            case {"shortest_edge": int(edge), **others} if not others:
                return ShortestEdge(edge)
            case {"height": int(height), "width": int(width), **others} if not others:
                return ExactSize((height, width))
        valid = "{shortest_edge} or {height, width}"
        raise source.refused_error("size", self.size, valid, "images")

    def centre_size(self, source: SettingsSource) -> Size | None:
        """The size of the centre that remains. Raises DataError: `crop_size` says none."""
        match self.crop_size:
            case int(side):
                return side, side
            case {"height": int(height), "width": int(width)} | (int(height), int(width)):
                return height, width
        raise source.refused_error("crop_size", self.crop_size, "{height, width}", "images")

    @classmethod
    def make_reader(
        cls, recipes: Mapping[Kind, Any], config: DataConfig, spec: ImageRowSpec
    ) -> ReleasedImages | None:
        """Images, and frames of videos; None if `data.image` has keys for the encoder."""
        if spec.module in config.image.modules:
            return None
        check_idle(config, "image", ("height", "max_patches", "mean", "std"))
        frames = _frame_transforms(recipes, config) if "video" in spec.kinds else None
        return ReleasedImages(recipes["image"], spec, config.image.max_pixels, frames)


@dataclass(frozen=True)
class VideoFrames:
    """How the frames of videos are processed.

    Attributes:
        transforms: transforms of a frame.
        frames: number of frames that are taken of a video, evenly spaced; None if it is not said.
    """

    transforms: ImageTransforms
    frames: int | None


def _frame_transforms(recipes: Mapping[Kind, Any], config: DataConfig) -> ImageTransforms | None:
    """Transforms of the frames of videos; None if the folder does not describe them."""
    video = recipes.get("video")
    if not isinstance(video, VideoFrames):
        return None
    if video.frames not in (None, config.video.frames):
        raise DataError(
            f"data.processor takes {video.frames} frames of a video (num_frames), but "
            f"data.video.frames is {config.video.frames}; valid: {video.frames}"
        )
    return video.transforms


def _size_fields(size: Any, square: bool) -> dict[str, int]:
    """`size` of images as a mapping without null values; one number may mean a square."""
    if isinstance(size, int):
        return {"height": size, "width": size} if square else {"shortest_edge": size}
    if isinstance(size, tuple):
        return {"height": size[0], "width": size[1]}
    return {key: value for key, value in size.items() if value is not None}
