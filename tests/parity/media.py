"""Images and clips by formula: small, of several shapes, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Height and width in pixels.
IMAGES = {
    "wide": (20, 52),
    "tall": (47, 21),
    "square": (32, 32),
    "large": (61, 70),
    "tiny": (9, 13),
}
#: Samples at 16 kHz: 5, 12, 22 and 35 started hops of 160, every remainder of 4.
CLIPS = {"blip": 700, "even": 1920, "odd": 3400, "long": 5555}
RATE = 16_000


def image(name: str) -> NDArray[np.uint8]:
    """RGB pixels [height, width, 3]: waves of three directions, with a sharp-edged box."""
    height, width = IMAGES[name]
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    turns = [(0.31, 0.07, 0.4), (0.05, 0.23, 1.7), (0.17, -0.19, 2.9)]
    waves = [np.sin(a * rows + b * columns + phase) for a, b, phase in turns]
    pixels = np.round(127.5 + 110 * np.stack(waves, axis=-1))
    pixels[height // 3 : height // 2, width // 4 : 3 * width // 4] = (250, 20, 130)
    return pixels.astype(np.uint8)


def clip(name: str) -> NDArray[np.int16]:
    """Samples as a 16-bit file holds them: three tones that fade at different speeds, and noise.

    Without noise some mel bands would hold nothing but rounding errors.
    """
    time = np.arange(CLIPS[name]) / RATE
    tones = [(220.0, 0.5, 3.0), (1130.0, 0.3, 9.0), (4700.0, 0.15, 1.0)]
    wave = np.zeros(CLIPS[name])
    for hz, gain, fade in tones:
        wave += gain * np.sin(2 * np.pi * hz * time) * np.exp(-fade * time)
    noise = 0.02 * np.random.default_rng(CLIPS[name]).uniform(-1, 1, CLIPS[name])
    return np.round(32767 * (wave + noise)).astype(np.int16)


def wave(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """Samples as the processors take them, exactly `samples / 32768`."""
    return samples.astype(np.float32) / np.float32(32768)
