"""Images in the encodings of files: sizes from their headers, pixels when needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
from numpy.typing import NDArray
from PIL.TiffImagePlugin import TiffImageFile

from data.faults import FaultKind
from data.media.file_bytes import HEADER, STREAM, FileBytes
from data.media.image.row_spec import LazyImage
from data.media.image.transparency import load_image, on_white
from data.sample import MediaError, Size

# Plain rasters only: PIL would hand PostScript to an external program.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# Modes whose conversion to 8-bit grey or RGB loses nothing but colour or transparency.
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
#: Orientations for which height and width change places.
_TURNED = (5, 6, 7, 8)
#: PIL's warning of many pixels, of which `data.image.max_pixels` decides.
_SILENT = ("ignore", None, PIL.Image.DecompressionBombWarning, None, 0)


def _silence_pil() -> None:
    """Keep PIL's warning from being an error where warnings are errors, as it is none elsewhere.

    By a filter in front of all, as `warnings.catch_warnings` would meddle with other threads.
    """
    if not warnings.filters or warnings.filters[0] != _SILENT:
        warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)


@contextmanager
def _open_image(file: BinaryIO, name: str) -> Iterator[PIL.Image.Image]:
    _silence_pil()
    try:
        image = PIL.Image.open(file, formats=_FORMATS)
    # Above twice the number of pixels of which PIL warns.
    except PIL.Image.DecompressionBombError as error:
        raise MediaError(FaultKind.PIXELS, f"{name!r} is a decompression bomb: {error}") from error
    except PIL.UnidentifiedImageError as error:
        reason = f"{name!r} is not a readable image; valid: {', '.join(_FORMATS)}"
        raise MediaError(FaultKind.IMAGE, reason) from error
    except Exception as error:  # the format plug-ins raise whatever a broken header provokes
        raise MediaError(FaultKind.IMAGE, f"{name!r} is not a readable image: {error}") from error
    with image:
        if image.mode not in _MODES:
            raise MediaError(
                FaultKind.IMAGE, f"{name!r} has pixel mode {image.mode}; valid: {', '.join(_MODES)}"
            )
        yield image


def _upright_size(image: PIL.Image.Image, name: str) -> Size:
    """(height, width) of an upright image from what comes before its pixels."""
    size = image.height, image.width
    if isinstance(image, TiffImageFile) and PIL.ExifTags.Base.Orientation in image.tag_v2:
        return size  # PIL has exchanged them already
    try:
        orientation = _read_orientation(image.info)
    except Exception as error:  # as in `_open_image`
        raise MediaError(
            FaultKind.IMAGE, f"{name!r} has EXIF that cannot be read: {error}"
        ) from error
    return size[::-1] if orientation in _TURNED else size


def _read_orientation(info: Mapping[str | tuple[int, int], Any]) -> int | None:
    """The orientation that PIL turns by: that of EXIF, or without one that of XMP.

    An image of its own reads it: `getexif` of the image would decode a PNG, and would not look
    again after the pixels.
    """
    blank = PIL.Image.new("1", (1, 1))
    blank.info = dict(info)
    orientation: int | None = blank.getexif().get(PIL.ExifTags.Base.Orientation)
    return orientation


@dataclass(frozen=True)
class EncodedImage(LazyImage):
    """An image in one of the common formats, upright as its EXIF or XMP orientation says.

    Transparent pixels are shown over white. `max_pixels` bounds the decoded pixels.
    """

    file_bytes: FileBytes
    max_pixels: int

    def image_size(self) -> Size:
        """(height, width) from the header."""
        name = self.file_bytes.name
        with self.file_bytes.open(HEADER) as file, _open_image(file, name) as image:
            return _upright_size(image, name)

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels], converted to grey or RGB."""
        name = self.file_bytes.name
        with self.file_bytes.open(STREAM) as file, _open_image(file, name) as image:
            if image.height * image.width > self.max_pixels:
                raise MediaError(
                    FaultKind.PIXELS, f"{name!r} is above data.image.max_pixels {self.max_pixels}"
                )
            size = _upright_size(image, name)
            try:
                load_image(image, file)
                PIL.ImageOps.exif_transpose(image, in_place=True)
                pixels = np.asarray(on_white(image).convert("L" if channels == 1 else "RGB"))
            except Exception as error:  # as above; truncated data is an OSError
                raise MediaError(FaultKind.IMAGE, f"{name!r} cannot be decoded: {error}") from error
        if pixels.shape[:2] != size:
            raise MediaError(
                FaultKind.IMAGE,
                f"{name!r} has its orientation after its pixels, where its size is not known "
                "from the header; save the image anew",
            )
        return pixels.reshape(*size, channels)
