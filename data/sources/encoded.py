"""Images and clips in the encodings of files: sizes from their headers, contents when needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import PIL.Image
import soundfile
from numpy.typing import NDArray

from data.sample import Audio, Image, MediaError
from data.sources.blobs import Blob
from data.sources.storage import STREAM

# Plain rasters only: PIL would hand PostScript to an external program.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# Modes whose conversion to 8-bit grey or RGB loses nothing but colour or transparency.
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
#: What libsndfile and its Python half raise for files that they cannot read.
_SOUND_ERRORS = (soundfile.SoundFileError, RuntimeError, OSError, TypeError, ValueError)
_HEADER = 1 << 16  # bytes fetched at once where only the header is wanted
_BLOCK = 1 << 16  # samples decoded at once


@contextmanager
def _open_image(file: BinaryIO, name: str) -> Iterator[PIL.Image.Image]:
    try:
        image = PIL.Image.open(file, formats=_FORMATS)
    # PIL raises above twice its limit and warns above it (an exception where warnings are errors);
    # `data.image.max_pixels` then decides.
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise MediaError(f"{name!r} is a decompression bomb: {error}") from error
    except Exception as error:  # the format plug-ins raise whatever a broken header provokes
        raise MediaError(f"{name!r} is not a readable image: {error}") from error
    with image:
        if image.mode not in _MODES:
            raise MediaError(f"{name!r} has pixel mode {image.mode}; valid: {', '.join(_MODES)}")
        yield image


@dataclass(frozen=True)
class EncodedImage(Image):
    """An image in one of the common formats; `max_pixels` bounds what is decoded."""

    blob: Blob
    max_pixels: int

    def size(self) -> tuple[int, int]:
        """(height, width) from the header."""
        name = self.blob.name
        with self.blob.open(_HEADER) as file, _open_image(file, name) as image:
            return image.height, image.width

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels], converted to grey or RGB."""
        name = self.blob.name
        with self.blob.open(STREAM) as file, _open_image(file, name) as image:
            if image.height * image.width > self.max_pixels:
                raise MediaError(f"{name!r} is above data.image.max_pixels {self.max_pixels}")
            try:
                pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
            except Exception as error:  # as above; truncated data is an OSError
                raise MediaError(f"{name!r} cannot be decoded: {error}") from error
        return pixels.reshape(*pixels.shape[:2], channels)


class _Seekable:
    """A file for libsndfile, whose calls back into Python must not raise.

    Broken headers make it seek to before the beginning, which stands for the beginning here.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.readinto, self.tell = file.read, file.readinto, file.tell  # type: ignore[attr-defined]
        self._file = file

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of files."""
        if whence == os.SEEK_SET:
            return self._file.seek(max(0, offset))
        base = self.tell() if whence == os.SEEK_CUR else self._file.seek(0, os.SEEK_END)
        return self._file.seek(max(0, base + offset))


@dataclass(frozen=True)
class EncodedAudio(Audio):
    """A clip in a format of libsndfile; several channels are averaged into one.

    `max_samples` bounds what is decoded, whatever the header claims.
    """

    blob: Blob
    max_samples: int

    def info(self) -> tuple[int, int]:
        """(samples, rate in Hz) from the header."""
        with self.blob.open(_HEADER) as file, self._open(file) as clip:
            return int(clip.frames), int(clip.samplerate)

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        with self.blob.open(STREAM) as file, self._open(file) as clip:
            try:
                # Block by block: a header may claim thousands of channels.
                blocks = clip.blocks(_BLOCK // clip.channels + 1, dtype="float32", always_2d=True)
                # What is not finite is refused by who takes the clip.
                with np.errstate(all="ignore"):
                    waves = [block.mean(axis=1) for block in blocks]
            except _SOUND_ERRORS as error:
                raise MediaError(f"{self.blob.name!r} cannot be decoded: {error}") from error
        return np.concatenate(waves) if waves else np.zeros(0, np.float32)

    @contextmanager
    def _open(self, file: BinaryIO) -> Iterator[Any]:
        name = self.blob.name
        try:
            clip = soundfile.SoundFile(_Seekable(file))
        except _SOUND_ERRORS as error:
            raise MediaError(f"{name!r} is not a readable clip: {error}") from error
        with clip:
            if clip.frames > self.max_samples:
                raise MediaError(
                    f"{name!r} claims {clip.frames} samples, above data.audio.max_seconds, "
                    f"{self.max_samples} samples"
                )
            yield clip
