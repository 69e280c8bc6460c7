"""Waveforms to encoder inputs: log-mel frames.

`frames_of` plans on metadata alone, and a reader must agree with it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from data.config import AudioConfig
from data.faults import FaultKind
from data.media.audio.row_spec import AudioRowSpec
from data.sample import MediaError, ProcessedMedium

if TYPE_CHECKING:  # which reading a configuration does not need
    from scipy.sparse import csr_array

#: Largest sample whose energy in a window is surely finite in float32; sounds are within 1.
LOUDEST = 1e12


def other_rate(rate: int, target: int, which: str) -> MediaError:
    """The error of a clip at another rate than `which` says, with the command that converts it."""
    return MediaError(
        FaultKind.RATE,
        f"clip has a sample rate of {rate} Hz, {which} {target} Hz; convert the file: "
        f"`ffmpeg -i OLD -ar {target} NEW.wav`, or all as docs/how-to/formats.md says",
    )


def frames_of(samples: int, rate: int, config: AudioConfig, longest: int | None = None) -> int:
    """Number of log-mel frames of a clip: one per started hop.

    Raises:
        MediaError: no samples, another sample rate than the configured one, more samples than
            `config.max_samples`, or more frames than `longest`.
    """
    if samples < 1:
        raise MediaError(FaultKind.DURATION, "the clip has zero length")
    if rate != config.sample_rate:
        raise other_rate(rate, config.sample_rate, "data.audio.sample_rate is")
    if samples > config.max_samples:
        raise MediaError(
            FaultKind.DURATION,
            f"the clip has {samples} samples, above data.audio.max_seconds, "
            f"{config.max_samples} samples",
        )
    frames = -(-samples // config.hop)
    if longest is not None and frames > longest:
        raise MediaError(
            FaultKind.DURATION,
            f"the clip has {frames} frames, but the encoder has positions for {longest}",
        )
    return frames


def _hz_to_mel(hz: NDArray) -> NDArray:
    """Slaney's scale: linear to 1000 Hz, logarithmic above (27 steps to 6400 Hz)."""
    log = 15 + 27 * np.log(np.maximum(hz, 1000) / 1000) / np.log(6.4)
    return np.where(hz < 1000, hz * 3 / 200, log)


def _mel_to_hz(mel: NDArray) -> NDArray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((np.maximum(mel, 15) - 15) / 27))


@lru_cache(maxsize=8)
def mel_filters(rate: int, window: int, mels: int) -> NDArray[np.float32]:
    """Triangular filters [window // 2 + 1, mels] of equal area (Slaney's; as used by Whisper)."""
    bins = np.linspace(0, rate / 2, window // 2 + 1)
    edges = _mel_to_hz(np.linspace(0, _hz_to_mel(np.array(rate / 2)), mels + 2))
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    area = 2 / (edges[2:] - edges[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * area).astype(np.float32)


@lru_cache(maxsize=8)
def _filter_bands(rate: int, window: int, mels: int) -> csr_array:
    """`mel_filters` transposed, without its zeros."""
    from scipy.sparse import csr_array

    return csr_array(mel_filters(rate, window, mels).T)


@lru_cache(maxsize=8)
def _hann_window(window: int) -> NDArray[np.float32]:
    """Periodic Hann window."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)).astype(np.float32)


def log_mel(
    wave: NDArray[np.float32], mels: int, config: AudioConfig, lookahead: int = 0
) -> NDArray[np.float32]:
    """Log-mel frames [frames + lookahead, mels] of a waveform [samples], scaled as Whisper's.

    Frame t is centred on sample t * hop; the ends are mirrored. Power spectrum, mel filters,
    log10, at most 8 below the clip's maximum, then (x + 4) / 4 (Radford et al. 2022, section 2.2
    and the released `log_mel_spectrogram`). After the clip is silence.
    """
    hop, window = config.hop, config.window
    frames = -(-len(wave) // hop) + lookahead
    half = window // 2
    length = max(frames * hop, half + 1)  # whole hops, and enough samples to mirror
    padded = np.zeros(length + 2 * half, np.float32)
    padded[half : half + len(wave)] = wave
    padded[:half] = padded[2 * half : half : -1]
    padded[half + length :] = padded[half + length - 2 : length - 2 : -1]
    return scale_energies(log_energies(padded, frames, mels, config.sample_rate, hop, window))


def log_energies(
    padded: NDArray[np.float32], frames: int, mels: int, rate: int, hop: int, window: int
) -> NDArray[np.float32]:
    """log10 of the energies in mel bands, at least 1e-10: [frames, mels].

    Args:
        padded: samples, from half a window before the first one.
        frames: how many.
        mels: bands.
        rate: samples per second.
        hop: samples from one frame to the next.
        window: samples of a frame.
    """
    at = hop * np.arange(frames)[:, None] + np.arange(window)
    spectrum = np.fft.rfft(padded[at] * _hann_window(window))
    power = spectrum.real**2 + spectrum.imag**2
    # A band has few of the bins; and BLAS would wake its threads for so small a product.
    energy = (_filter_bands(rate, window, mels) @ power.T).T
    return np.asarray(np.log10(np.maximum(energy, np.float32(1e-10))))


def scale_energies(log: NDArray[np.float32]) -> NDArray[np.float32]:
    """Energies of a whole clip as Whisper scales them."""
    return (np.maximum(log, log.max() - np.float32(8)) + np.float32(4)) / np.float32(4)


def frames_medium(
    wave: NDArray[np.float32], spec: AudioRowSpec, config: AudioConfig
) -> ProcessedMedium:
    """A waveform [samples] as encoder input.

    Raises:
        MediaError: a zero-length clip, one that is too long, or samples that are not finite.
    """
    frames_of(len(wave), config.sample_rate, config, spec.longest)
    check_finite(wave)
    inputs = log_mel(wave, spec.mels, config, spec.lookahead)
    return ProcessedMedium(inputs, np.arange(len(inputs), dtype=np.int32)[:, None])


def check_finite(wave: NDArray[np.float32]) -> None:
    """Raise MediaError for samples that are not finite, or whose energies would not be."""
    bad = int(np.count_nonzero(~(np.abs(wave) <= LOUDEST)))
    if bad:
        text = f"clip has {bad} samples that are NaN or infinite, or larger than {LOUDEST:g}"
        raise MediaError(FaultKind.CLIP, text)
