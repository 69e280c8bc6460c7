"""Videos as a kind of media: frames for encoders of images that take tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.media.file_bytes import FileBytes
from data.media.image.patches import images_of
from data.media.image.row_spec import ImageRowSpec
from data.media.media_type import MediaType
from data.media.preview import MediaPreview, PreviewPicture
from data.media.processor import MediaProcessor
from data.media.video.files import EncodedVideo, FrameTiming, LazyVideo
from data.sample import DataError, MediumLengths, ProcessedMedium, Size

#: Frames side by side in a picture of what the encoder gets.
_ACROSS = 8


@dataclass(frozen=True)
class NoiseVideo(LazyVideo):
    """Grey noise: `frames` frames of `sides` (height, width) in pixels."""

    frames: int
    sides: Size
    seed: int

    def frame_timing(self) -> FrameTiming:
        """A frame a second."""
        return FrameTiming(self.frames, 1.0)

    def load(self) -> Iterator[NDArray[np.uint8]]:
        """See `LazyVideo.load`."""
        rng = np.random.default_rng(self.seed)
        for _ in range(self.frames):
            yield np.repeat(rng.integers(0, 256, (*self.sides, 1), np.uint8), 3, axis=2)


class VideoProcessor(MediaProcessor):
    """Videos as the patches of their frames.

    Args:
        spec: row spec of the encoder.
        reader: that of the encoder's images, which also has `measure_frames(count, interval)`,
            `read_frames(frames, interval)` and `frame_levels(values)`, the inverse of normalising.
    """

    def __init__(self, spec: ImageRowSpec, reader: Any) -> None:
        super().__init__(spec)
        self.reader = reader

    def measure(self, medium: LazyVideo, alone: bool) -> MediumLengths:
        """Patches of all frames, and the grid of a video."""
        timing = medium.frame_timing()
        return MediumLengths(*self.reader.measure_frames(timing.count, timing.interval))

    def process(self, medium: LazyVideo, alone: bool) -> ProcessedMedium:
        """Patches of all frames."""
        processed: ProcessedMedium = self.reader.read_frames(
            medium.load(), medium.frame_timing().interval
        )
        return processed

    def preview_medium(self, medium: LazyVideo, processed: ProcessedMedium) -> MediaPreview:
        """The first frame as in its file, and all frames as the encoder gets them."""
        parts = [self.reader.frame_levels(part) for part in images_of(processed, self.spec)]
        pictures = [PreviewPicture(part, f"frame {n}") for n, part in enumerate(parts)]
        seen = [tuple(pictures[at : at + _ACROSS]) for at in range(0, len(pictures), _ACROSS)]
        (first,) = islice(medium.load(), 1)
        size = f"{first.shape[1]} x {first.shape[0]} pixels"
        caption = f"{len(parts)} frames of {size} are taken of those"
        return MediaPreview(caption, tuple(seen), PreviewPicture(first, "first frame in the file"))


class VideoType(MediaType):
    """See `MediaType`."""

    name = "video"
    endings = ("mp4", "mov", "m4v", "mkv", "webm", "avi", "mpg", "mpeg", "ts", "ogv")
    heads = (b"\x1aE\xdf\xa3", *(bytes((0, 0, 0, size)) + b"ftyp" for size in range(16, 64, 4)))

    def open(self, content: FileBytes, config: DataConfig) -> LazyVideo:
        """The video in a file of a format of FFmpeg."""
        settings = config.video
        return EncodedVideo(content, settings.frames, config.image.max_pixels, settings.max_seconds)

    def make_processor(
        self, config: DataConfig, spec: ImageRowSpec, released: Any = None
    ) -> VideoProcessor:
        """The processor of a released one; `data` says of no encoder how it takes videos."""
        if released is None:
            raise DataError(f"the encoder {spec.name!r} takes no videos alone; valid: images, too")
        return VideoProcessor(spec, released)

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseVideo:
        """Frames of one size; so many positions only if a frame had one."""
        count = min(config.video.frames, max(1, round(positions)))
        return NoiseVideo(count, (16, 16), int(rng.integers(2**31)))
