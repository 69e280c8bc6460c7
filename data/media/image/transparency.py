"""Transparent pixels, which are shown over white, as the processors of transformers show them.

PIL knows them by a band or a palette of alpha, and by one colour that is transparent. Of a PNG the
colour is in samples of the file (PNG specification, 11.3.2.1), whereas PIL compares it with samples
of 8 bits; so it is brought to these, or for samples of 16 bits compared with all of their bits.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL.PngImagePlugin import PngImageFile

#: By PIL's name of how the samples of a PNG lie in it, their greatest value, and the value in 8
#: bits of the step to the next one.
_SAMPLES = {"L;2": (3, 85), "L;4": (15, 17), "L": (255, 1), "RGB": (255, 1)}
#: The upper and the lower bytes of samples of 16 bits; the latter is PIL's name of the upper ones
#: where the lower byte comes first.
_UPPER, _LOWER = "RGB;16B", "RGB;16L"


def load_image(image: PIL.Image.Image, file: BinaryIO) -> None:
    """Load an image so that `on_white` finds its transparent pixels.

    Args:
        image: image that was opened from `file`, and is not loaded yet.
        file: the file, which is read twice where PIL leaves out bits that decide.
    """
    layout = _sample_layout(image)
    image.load()
    clear = image.info.get("transparency")
    if clear is None:
        return
    if layout in _SAMPLES:
        most, step = _SAMPLES[layout]
        grey = isinstance(clear, int)
        samples = [(sample & most) * step for sample in ([clear] if grey else clear)]
        image.info["transparency"] = samples[0] if grey else tuple(samples)
    elif layout == _UPPER:
        upper, lower = divmod(np.array(clear), 256)
        opaque = (np.asarray(image) != upper).any(2) | (_lower_bytes(file) != lower).any(2)
        image.putalpha(PIL.Image.fromarray(opaque.astype(np.uint8) * 255))


def on_white(image: PIL.Image.Image) -> PIL.Image.Image:
    """A loaded image without transparency."""
    if not image.has_transparency_data:
        return image
    above = image.convert("RGBA")
    return PIL.Image.alpha_composite(PIL.Image.new("RGBA", above.size, "white"), above)


def _sample_layout(image: PIL.Image.Image) -> str:
    """PIL's name of how the samples of an image lie in its file; empty for one without pixels."""
    return str(image.tile[0][3]) if isinstance(image, PngImageFile) and image.tile else ""


def _lower_bytes(file: BinaryIO) -> NDArray[np.uint8]:
    """The lower bytes of a PNG of RGB in 16 bits, [height, width, 3]."""
    file.seek(0)
    with PIL.Image.open(file, formats=("PNG",)) as image:
        assert isinstance(image, PngImageFile)
        image.tile = [tile._replace(args=_LOWER) for tile in image.tile]
        image.load()
        return np.asarray(image)
