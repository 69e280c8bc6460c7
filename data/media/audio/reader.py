"""Clips to encoder inputs by `data.audio`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.config import AudioConfig
from data.media.audio.frames import frames_medium, frames_of
from data.media.audio.modality import AudioModality
from data.sample import Medium


@dataclass(frozen=True)
class ConfiguredClips:
    """Clips by `data.audio`."""

    config: AudioConfig
    modality: AudioModality

    def measure(self, samples: int, rate: int) -> int:
        """Frames of a clip, and those behind it."""
        frames = frames_of(samples, rate, self.config, self.modality.longest)
        return frames + self.modality.lookahead

    def read(self, wave: NDArray[np.float32]) -> Medium:
        """Log-mel frames of a clip."""
        return frames_medium(wave, self.modality, self.config)
