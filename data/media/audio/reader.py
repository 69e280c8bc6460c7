"""Clips to encoder inputs by `data.audio`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.config import AudioConfig
from data.media.audio.frames import frames_medium, frames_of
from data.media.audio.row_spec import AudioRowSpec
from data.sample import ProcessedMedium


@dataclass(frozen=True)
class ConfiguredClips:
    """Clips by `data.audio`."""

    config: AudioConfig
    spec: AudioRowSpec

    def measure(self, samples: int, rate: int) -> int:
        """Frames of a clip, and those after it."""
        frames = frames_of(samples, rate, self.config, self.spec.longest)
        return frames + self.spec.lookahead

    def read(self, wave: NDArray[np.float32]) -> ProcessedMedium:
        """Log-mel frames of a clip."""
        return frames_medium(wave, self.spec, self.config)
