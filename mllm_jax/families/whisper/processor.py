"""Whisper's processor: log-mel frames of clips.

The released processor pads a clip with silence to its window of 30 s. Here only the clip's frames
are made, and the frames after them that convolutions read: this costs only the clip's own work, and
gives the same result, as all later frames are silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from data.config import DataConfig
from data.faults import FaultKind
from data.hf_format.media import MediaSettings, SettingsSource, check_idle
from data.media.audio.frames import check_finite, log_energies, other_rate, scale_energies
from data.media.audio.row_spec import AudioRowSpec
from data.rows.spec import Kind
from data.sample import DataError, MediaError, ProcessedMedium
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig


def make_row_spec(
    name: str, encoder: WhisperConfig, connector: ConnectorConfig, decoder: DecoderConfig
) -> AudioRowSpec:
    """The description of an encoder's clips."""
    del decoder
    return AudioRowSpec(
        name,
        mels=encoder.mels,
        stride=encoder.reduction(connector),
        pool=connector.joined if connector.kind == "average" else 1,
        lookahead=encoder.lookahead,
        longest=encoder.longest,
    )


class AudioSettings(MediaSettings):
    """Settings of `WhisperFeatureExtractor`: log-mel frames in a window of fixed length.

    Attributes:
        feature_size: mel bands.
        hop_length: samples from one frame to the next.
        n_fft: samples of a frame's window.
        chunk_length: seconds of the window that clips are padded to.
    """

    kind: ClassVar[Kind] = "audio"

    feature_size: PositiveInt = 80
    sampling_rate: Literal[16000] = 16000
    hop_length: PositiveInt = 160
    n_fft: Annotated[int, Field(ge=2, multiple_of=2)] = 400
    chunk_length: PositiveInt = 30
    padding_value: Literal[0] = 0
    padding_side: Literal["right"] = "right"
    dither: Literal[0] = 0

    @property
    def window_samples(self) -> int:
        """Number of samples of the window."""
        return self.chunk_length * self.sampling_rate

    def read(self, source: SettingsSource) -> AudioSettings:
        """The settings. Raises DataError: the window is no whole number of frames."""
        if self.window_samples % self.hop_length:
            raise DataError(
                f"data.processor: {source.folder}: hop_length {self.hop_length} does not divide "
                f"the {self.window_samples} samples of chunk_length {self.chunk_length}"
            )
        return self

    @classmethod
    def make_reader(
        cls, recipes: Mapping[Kind, Any], config: DataConfig, spec: AudioRowSpec
    ) -> ReleasedAudio:
        """Clips for one encoder. Raises DataError."""
        check_idle(config, "audio", ("sample_rate", "hop", "window"))
        return ReleasedAudio(recipes["audio"], spec)


def log_mel(
    wave: NDArray[np.float32], settings: AudioSettings, lookahead: int = 0
) -> NDArray[np.float32]:
    """Log-mel frames [frames + lookahead, mels] of a waveform [samples] no longer than the window.

    Frame t is centred on sample t * hop of the window, whose ends are mirrored. Frames after the
    window are 0, as what convolutions read there.
    """
    hop, window, length = settings.hop_length, settings.n_fft, settings.window_samples
    half, frames = window // 2, -(-len(wave) // hop)
    heard = -(-(len(wave) + half) // hop)  # frames that the clip is in, and so its loudest
    count = min(length // hop, max(frames + lookahead, heard))
    read = max((count - 1) * hop + window, window + 1, half + len(wave))
    padded = np.zeros(read, np.float32)
    padded[half : half + len(wave)] = wave
    padded[:half] = padded[2 * half : half : -1]
    end = half + length
    over = len(padded) - end
    if over > 0:
        padded[end:] = padded[end - 1 - over : end - 1][::-1]
    mels, rate = settings.feature_size, settings.sampling_rate
    energies = log_energies(padded, count, mels, rate, hop, window)
    values = scale_energies(energies)[: frames + lookahead]
    return np.pad(values, ((0, frames + lookahead - len(values)), (0, 0)))


@dataclass(frozen=True)
class ReleasedAudio:
    """Clips of one encoder as their released processor makes them.

    Attributes:
        settings: settings of the processor.
        spec: row spec of the encoder.

    Raises:
        DataError: the processor's frames do not fit the encoder.
    """

    settings: AudioSettings
    spec: AudioRowSpec

    def __post_init__(self) -> None:
        """Refuse what does not fit."""
        if self.settings.feature_size != self.spec.mels:
            raise DataError(
                f"data.processor has feature_size {self.settings.feature_size}, but the encoder "
                f"{self.spec.name!r} has mels {self.spec.mels}"
            )

    def measure(self, samples: int, rate: int) -> int:
        """Input positions of a clip: a frame for each started hop, and those after it.

        Raises:
            MediaError: the clip cannot be used.
        """
        settings, spec = self.settings, self.spec
        if samples < 1:
            raise MediaError(FaultKind.DURATION, "the clip has zero length")
        if rate != settings.sampling_rate:
            raise other_rate(rate, settings.sampling_rate, "that of data.processor is")
        if samples > settings.window_samples:
            raise MediaError(
                FaultKind.DURATION,
                f"clip of {samples / rate:.2f} s is longer than the {settings.chunk_length} s of "
                "data.processor, which would cut it; cut the file",
            )
        frames = -(-samples // settings.hop_length)
        if spec.longest is not None and frames > spec.longest:
            raise MediaError(
                FaultKind.DURATION,
                f"the clip has {frames} frames, but the encoder has positions for {spec.longest}",
            )
        if not spec.outputs(frames + spec.lookahead):
            raise MediaError(
                FaultKind.DURATION, f"clip of {frames} frames is too short: it would have no output"
            )
        return frames + spec.lookahead

    def read(self, wave: NDArray[np.float32]) -> ProcessedMedium:
        """A waveform [samples] as encoder input.

        Raises:
            MediaError: the clip cannot be used.
        """
        self.measure(len(wave), self.settings.sampling_rate)
        check_finite(wave)
        inputs = log_mel(wave, self.settings, self.spec.lookahead)
        return ProcessedMedium(inputs, np.arange(len(inputs), dtype=np.int32)[:, None])
