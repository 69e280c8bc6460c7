"""Images as a kind of media."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig, SyntheticSource
from data.media.file_bytes import FileBytes
from data.media.image.files import EncodedImage
from data.media.image.patches import images_of
from data.media.image.reader import ConfiguredImages
from data.media.image.row_spec import ImageRowSpec, LazyImage
from data.media.image.tiles import ImageTiling, layout_of
from data.media.media_type import MediaType
from data.media.preview import MediaPreview, PreviewPicture
from data.media.processor import MediaProcessor
from data.sample import MediumLengths, ProcessedMedium, Size

_PATCH = 16  # pixels of a side for each patch of noise, if the source does not say


@dataclass(frozen=True)
class NoiseImage(LazyImage):
    """Grey noise of `sides` (height, width) in pixels."""

    sides: Size
    seed: int

    def image_size(self) -> Size:
        """(height, width) in pixels."""
        return self.sides

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels]."""
        noise = np.random.default_rng(self.seed).integers(0, 256, self.sides, np.uint8)
        return np.repeat(noise[:, :, None], channels, axis=2)


class ImageProcessor(MediaProcessor):
    """Images as patches.

    Args:
        spec: row spec of the encoder.
        reader: has `measure(size, alone)`, `read(pixels, alone)`, and `grey_levels(values)`, the
            inverse of normalising.
    """

    def __init__(self, spec: ImageRowSpec, reader: Any) -> None:
        super().__init__(spec)
        self.reader = reader

    def measure(self, medium: LazyImage, alone: bool) -> MediumLengths:
        """Patches, and the grid of an image."""
        return MediumLengths(*self.reader.measure(medium.image_size(), alone))

    def process(self, medium: LazyImage, alone: bool) -> ProcessedMedium:
        """Patches of an image."""
        processed: ProcessedMedium = self.reader.read(medium.load(self.spec.channels), alone)
        return processed

    def preview_medium(self, medium: LazyImage, processed: ProcessedMedium) -> MediaPreview:
        """An image as in its file, and the pixels that its encoder gets: tiles as they lie."""
        size, original = medium.image_size(), medium.load(self.spec.channels)
        parts = [self.reader.grey_levels(part) for part in images_of(processed, self.spec)]
        captions = [_describe_size(part) for part in parts]
        if len(parts) > 1:
            names = ["whole", *(f"tile {n}" for n in range(1, len(parts)))]
            captions = [f"{name}, {pixels}" for name, pixels in zip(names, captions, strict=True)]
        pictures = [
            PreviewPicture(part, caption) for part, caption in zip(parts, captions, strict=True)
        ]
        seen = _picture_rows(pictures, size, self.spec.tiling)
        return MediaPreview(_describe_size(original), seen, PreviewPicture(original, "in the file"))


class ImageType(MediaType):
    """See `MediaType`."""

    name = "image"
    endings = ("png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff", "ppm")
    heads = (
        *(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM"),
        *(b"II*\0", b"MM\0*", b"P5\n", b"P6\n"),
    )

    def open(self, content: FileBytes, config: DataConfig) -> LazyImage:
        """The image in a file of one of the common formats."""
        return EncodedImage(content, config.image.max_pixels)

    def make_processor(
        self, config: DataConfig, spec: ImageRowSpec, released: Any = None
    ) -> ImageProcessor:
        """The processor that `data.image` and its keys for this encoder configure."""
        reader = released or ConfiguredImages(config.image.for_encoder(spec.module), spec)
        return ImageProcessor(spec, reader)

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseImage:
        """About so many patches, no side more than twice the other."""
        source = config.source
        side = source.patch if isinstance(source, SyntheticSource) else _PATCH
        rows = max(1, round(math.sqrt(positions * rng.uniform(0.5, 2.0))))
        columns = max(1, round(positions / rows))
        return NoiseImage((rows * side, columns * side), int(rng.integers(2**31)))


def _describe_size(pixels: NDArray[Any]) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]} pixels"


def _picture_rows(
    pictures: list[PreviewPicture], size: Size, tiling: ImageTiling | None
) -> tuple[tuple[PreviewPicture, ...], ...]:
    """The whole image, then its tiles row by row."""
    if tiling is None or len(pictures) == 1:
        return (tuple(pictures),)
    wide = layout_of(size, tiling).tiles[1]
    tiles = range(1, len(pictures), wide)
    return (tuple(pictures[:1]), *(tuple(pictures[at : at + wide]) for at in tiles))
