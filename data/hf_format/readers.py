"""Readers of media by a released processor, for the kinds that its folder describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from data.config import DataConfig
from data.hf_format.audio import ReleasedAudio
from data.hf_format.files import ReleasedFiles
from data.hf_format.images import ImageTransforms, ReleasedImages
from data.media.audio.row_spec import AudioRowSpec
from data.media.image.row_spec import ImageRowSpec
from data.rows.spec import Kind, MediaRowSpec
from data.sample import DataError


def released_reader(files: ReleasedFiles, config: DataConfig, spec: MediaRowSpec) -> Any:
    """The reader of media for one encoder; None if the folder does not describe them.

    Raises:
        DataError: the processor does not fit the encoder, or a key of `data` has no effect.
    """
    make = _READERS.get(spec.kind)
    return make(files, config, spec) if make else None


def _image_reader(
    files: ReleasedFiles, config: DataConfig, spec: ImageRowSpec
) -> ReleasedImages | None:
    transforms = files.media.get("image")
    if transforms is None or spec.module in config.image.encoders:
        return None
    _check_idle(config, "image", ("height", "max_patches", "mean", "std"))
    tiling, most = spec.tiling, files.most_tiles
    if tiling is not None and most is not None and tiling.most != most:
        raise DataError(
            f"data.processor keeps the outputs of {most} tiles of an image "
            f"(vision_aspect_ratio), but the encoder {spec.name!r} those of {tiling.most}"
        )
    frames = _frame_transforms(files, config) if "video" in spec.kinds else None
    return ReleasedImages(transforms, spec, config.image.max_pixels, frames)


def _frame_transforms(files: ReleasedFiles, config: DataConfig) -> ImageTransforms | None:
    """Transforms of the frames of videos; None if the folder does not describe them."""
    settings = files.media.get("video")
    if settings is None:
        return None
    if settings.frames not in (None, config.video.frames):
        raise DataError(
            f"data.processor takes {settings.frames} frames of a video (num_frames), but "
            f"data.video.frames is {config.video.frames}; valid: {settings.frames}"
        )
    transforms: ImageTransforms = settings.transforms
    return transforms


def _audio_reader(
    files: ReleasedFiles, config: DataConfig, spec: AudioRowSpec
) -> ReleasedAudio | None:
    settings = files.media.get("audio")
    if settings is None:
        return None
    _check_idle(config, "audio", ("sample_rate", "hop", "window"))
    return ReleasedAudio(settings, spec)


_READERS: Mapping[Kind, Callable[[ReleasedFiles, DataConfig, Any], Any]] = MappingProxyType(
    {"image": _image_reader, "audio": _audio_reader}
)


def _check_idle(config: DataConfig, section: str, keys: tuple[str, ...]) -> None:
    """Raise DataError for keys that a released processor leaves without effect."""
    settings = getattr(config, section)
    for key in keys:
        value, default = getattr(settings, key), type(settings).model_fields[key].default
        if value != default:
            raise DataError(
                f"data.{section}.{key}: {value} has no effect, as data.processor says how "
                f"{section} inputs are made; valid: leave it out"
            )
