"""Clips as a kind of media."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.media.audio.files import EncodedAudio
from data.media.audio.modality import Audio, AudioModality
from data.media.audio.reader import ConfiguredClips
from data.media.blob import Blob
from data.media.kind import Measured, MediumKind
from data.media.preview import Look, Sound, levels
from data.sample import Medium


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


class AudioKind(MediumKind):
    """See `MediumKind`; a reader has `measure(samples, rate)` and `read(wave)`."""

    name = "audio"
    endings = ("wav", "flac", "mp3", "ogg", "opus", "aiff")
    heads = (b"RIFF", b"RIFX", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"FORM", b"caff", b".snd")

    @property
    def parts(self) -> tuple[str, ...]:
        """See `MediumKind.parts`; `input_audio` holds base64."""
        return (*super().parts, "input_audio")

    def open(self, blob: Blob, config: DataConfig) -> Audio:
        """The clip in a file of a format of libsndfile."""
        return EncodedAudio(blob, config.audio.max_samples)

    def reader(self, config: DataConfig, modality: AudioModality) -> ConfiguredClips:
        """The reader that `data.audio` configures."""
        return ConfiguredClips(config.audio, modality)

    def measure(self, reader: Any, medium: Audio, alone: bool) -> Measured:
        """Frames, of which there is no grid."""
        found = reader.measure(*medium.info())
        medium.checked()
        return found, None

    def read(self, reader: Any, modality: AudioModality, medium: Audio, alone: bool) -> Medium:
        """Frames of a clip; one at another rate, or too long, is refused before it is decoded."""
        reader.measure(*medium.info())
        found: Medium = reader.read(medium.load())
        return found

    def look(self, reader: Any, modality: Any, medium: Audio, taken: Medium) -> Look:
        """The log-mel frames of a clip, low bands below, and the clip to listen to."""
        samples, rate = medium.info()
        frames = len(taken.inputs) - modality.behind
        behind = f", and {modality.behind} behind the clip" * bool(modality.behind)
        told = f"{modality.mels} mel bands over {frames} frames{behind}"
        sound = Sound(medium.load(), rate)
        size = f"{samples / rate:.2f} s at {rate} Hz"
        return Look(size, ((levels(taken.inputs.T[::-1], told),),), sound=sound)

    def noise(self, positions: float, config: DataConfig, rng: np.random.Generator) -> NoiseClip:
        """About so many frames, at most those of `data.audio.max_seconds`."""
        audio = config.audio
        samples = max(1, min(max(1, round(positions)) * audio.hop, audio.max_samples))
        return NoiseClip(samples, audio.sample_rate, int(rng.integers(2**31)))
