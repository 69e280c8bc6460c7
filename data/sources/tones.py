"""The sound of a drawn scene: four beats, one for each quarter, with a tone where a shape is.

::

    top left   top right   bottom left   bottom right
    ~~~~~~~~               ~~~~~~~~~~~                    the pitch is the kind of the shapes,
                                                          the overtone their colour
"""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Samples of a second, and seconds of a beat.
RATE, BEAT = 8000, 0.1
#: Hertz of the lowest pitch, and by what factor the next one is higher.
_LOWEST, _STEP = 320.0, 1.3
#: How loud a tone and noise are; the loudest sample is 1.
_TONE, _NOISE = 0.3, 0.01


def make_tones(beats: Sequence[bool], pitch: int, overtone: int, seed: int) -> NDArray[np.int16]:
    """The samples of a clip.

    Args:
        beats: whether each beat has a tone.
        pitch: number of the pitch, from 0.
        overtone: number of the overtone, from 0, which is as loud as the tone itself.
        seed: seed of phases and noise.
    """
    rng = np.random.default_rng(seed)
    seconds = np.arange(round(BEAT * RATE)) / RATE
    fades = np.minimum(1, np.minimum(seconds, BEAT - seconds) / (0.1 * BEAT))
    hertz = _LOWEST * _STEP**pitch
    parts = [
        fades * np.sin(2 * np.pi * (factor * hertz * seconds + rng.random()))
        for factor in (1, 2 + 0.5 * overtone)
    ]
    clip = np.concatenate([_TONE * there * sum(parts) for there in beats])
    noisy = clip + _NOISE * rng.standard_normal(len(clip))
    return np.round(32767 * np.clip(noisy, -1, 1)).astype(np.int16)


def write_clip(path: Path, samples: NDArray[np.int16]) -> None:
    """Write samples as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())
