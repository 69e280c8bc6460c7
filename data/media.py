"""Media to encoder inputs: images to patches, waveforms to log-mel frames.

Each has a planner on metadata alone (`grid_of`, `frames_of`) and a reader that must agree with it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from scipy.sparse import csr_array

from data.config import AudioConfig, ImageConfig
from data.modality import Modality
from data.sample import MediaError, Medium

# ---------------------------------------------------------------------------- images


def _fit(size: tuple[int, int], unit: tuple[int, int], most: int) -> tuple[int, int]:
    """Largest (rows, columns) of `unit`-pixel blocks, at most `most`, near the image's aspect.

    Never enlarges beyond rounding up to one block. Example: 300 x 600 pixels, units of 100, most
    8: the natural grid 3 x 6 has 18 blocks, scaled by sqrt(8/18) it is 2 x 4.
    """
    natural = np.array(size) / np.array(unit)
    scale = min(1.0, float(np.sqrt(most / natural.prod())))
    rows, cols = np.maximum(1, np.round(natural * scale)).astype(int).tolist()
    while rows * cols > most:  # rounding up, or a very long image whose short side became 1
        rows, cols = (rows, cols - 1) if cols >= rows else (rows - 1, cols)
    return rows, cols


def _scaled(size: tuple[int, int], height: int) -> tuple[int, int]:
    return height, max(1, round(size[1] * height / size[0]))


def grid_of(size: tuple[int, int], modality: Modality, config: ImageConfig) -> tuple[int, int]:
    """(rows, columns) of the patch grid of an image of `size` (height, width) in pixels.

    Raises:
        MediaError: an empty image, one above `max_pixels`, or (fixed height) above `max_patches`.
    """
    if min(size) < 1:
        raise MediaError(f"image of {size[0]} x {size[1]} pixels is empty")
    if size[0] * size[1] > config.max_pixels:
        raise MediaError(
            f"image of {size[0]} x {size[1]} pixels is above data.image.max_pixels "
            f"{config.max_pixels} (decompression bomb)"
        )
    block = modality.block
    unit = (modality.patch[0] * block[0], modality.patch[1] * block[1])
    if config.height is None:
        rows, cols = _fit(size, unit, max(1, config.max_patches // modality.reduction))
    else:
        high, wide = _scaled(size, config.height)
        rows, cols = -(-high // unit[0]), -(-wide // unit[1])
    grid = rows * block[0], cols * block[1]
    if grid[0] * grid[1] > config.max_patches:
        raise MediaError(
            f"image of {size[0]} x {size[1]} pixels needs {grid[0]} x {grid[1]} patches, above "
            f"data.image.max_patches {config.max_patches}"
        )
    return grid


def _resize(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    if pixels.shape[:2] == size:
        return pixels
    image = PIL.Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    resized = image.resize((size[1], size[0]), PIL.Image.Resampling.BICUBIC)
    return np.asarray(resized).reshape(*size, pixels.shape[2])


@lru_cache(maxsize=4096)
def _grid_positions(grid: tuple[int, int], block: tuple[int, int]) -> NDArray[np.int32]:
    """(row, column) of each patch [n, 2], the patches of one block together."""
    rows, cols = np.indices(grid, np.int32)
    return np.stack([_by_block(rows, block), _by_block(cols, block)], axis=-1)


def _by_block(values: NDArray, block: tuple[int, int]) -> NDArray:
    """[rows, columns, ...] to [rows * columns, ...]: blocks row by row, and so within each.

    Example, block (2, 2): the grid [[0 1 2 3], [4 5 6 7]] is read as 0 1 4 5 2 3 6 7.
    """
    rows, cols, *rest = values.shape
    split = values.reshape(rows // block[0], block[0], cols // block[1], block[1], *rest)
    return split.swapaxes(1, 2).reshape(rows * cols, *rest)


def patches_of(pixels: NDArray[np.uint8], modality: Modality, config: ImageConfig) -> Medium:
    """Cut an image [height, width, channels] into normalised patches, see `ImageConfig`.

    A patch is flattened as (row, column, channel). Padding of the fixed-height form is black.
    """
    height, width, channels = pixels.shape
    grid = grid_of((height, width), modality, config)
    high, wide = grid[0] * modality.patch[0], grid[1] * modality.patch[1]
    inner = (high, wide) if config.height is None else _scaled((height, width), config.height)
    canvas = np.zeros((high, wide, channels), np.float32)
    canvas[: inner[0], : inner[1]] = _resize(pixels, inner)
    mean, std = np.array(config.mean, np.float32), np.array(config.std, np.float32)
    return cut_patches((canvas / np.float32(255) - mean) / std, modality)


def cut_patches(pixels: NDArray[np.float32], modality: Modality) -> Medium:
    """Normalised pixels [height, width, channels] as patches, each (row, column, channel).

    What is left over on the right and below is cut off.
    """
    (ph, pw), channels = modality.patch, pixels.shape[2]
    grid = pixels.shape[0] // ph, pixels.shape[1] // pw
    whole = pixels[: grid[0] * ph, : grid[1] * pw]
    tiles = whole.reshape(grid[0], ph, grid[1], pw * channels).swapaxes(1, 2)
    inputs = _by_block(tiles.reshape(*grid, -1), modality.block)
    return Medium(np.ascontiguousarray(inputs), _grid_positions(grid, modality.block), grid)


def with_class_token(medium: Medium, modality: Modality) -> Medium:
    """The image with its class token, if it has one: a position of zeros, in row and column -1.

    One that is kept comes first, as its output lands first. One that is dropped comes last: so the
    outputs that land are the first ones, and blocks of patches stay whole.
    """
    if modality.class_token == "none":
        return medium
    before, behind = (1, 0) if modality.class_token == "kept" else (0, 1)
    around = ((before, behind), (0, 0))
    inputs = np.pad(medium.inputs, around)
    return Medium(inputs, np.pad(medium.positions, around, constant_values=-1), medium.grid)


# ---------------------------------------------------------------------------- audio


def frames_of(samples: int, rate: int, config: AudioConfig, longest: int | None = None) -> int:
    """Number of log-mel frames of a clip: one per started hop.

    Raises:
        MediaError: no samples, another sample rate than the configured one, or more frames than
            `longest`.
    """
    if samples < 1:
        raise MediaError("clip has zero length")
    if rate != config.sample_rate:
        raise MediaError(
            f"clip has a sample rate of {rate} Hz, data.audio.sample_rate is "
            f"{config.sample_rate} Hz; convert the file"
        )
    frames = -(-samples // config.hop)
    if longest is not None and frames > longest:
        raise MediaError(f"clip of {frames} frames is above the {longest} that have positions")
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
def _bands(rate: int, window: int, mels: int) -> csr_array:
    """`mel_filters` transposed, without its zeros."""
    return csr_array(mel_filters(rate, window, mels).T)


@lru_cache(maxsize=8)
def _hann(window: int) -> NDArray[np.float32]:
    """Periodic Hann window."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)).astype(np.float32)


def log_mel(
    wave: NDArray[np.float32], mels: int, config: AudioConfig, behind: int = 0
) -> NDArray[np.float32]:
    """Log-mel frames [frames + behind, mels] of a waveform [samples], scaled as Whisper's.

    Frame t is centred on sample t * hop; the ends are mirrored. Power spectrum, mel filters,
    log10, at most 8 below the clip's maximum, then (x + 4) / 4 (Radford et al. 2022, section 2.2
    and the released `log_mel_spectrogram`). Behind the clip is silence.
    """
    hop, window = config.hop, config.window
    frames = -(-len(wave) // hop) + behind
    half = window // 2
    whole = max(frames * hop, half + 1)  # whole hops, and enough samples to mirror
    padded = np.zeros(whole + 2 * half, np.float32)
    padded[half : half + len(wave)] = wave
    padded[:half] = padded[2 * half : half : -1]
    padded[half + whole :] = padded[half + whole - 2 : whole - 2 : -1]
    return scaled(log_energies(padded, frames, mels, config.sample_rate, hop, window))


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
    spectrum = np.fft.rfft(padded[at] * _hann(window))
    power = spectrum.real**2 + spectrum.imag**2
    # A band has few of the bins; and BLAS would wake its threads for so small a product.
    energy = (_bands(rate, window, mels) @ power.T).T
    return np.asarray(np.log10(np.maximum(energy, np.float32(1e-10))))


def scaled(log: NDArray[np.float32]) -> NDArray[np.float32]:
    """Energies of a whole clip as Whisper scales them."""
    return (np.maximum(log, log.max() - np.float32(8)) + np.float32(4)) / np.float32(4)


def frames_medium(wave: NDArray[np.float32], modality: Modality, config: AudioConfig) -> Medium:
    """A waveform [samples] as encoder input.

    Raises:
        MediaError: a zero-length clip, one that is too long, or samples that are not finite.
    """
    frames_of(len(wave), config.sample_rate, config, modality.longest)
    check_finite(wave)
    inputs = log_mel(wave, modality.mels, config, modality.lookahead)
    return Medium(inputs, np.arange(len(inputs), dtype=np.int32))


def check_finite(wave: NDArray[np.float32]) -> None:
    """Raise MediaError for samples that are not finite."""
    bad = int(np.count_nonzero(~np.isfinite(wave)))
    if bad:
        raise MediaError(f"clip has {bad} samples that are NaN or infinite")
