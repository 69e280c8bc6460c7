from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.media.audio.frames import log_energies
from data.media.audio.row_spec import AudioRowSpec
from data.sample import DataError, MediaError
from mllm_jax.families.whisper import processor
from mllm_jax.families.whisper.processor import AudioSettings, ReleasedAudio, log_mel
from tests.data.hf_format.stored import ROOT, arrays, read_folder, wave

EAR = AudioRowSpec("audio", mels=16, stride=4, pool=2, lookahead=2)
SHORT = AudioSettings(feature_size=16, chunk_length=1)


def close(result: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-4)


def statistics(values: NDArray[np.float32]) -> list[float]:
    wide = values.astype(np.float64)
    return [wide.min(), wide.mean(), wide.std(), wide.max()]


# ---- as released ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("name", ["blip", "odd"])
def test_frames_in_a_window_of_30_seconds_are_as_released(mels: int, name: str) -> None:
    stored, settings = arrays("whisper", "processed.npz"), AudioSettings(feature_size=mels)
    expected = stored[f"mels_{mels}.{name}.frames"].T
    close(log_mel(wave(name), settings, lookahead=8), expected)
    close(log_mel(wave(name), settings), expected[:-8])
    frames = log_mel(wave(name), settings, lookahead=3000 - len(expected) + 8)
    assert len(frames) == 3000
    close(
        np.array(statistics(frames[len(expected) :]), np.float32),
        stored[f"mels_{mels}.{name}.rest"],
    )


@pytest.mark.parametrize("mels", [80, 128])
def test_a_clip_as_long_as_the_window_is_as_released(mels: int) -> None:
    stored, settings = arrays("whisper", "processed.npz"), AudioSettings(feature_size=mels)
    frames = log_mel(np.tile(wave("long"), 90)[: settings.window_samples], settings)
    assert frames.shape == (3000, mels)
    close(frames[-4:].T, stored[f"mels_{mels}.tiled.last"])
    close(np.array(statistics(frames), np.float32), stored[f"mels_{mels}.tiled.all"])


def test_windows_of_another_length_are_as_released() -> None:
    for name, expected in zip(
        ("odd", "long"), arrays("whisper", "inputs.npz")["input_features"], strict=True
    ):
        frames = log_mel(wave(name), SHORT)
        close(frames, expected.T[: len(frames)])


def test_qwen2_audio_is_as_released() -> None:
    settings = read_folder(ROOT / "qwen2_audio").media["audio"].recipe
    reader, stored = ReleasedAudio(settings, EAR), arrays("qwen2_audio", "inputs.npz")
    features, masks = stored["two.input_features"], stored["two.feature_attention_mask"]
    for name, expected, mask in zip(("long", "even", "blip"), features, masks, strict=True):
        medium, frames = reader.read(wave(name)), int(mask.sum())
        close(medium.inputs, expected.T[: frames + 2])
        assert len(medium.inputs) == frames + 2
        assert medium.positions[:, 0].tolist() == list(range(frames + 2))
    outputs = [EAR.outputs(int(mask.sum()) + 2) for mask in masks]
    assert sum(outputs) == np.count_nonzero(stored["two.input_ids"] == 283)


# ---- properties ----------------------------------------------------------------------------------


@given(
    st.one_of(st.integers(1, 16_000), st.just(16_000)),
    st.integers(0, 4),
    st.integers(0, 9),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([160, 320, 500]),
)
@settings(deadline=None, max_examples=50)
def test_frames_do_not_depend_on_how_many_are_made(
    samples: int, after: int, seed: int, loud: float, hop: int
) -> None:
    """The frames of the whole window are those of the released processor."""
    clip = np.random.default_rng(seed).normal(0, loud, samples).astype(np.float32)
    padded = np.pad(clip, (0, 16_000 - samples))
    short_settings = SHORT.model_copy(update={"hop_length": hop})
    complete = np.pad(log_mel(padded, short_settings), ((0, 4), (0, 0)))
    result = log_mel(clip, short_settings, after)
    assert len(result) == -(-samples // hop) + after
    close(result, complete[: len(result)])


@given(st.integers(0, 17_000))
@settings(deadline=None, max_examples=50)
def test_measured_is_read(samples: int) -> None:
    reader, clip = ReleasedAudio(SHORT, EAR), np.zeros(samples, np.float32)
    try:
        length = reader.measure(samples, 16_000)
    except MediaError as error:
        assert samples < 321 or samples > 16_000
        with pytest.raises(MediaError, match=str(error)):
            reader.read(clip)
        return
    assert len(reader.read(clip).inputs) == length
    assert EAR.outputs(length) > 0


def test_a_short_clip_is_no_work_of_30_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []

    def counted(padded: NDArray[np.float32], frames: int, *others: int) -> NDArray[np.float32]:
        results.append(frames)
        return log_energies(padded, frames, *others)

    monkeypatch.setattr(processor, "log_energies", counted)
    log_mel(np.ones(16_000, np.float32), AudioSettings())
    assert results == [102]


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "rate", "reason"),
    [
        (0, 16_000, "clip has zero length"),
        (999, 8000, "rate of 8000 Hz, that of data.processor is 16000 Hz; convert the file"),
        (
            16_001,
            16_000,
            "clip of 1.00 s is longer than the 1 s of data.processor, which would cut",
        ),
        (320, 16_000, "clip of 2 frames is too short"),
    ],
)
def test_bad_clips(samples: int, rate: int, reason: str) -> None:
    with pytest.raises(MediaError, match=reason):
        ReleasedAudio(SHORT, EAR).measure(samples, rate)


def test_clips_must_have_positions() -> None:
    ear = AudioRowSpec("audio", mels=16, longest=50)
    with pytest.raises(
        MediaError, match="the clip has 51 frames, but the encoder has positions for 50"
    ):
        ReleasedAudio(SHORT, ear).measure(8001, 16_000)


def test_clips_must_be_finite() -> None:
    clip = wave("odd").copy()
    clip[[3, 9]] = np.nan, np.inf
    with pytest.raises(MediaError, match="2 samples that are NaN or infinite"):
        ReleasedAudio(SHORT, EAR).read(clip)


def test_a_processor_of_another_encoder_is_refused() -> None:
    with pytest.raises(DataError, match="feature_size 80, but the encoder 'audio' has mels 16"):
        ReleasedAudio(AudioSettings(), EAR)
