"""Pictures and sounds as data URLs, so that a page needs no other file."""

from __future__ import annotations

import base64
import io

import numpy as np
import soundfile
from numpy.typing import NDArray
from PIL import Image

#: Quality of a JPEG, of 100: losses are below what is seen.
QUALITY = 90


def encode_png(image: Image.Image) -> str:
    """A picture without loss, as a data URL."""
    return _encode_image(image, "PNG")


def encode_jpeg(image: Image.Image) -> str:
    """A picture of many pixels, in about a tenth of the bytes of a PNG."""
    return _encode_image(image, "JPEG", quality=QUALITY)


def encode_wav(wave: NDArray[np.float32], rate: int) -> str:
    """A sound of 16 bits.

    Args:
        wave: samples `[samples]` from -1 to 1.
        rate: samples per second.
    """
    file = io.BytesIO()
    soundfile.write(file, np.clip(wave, -1, 1), rate, format="WAV", subtype="PCM_16")
    return _data_address("audio/wav", file)


def _encode_image(image: Image.Image, kind: str, **options: int) -> str:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return _data_address(f"image/{kind.lower()}", file)


def _data_address(kind: str, file: io.BytesIO) -> str:
    return f"data:{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
