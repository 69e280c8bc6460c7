"""Samples as long as real ones and of no meaning: for throughput without data.

Lengths come from `data.sources.distributions`, times `scale`; contents are noise that the sample's
number decides. With `data.tokenizer: bytes` a sample has about as many tokens as its length says,
else fewer or more.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig, SyntheticSource
from data.sample import Audio, DataError, Image, Sample, Turn
from data.sources.distributions import REDUCTION, draw
from data.sources.source import Split

#: What the media of a distribution are.
_IMAGES, _CLIPS = "vision", "audio"
_LETTERS = np.frombuffer(b"etaoinshrdlu", np.uint8)


@dataclass(frozen=True)
class NoiseImage(Image):
    """Grey noise of `sides` (height, width) in pixels."""

    sides: tuple[int, int]
    seed: int

    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.sides

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels]."""
        noise = np.random.default_rng(self.seed).integers(0, 256, self.sides, np.uint8)
        return np.repeat(noise[:, :, None], channels, axis=2)


@dataclass(frozen=True)
class NoiseClip(Audio):
    """Noise of `samples` samples at `rate` Hz."""

    samples: int
    rate: int
    seed: int

    def info(self) -> tuple[int, int]:
        """(samples, rate in Hz)."""
        return self.samples, self.rate

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        noise = np.random.default_rng(self.seed).standard_normal(self.samples, np.float32)
        return np.clip(noise / 8, -1, 1)


class SyntheticSet:
    """One split; see the module.

    Raises:
        DataError: the distribution is unknown, or has media that are neither vision nor audio.
    """

    def __init__(self, config: DataConfig, split: Split) -> None:
        if not isinstance(config.source, SyntheticSource):
            raise DataError(f"data.source is of kind {config.source.kind}, not synthetic")
        self._arguments, self._config = (config, split), config
        self._options, self._split = config.source, split
        seed = 2 * self._options.seed + (split == "heldout")
        self._lengths = draw(self._options.distribution, self._options.samples, seed)
        for name in sorted({name for n in self._lengths for name in n.media}):
            if name not in (_IMAGES, _CLIPS):
                raise DataError(
                    f"data.source.distribution {self._options.distribution}: {name!r} are no media "
                    f"that can be made; valid: {_IMAGES}, {_CLIPS}"
                )

    def __reduce__(self) -> tuple[type[SyntheticSet], tuple[DataConfig, Split]]:
        # A worker process draws its own: nothing large travels.
        return SyntheticSet, self._arguments

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def fingerprint(self) -> str:
        """Of the lengths."""
        drawn = repr((self._lengths, self._options.scale, self._options.patch))
        return hashlib.sha256(drawn.encode()).hexdigest()

    @property
    def home(self) -> Path:
        """The folder of what is made."""
        return self._config.cache

    def name(self, index: int) -> str:
        """`synthetic/train/17`."""
        return f"synthetic/{self._split}/{index}"

    def __getitem__(self, index: int) -> Sample:
        lengths, scale = self._lengths[index], self._options.scale
        rng = np.random.default_rng((self._options.seed, index))
        images = [self._image(n * scale, rng) for n in lengths.media.get(_IMAGES, ())]
        clips = [self._clip(n * scale, rng) for n in lengths.media.get(_CLIPS, ())]
        landed = sum(math.ceil(n / REDUCTION[k]) for k, own in lengths.media.items() for n in own)
        half = (lengths.tokens - landed) * scale / 2
        marks = [self._config.image.placeholder] * len(images)
        marks += [self._config.audio.placeholder] * len(clips)
        question = " ".join([*marks, _letters(half, rng)])
        turns = (Turn("user", question), Turn("assistant", _letters(half, rng)))
        return Sample(self.name(index), turns, tuple(images), tuple(clips))

    def _image(self, patches: float, rng: np.random.Generator) -> NoiseImage:
        """About so many patches, no side more than twice the other."""
        side, aspect = self._options.patch, rng.uniform(0.5, 2.0)
        rows = max(1, round(math.sqrt(patches * aspect)))
        columns = max(1, round(patches / rows))
        return NoiseImage((rows * side, columns * side), int(rng.integers(2**31)))

    def _clip(self, frames: float, rng: np.random.Generator) -> NoiseClip:
        audio = self._config.audio
        samples = max(1, round(frames)) * audio.hop
        return NoiseClip(samples, audio.sample_rate, int(rng.integers(2**31)))


def _letters(length: float, rng: np.random.Generator) -> str:
    """A word of so many letters, at least one."""
    return rng.choice(_LETTERS, max(1, round(length))).tobytes().decode()
