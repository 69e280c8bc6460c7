"""Clips as an encoder takes them: log-mel frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from data.rows.spec import ArraySpec, Kind, MediaRowSpec
from data.sample import ProcessedMedium


class LazyAudio(ABC):
    """A clip whose samples are read only when needed."""

    @abstractmethod
    def clip_info(self) -> tuple[int, int]:
        """(samples, sample rate in Hz), from metadata alone. Raises MediaError."""

    def checked_info(self) -> tuple[int, int]:
        """`clip_info`, after a look at the samples where their format can hold NaN or infinity.

        Raises:
            MediaError: the clip cannot be used.
        """
        return self.clip_info()

    @abstractmethod
    def load(self) -> NDArray[np.float32]:
        """Mono waveform [samples] in [-1, 1]. Raises MediaError."""


@dataclass(frozen=True)
class AudioRowSpec(MediaRowSpec):
    """Clips for one encoder.

    Attributes:
        mels: number of mel bands.
        stride: frames that convolutions and stacking merge into one output.
        pool: number of positions after the convolutions that an output averages; a last group that
            is not complete has no output. With 1 the last output of a medium may cover fewer
            frames.
        lookahead: frames after a clip that convolutions read, part of its inputs.
        longest: most frames of a clip, limited by the encoder's positions.

    Raises:
        ValueError: a size below 1.
    """

    kind: ClassVar[Kind] = "audio"

    mels: int = 80
    stride: int = 2
    pool: int = 1
    lookahead: int = 0
    longest: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if min(self.mels, self.stride) < 1:
            raise ValueError(f"encoder {self.name!r}: sizes must be at least 1, got {self}")

    @property
    def reduction(self) -> int:
        """Frames of an output."""
        return self.stride

    @property
    def features(self) -> int:
        """Mel bands of a frame."""
        return self.mels

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """`inputs` are log-mel frames; `positions` are their numbers in the clip."""
        inputs = ArraySpec("position", (self.mels,), np.float32)
        return {"inputs": inputs, "positions": ArraySpec("position", (1,))}

    @property
    def averaged(self) -> int:
        """Positions after the convolutions that an output is the mean of."""
        return self.pool

    @property
    def trailing(self) -> int:
        """Frames after a clip."""
        return self.lookahead

    def sketch(self, rng: np.random.Generator, outputs: int) -> ProcessedMedium:
        """A clip with some slack at its end."""
        frames = outputs * self.stride - int(rng.integers(self.stride))
        return ProcessedMedium(
            np.zeros((frames, self.mels), np.float32), np.arange(frames, dtype=np.int32)[:, None]
        )
