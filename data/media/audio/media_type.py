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


class AudioType(MediaType):
    """See `MediaType`; a reader has `measure(samples, rate)` and `read(wave)`."""

    name = "audio"
    endings = ("wav", "flac", "mp3", "ogg", "opus", "aiff")
    heads = (b"RIFF", b"RIFX", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"FORM", b"caff", b".snd")

    @property
    def part_types(self) -> tuple[str, ...]:
        """See `MediaType.part_types`; `input_audio` holds base64."""
        return (*super().part_types, "input_audio")

    def open(self, blob: FileBytes, config: DataConfig) -> LazyAudio:
        """The clip in a file of a format of libsndfile."""
        return EncodedAudio(blob, config.audio.max_samples)

    def make_reader(self, config: DataConfig, spec: AudioRowSpec) -> ConfiguredClips:
        """The reader that `data.audio` configures."""
        return ConfiguredClips(config.audio, spec)

    def measure(self, reader: Any, medium: LazyAudio, alone: bool) -> MediumLengths:
        """Frames, of which there is no grid."""
        count = reader.measure(*medium.clip_info())
        medium.checked_info()
        return MediumLengths(count)

    def read(
        self, reader: Any, spec: AudioRowSpec, medium: LazyAudio, alone: bool
    ) -> ProcessedMedium:
        """Frames of a clip; one at another rate, or too long, is refused before it is decoded."""
        reader.measure(*medium.clip_info())
        processed: ProcessedMedium = reader.read(medium.load())
        return processed

    def preview_medium(
        self, reader: Any, spec: Any, medium: LazyAudio, processed: ProcessedMedium
    ) -> MediaPreview:
        """The log-mel frames of a clip, low bands below, and the clip to listen to."""
        samples, rate = medium.clip_info()
        frames = len(processed.inputs) - spec.behind
        after = f", and {spec.behind} behind the clip" * bool(spec.behind)
        caption = f"{spec.mels} mel bands over {frames} frames{after}"
        sound = PreviewSound(medium.load(), rate)
        size = f"{samples / rate:.2f} s at {rate} Hz"
        return MediaPreview(size, ((draw_levels(processed.inputs.T[::-1], caption),),), sound=sound)

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseClip:
        """About so many frames, at most those of `data.audio.max_seconds`."""
        audio = config.audio
        samples = max(1, min(max(1, round(positions)) * audio.hop, audio.max_samples))
        return NoiseClip(samples, audio.sample_rate, int(rng.integers(2**31)))
