"""Clips as a kind of media."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.media.audio.files import EncodedAudio
from data.media.audio.reader import ConfiguredClips
from data.media.audio.row_spec import AudioRowSpec, LazyAudio
from data.media.file_bytes import FileBytes
from data.media.media_type import MediaType
from data.media.preview import MediaPreview, PreviewSound, draw_levels
from data.media.processor import MediaProcessor
from data.sample import MediumLengths, ProcessedMedium


@dataclass(frozen=True)
class NoiseClip(LazyAudio):
    """Noise of `samples` samples at `rate` Hz."""

    samples: int
    rate: int
    seed: int

    def clip_info(self) -> tuple[int, int]:
        """(samples, rate in Hz)."""
        return self.samples, self.rate

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        noise = np.random.default_rng(self.seed).standard_normal(self.samples, np.float32)
        return np.clip(noise / 8, -1, 1)


class ClipProcessor(MediaProcessor):
    """Clips as log-mel frames.

    Args:
        spec: row spec of the encoder.
        reader: has `measure(samples, rate)` and `read(wave)`.
    """

    def __init__(self, spec: AudioRowSpec, reader: Any) -> None:
        super().__init__(spec)
        self.reader = reader

    def measure(self, medium: LazyAudio, alone: bool) -> MediumLengths:
        """Frames, of which there is no grid."""
        count = self.reader.measure(*medium.clip_info())
        medium.checked_info()
        return MediumLengths(count)

    def process(self, medium: LazyAudio, alone: bool) -> ProcessedMedium:
        """Frames of a clip; one at another rate, or too long, is refused before it is decoded."""
        self.reader.measure(*medium.clip_info())
        processed: ProcessedMedium = self.reader.read(medium.load())
        return processed

    def preview_medium(self, medium: LazyAudio, processed: ProcessedMedium) -> MediaPreview:
        """The log-mel frames of a clip, low bands below, and the clip to listen to."""
        samples, rate = medium.clip_info()
        frames = len(processed.inputs) - self.spec.trailing
        after = f", and {self.spec.trailing} after the clip" * bool(self.spec.trailing)
        caption = f"{self.spec.mels} mel bands over {frames} frames{after}"
        sound = PreviewSound(medium.load(), rate)
        size = f"{samples / rate:.2f} s at {rate} Hz"
        return MediaPreview(size, ((draw_levels(processed.inputs.T[::-1], caption),),), sound=sound)


class AudioType(MediaType):
    """See `MediaType`."""

    name = "audio"
    endings = ("wav", "flac", "mp3", "ogg", "opus", "aiff")
    heads = (b"RIFF", b"RIFX", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"FORM", b"caff", b".snd")

    @property
    def part_types(self) -> tuple[str, ...]:
        """See `MediaType.part_types`; `input_audio` holds base64."""
        return (*super().part_types, "input_audio")

    def open(self, content: FileBytes, config: DataConfig) -> LazyAudio:
        """The clip in a file of a format of libsndfile."""
        return EncodedAudio(content, config.audio.max_samples)

    def make_processor(
        self, config: DataConfig, spec: AudioRowSpec, released: Any = None
    ) -> ClipProcessor:
        """The processor that `data.audio` configures."""
        return ClipProcessor(spec, released or ConfiguredClips(config.audio, spec))

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseClip:
        """About so many frames, at most those of `data.audio.max_seconds`."""
        audio = config.audio
        samples = max(1, min(max(1, round(positions)) * audio.hop, audio.max_samples))
        return NoiseClip(samples, audio.sample_rate, int(rng.integers(2**31)))
