"""Images in the encodings of files: sizes from their headers, pixels when needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
from numpy.typing import NDArray

from data.faults import FaultKind
from data.kinds.blob import HEADER, STREAM, Blob
from data.kinds.image.modality import Image
from data.sample import MediaError

# Plain rasters only: PIL would hand PostScript to an external program.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# Modes whose conversion to 8-bit grey or RGB loses nothing but colour or transparency.
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
#: Orientations of EXIF for which height and width change places.
_TURNED = (5, 6, 7, 8)
_UPRIGHT = (None, 1)


@contextmanager
def _open_image(file: BinaryIO, name: str) -> Iterator[PIL.Image.Image]:
    try:
        image = PIL.Image.open(file, formats=_FORMATS)
    # PIL raises above twice its limit and warns above it (an exception where warnings are errors);
    # `data.image.max_pixels` then decides.
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise MediaError(FaultKind.PIXELS, f"{name!r} is a decompression bomb: {error}") from error
    except PIL.UnidentifiedImageError as error:
        told = f"{name!r} is not a readable image; valid: {', '.join(_FORMATS)}"
        raise MediaError(FaultKind.IMAGE, told) from error
    except Exception as error:  # the format plug-ins raise whatever a broken header provokes
        raise MediaError(FaultKind.IMAGE, f"{name!r} is not a readable image: {error}") from error
    with image:
        if image.mode not in _MODES:
            raise MediaError(
                FaultKind.IMAGE, f"{name!r} has pixel mode {image.mode}; valid: {', '.join(_MODES)}"
            )
        yield image


def _is_turned(image: PIL.Image.Image, name: str) -> bool:
    """Whether its upright height is the width in its header; nothing is decoded."""
    if image.format == "TIFF":
        return False  # PIL has turned it already
    try:
        return _orientation(image) in _TURNED
    except Exception as error:  # as in `_open_image`
        raise MediaError(
            FaultKind.IMAGE, f"{name!r} has EXIF that cannot be read: {error}"
        ) from error


@dataclass(frozen=True)
class EncodedImage(Image):
    """An image in one of the common formats, upright as its EXIF orientation says.

    `max_pixels` bounds the decoded pixels.
    """

    blob: Blob
    max_pixels: int

    def size(self) -> tuple[int, int]:
        """(height, width) from the header."""
        name = self.blob.name
        with self.blob.open(HEADER) as file, _open_image(file, name) as image:
            size = image.height, image.width
            return size[::-1] if _is_turned(image, name) else size

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels], converted to grey or RGB."""
        name = self.blob.name
        with self.blob.open(STREAM) as file, _open_image(file, name) as image:
            if image.height * image.width > self.max_pixels:
                raise MediaError(
                    FaultKind.PIXELS, f"{name!r} is above data.image.max_pixels {self.max_pixels}"
                )
            in_front = "exif" in image.info
            try:
                image.load()
                behind = not in_front and _orientation(image) not in _UPRIGHT
                PIL.ImageOps.exif_transpose(image, in_place=True)
                pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
            except Exception as error:  # as above; truncated data is an OSError
                raise MediaError(FaultKind.IMAGE, f"{name!r} cannot be decoded: {error}") from error
        if behind:
            raise MediaError(
                FaultKind.IMAGE,
                f"{name!r} has its EXIF orientation behind its pixels, where its size is not known "
                "from the header; save the image anew",
            )
        return pixels.reshape(*pixels.shape[:2], channels)


def _orientation(image: PIL.Image.Image) -> int | None:
    """The EXIF orientation, which stands before the pixels, or after those of a decoded image."""
    # Not PNG's own function, which would decode it.
    found: int | None = PIL.Image.Image.getexif(image).get(PIL.ExifTags.Base.Orientation)
    return found
