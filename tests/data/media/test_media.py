"""Patches and log-mel frames against direct definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import AudioConfig, DataConfig, ImageConfig
from data.media.audio.frames import LOUDEST, frames_medium, frames_of, log_mel, mel_filters
from data.media.audio.media_type import AudioType
from data.media.audio.row_spec import AudioRowSpec
from data.media.image.patches import grid_of, patches_of
from data.media.image.row_spec import ImageRowSpec
from data.sample import MediaError

SMALL = AudioConfig(sample_rate=1000, hop=10, window=32)


# ---------------------------------------------------------------------------- images


@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from([(1, 1), (2, 2), (1, 3)]),
    st.sampled_from([None, 12]),
    st.sampled_from([1, 3]),
)
def test_patches_have_the_measured_grid(
    height: int, width: int, block: tuple[int, int], fixed: int | None, channels: int
) -> None:
    spec = ImageRowSpec("v", patch=(6, 4), channels=channels, block=block)
    config = ImageConfig(height=fixed, max_patches=600 if fixed is None else 100_000)
    grid = grid_of((height, width), spec, config)
    medium = patches_of(np.zeros((height, width, channels), np.uint8), spec, config)
    assert tuple(medium.more["sizes"]) == grid
    assert medium.inputs.shape == (grid[0] * grid[1], spec.features)
    assert grid[0] % block[0] == grid[1] % block[1] == 0
    assert sorted(map(tuple, medium.positions.tolist())) == list(np.ndindex(grid))
    assert grid[0] * grid[1] <= config.max_patches


def test_patches_of_a_block_are_contiguous_and_hold_their_pixels() -> None:
    spec = ImageRowSpec("v", patch=(2, 3), channels=3, block=(2, 2))
    config = ImageConfig(mean=(0.5, 0.25, 0.0), std=(1.0, 0.5, 2.0))
    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, 3)).astype(np.uint8)
    medium = patches_of(pixels, spec, config)
    assert medium.more["sizes"].tolist() == [4, 4]
    assert medium.positions[:4].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert medium.positions[4:8].tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    for inputs, (row, col) in zip(medium.inputs, medium.positions, strict=True):
        patch = pixels[2 * row : 2 * row + 2, 3 * col : 3 * col + 3] / 255
        expected = (patch - [0.5, 0.25, 0.0]) / [1.0, 0.5, 2.0]
        np.testing.assert_allclose(inputs, expected.reshape(-1), atol=1e-6)


def test_a_large_image_is_scaled_into_the_patch_budget_with_its_aspect() -> None:
    spec = ImageRowSpec("v", patch=(10, 10))
    grid = grid_of((1000, 4000), spec, ImageConfig(max_patches=100))
    assert grid == (5, 20)
    assert grid_of((30, 60), spec, ImageConfig(max_patches=100)) == (3, 6)
    assert grid_of((1, 5000), spec, ImageConfig(max_patches=100)) == (1, 100)


def test_fixed_height_scales_and_pads_with_black() -> None:
    spec = ImageRowSpec("v", patch=(16, 8), channels=1)
    config = ImageConfig(height=16, mean=(0.0,), std=(1.0,))
    medium = patches_of(np.full((32, 20, 1), 255, np.uint8), spec, config)
    assert medium.more["sizes"].tolist() == [1, 2]
    assert medium.inputs[0].min() == 1  # 20 pixels at half scale are 10 columns
    np.testing.assert_array_equal(medium.inputs[1].reshape(16, 8)[:, 2:], 0)


@pytest.mark.parametrize(
    ("size", "config", "message"),
    [
        ((0, 5), ImageConfig(), "is empty"),
        ((2000, 2000), ImageConfig(max_pixels=10**6), "decompression bomb"),
        ((16, 9000), ImageConfig(height=16, max_patches=100), "above data.image.max_patches 100"),
    ],
)
def test_impossible_images_are_refused(
    size: tuple[int, int], config: ImageConfig, message: str
) -> None:
    with pytest.raises(MediaError, match=message):
        grid_of(size, ImageRowSpec("v"), config)


# ---------------------------------------------------------------------------- audio


def direct_log_mel(wave: np.ndarray, mels: int, config: AudioConfig) -> np.ndarray:
    """The definition, one frame and one frequency at a time, in double precision."""
    hop, window = config.hop, config.window
    frames = -(-len(wave) // hop)
    signal = np.concatenate([wave, np.zeros(max(frames * hop, window // 2 + 1) - len(wave))])
    last = len(signal) - 1
    energies = np.zeros((frames, mels))
    filters = mel_filters(config.sample_rate, window, mels)
    for t in range(frames):
        at = np.abs(np.arange(window) + t * hop - window // 2)
        at = last - np.abs(last - at)  # mirrored at both ends
        taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
        for k in range(window // 2 + 1):
            wheel = np.exp(-2j * np.pi * k * np.arange(window) / window)
            energies[t] += abs(np.sum(signal[at] * taper * wheel)) ** 2 * filters[k]
    log = np.log10(np.maximum(energies, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


@pytest.mark.parametrize("samples", [1, 9, 10, 11, 16, 17, 133])
def test_log_mel_equals_its_definition(samples: int) -> None:
    wave = np.random.default_rng(samples).normal(0, 0.3, samples).astype(np.float32)
    wave[60:] *= 1e-6  # so quiet that the floor below the clip's maximum decides
    actual = log_mel(wave, 6, SMALL)
    assert actual.dtype == np.float32
    assert len(actual) == frames_of(samples, 1000, SMALL)
    np.testing.assert_allclose(actual, direct_log_mel(wave, 6, SMALL), atol=2e-5)


def test_mel_filters_are_triangles_of_equal_area_on_the_slaney_scale() -> None:
    filters = mel_filters(16000, 1024, 20)
    width = 16000 / 1024
    np.testing.assert_allclose(filters.sum(0) * width, 1, rtol=0.05)
    # Below 1000 Hz the scale is linear: the peaks are equally far apart.
    peaks = filters.argmax(0)[:4] * width
    np.testing.assert_allclose(np.diff(peaks), np.diff(peaks)[0], atol=1.5 * width)


def test_a_tone_appears_in_its_band_and_its_frames() -> None:
    config = AudioConfig(sample_rate=8000, hop=80, window=200)
    wave = np.zeros(8000, np.float32)
    wave[4000:] = np.sin(2 * np.pi * 1000 * np.arange(4000) / 8000)
    mel = log_mel(wave, 40, config)
    centre = mel_filters(8000, 200, 40)[25].argmax()  # bin 25 of 200 at 8 kHz is 1000 Hz
    assert set(mel[60:].argmax(1)) == {centre}
    assert mel[:45].max() < mel[60:, centre].min()


@pytest.mark.parametrize(
    ("wave", "message"),
    [
        (np.zeros(0, np.float32), "zero length"),
        (np.array([0, np.nan, np.inf], np.float32), "2 samples that are NaN or infinite"),
        (np.array([0, 1e20, 1], np.float32), r"1 samples that are .* or larger than 1e\+12"),
    ],
)
def test_impossible_waves_are_refused(wave: np.ndarray, message: str) -> None:
    with pytest.raises(MediaError, match=message):
        frames_medium(wave, AudioRowSpec("a"), SMALL)


def test_the_loudest_clip_has_finite_frames() -> None:
    wave = np.full(400, LOUDEST, np.float32)
    assert np.isfinite(frames_medium(wave, AudioRowSpec("a"), SMALL).inputs).all()


def test_clips_above_the_most_seconds_are_refused_whatever_they_come_from() -> None:
    short = AudioConfig(sample_rate=1000, hop=10, window=32, max_seconds=0.05)
    assert frames_of(50, 1000, short) == 5
    with pytest.raises(MediaError, match=r"51 samples, above data.audio.max_seconds, 50 samples"):
        frames_of(51, 1000, short)
    data = DataConfig(budgets={"tokens": 1, "segments": 1}, audio=short)
    noise = AudioType().make_noise(1000, data, np.random.default_rng(0))
    assert noise.clip_info() == (50, 1000)


def test_another_sample_rate_is_refused_and_named() -> None:
    with pytest.raises(MediaError, match=r"44100 Hz, data.audio.sample_rate is 1000 Hz"):
        frames_of(10, 44100, SMALL)
