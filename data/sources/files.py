"""Images and clips in a media folder, with the checks that untrusted files need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import soundfile
from numpy.typing import NDArray

from data.sample import Audio, Image, MediaError

# Plain rasters only: PIL would hand PostScript to an external program.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# Modes whose conversion to 8-bit grey or RGB loses nothing but colour or transparency.
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")


def inside(root: Path, name: str) -> Path:
    """The file `name` of the folder `root`, symbolic links followed.

    Raises:
        MediaError: it is missing, not a regular file, or outside of `root` (by "..", by an absolute
            path or through a link).
    """
    try:
        path = (root / name).resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, null byte, loop of links
        raise MediaError(f"{name!r} is not a usable path: {error}") from error
    if not path.is_relative_to(root.resolve()):
        raise MediaError(f"{name!r} is outside of the media folder {root}")
    if not is_file:
        kind = "not a regular file" if path.exists() else "missing"
        raise MediaError(f"{name!r} is {kind} in the media folder {root}")
    return path


def _open_image(path: Path, name: str) -> PIL.Image.Image:
    try:
        image = PIL.Image.open(path, formats=_FORMATS)
    # PIL raises above twice its limit and warns above it (an exception where warnings are errors);
    # `data.image.max_pixels` then decides.
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise MediaError(f"{name!r} is a decompression bomb: {error}") from error
    except Exception as error:  # the format plug-ins raise whatever a broken header provokes
        raise MediaError(f"{name!r} is not a readable image: {error}") from error
    if image.mode not in _MODES:
        image.close()
        raise MediaError(f"{name!r} has pixel mode {image.mode}; valid: {', '.join(_MODES)}")
    return image


@dataclass(frozen=True)
class ImageFile(Image):
    """The file `name` of the folder `root`."""

    root: Path
    name: str
    max_pixels: int

    def size(self) -> tuple[int, int]:
        """(height, width) from the header."""
        with _open_image(inside(self.root, self.name), self.name) as image:
            return image.height, image.width

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels], converted to grey or RGB."""
        with _open_image(inside(self.root, self.name), self.name) as image:
            if image.height * image.width > self.max_pixels:
                raise MediaError(f"{self.name!r} is above data.image.max_pixels {self.max_pixels}")
            try:
                pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
            except Exception as error:  # as above; truncated data is an OSError
                raise MediaError(f"{self.name!r} cannot be decoded: {error}") from error
        return pixels.reshape(*pixels.shape[:2], channels)


@dataclass(frozen=True)
class AudioFile(Audio):
    """The file `name` of the folder `root`; several channels are averaged into one."""

    root: Path
    name: str

    def info(self) -> tuple[int, int]:
        """(samples, rate in Hz) from the header."""
        path = inside(self.root, self.name)
        try:
            info = soundfile.info(str(path))
        except (soundfile.SoundFileError, RuntimeError, OSError) as error:
            raise MediaError(f"{self.name!r} is not a readable clip: {error}") from error
        return int(info.frames), int(info.samplerate)

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        path = inside(self.root, self.name)
        try:
            wave, _ = soundfile.read(str(path), dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, RuntimeError, OSError) as error:
            raise MediaError(f"{self.name!r} cannot be decoded: {error}") from error
        return wave.mean(axis=1)
