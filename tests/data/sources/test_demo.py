"""The demo set: real scans, real speech, honest splits, little padding."""

from __future__ import annotations

import builtins
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.config import DataConfig
from data.loading.loader import DataLoader
from data.planning.lengths import measure
from data.planning.suggest import suggest_budgets
from data.processing.processor import Processor
from data.sample import DataError
from data.sources import digits
from data.sources.digits import (
    DigitShapes,
    DigitStrip,
    draw_digits,
    draw_split,
    make_strip,
    split_scans,
)
from data.sources.make import make_source
from data.sources.source import Source
from data.sources.speech import SPEEDS, VOICES, ClipCache, SpokenDigits, is_heldout, make_utterances
from tests.data.samples import AUDIO, BUDGETS, TEXT, VISION, MakeConfig, all_rows


def test_scans_belong_to_one_split() -> None:
    (train, train_labels), (heldout, heldout_labels) = split_scans(False), split_scans(True)
    assert len(train) + len(heldout) == 1797
    assert set(train_labels.tolist()) == set(heldout_labels.tolist()) == set(range(10))
    seen = {scan.tobytes() for scan in train}
    assert not any(scan.tobytes() in seen for scan in heldout)


def test_voices_and_speeds_are_trained_but_never_in_heldout_combinations() -> None:
    train = {(u.voice, u.speed) for u in make_utterances(False, 3000, 8, 0)}
    heldout = {(u.voice, u.speed) for u in make_utterances(True, 3000, 8, 0)}
    assert not train & heldout
    assert len(train | heldout) == len(VOICES) * len(SPEEDS)
    assert {voice for voice, _ in train} == set(VOICES)
    assert {speed for _, speed in train} == set(SPEEDS)
    assert sum(is_heldout(v, s) for v in range(8) for s in range(4)) == 8


def test_a_sample_is_a_function_of_its_index(demo: Source, config: DataConfig) -> None:
    again = make_source(config)
    for index in (17, 0, 41, 8):
        first, second = demo[index, 0], again[index, 0]
        assert (first.name, first.turns) == (second.name, second.turns)
        for image, other in zip(first.of("image"), second.of("image"), strict=True):
            np.testing.assert_array_equal(image.load(1), other.load(1))
        for clip, same in zip(first.of("audio"), second.of("audio"), strict=True):
            np.testing.assert_array_equal(clip.load(), same.load())
    with pytest.raises(IndexError):
        demo[len(demo), 0]


def test_half_of_the_samples_are_images_and_some_show_two(demo: Source) -> None:
    samples = [demo[i, 0] for i in range(len(demo))]
    assert (
        sum(bool(s.of("image")) for s in samples) == sum(bool(s.of("audio")) for s in samples) == 60
    )
    assert {len(s.of("image")) for s in samples} == {0, 1, 2}
    for sample in samples:
        digits = sample.turns[-1].text.replace(",", " ").split()
        drawn = sum(len(i.drawings) for i in sample.of("image") if isinstance(i, DigitStrip))
        assert len(digits) in range(1, 9)
        assert drawn in (0, len(digits))


def test_drawings_are_kept_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, labels = draw_split(False, 2, 5)
    first = DigitShapes(heldout=False, variants=2, seed=5, cache=tmp_path)
    monkeypatch.setattr(digits, "draw_split", None)  # scikit-learn need not be there any more
    again = DigitShapes(heldout=False, variants=2, seed=5, cache=tmp_path)
    for shapes in (first, again):
        np.testing.assert_array_equal(shapes.pixels, drawn)
        chosen = shapes.choose_drawings(labels, np.random.default_rng(0))
        np.testing.assert_array_equal(labels[chosen], labels)
    with pytest.raises(TypeError):  # other drawings are not taken for these
        DigitShapes(heldout=False, variants=2, seed=6, cache=tmp_path)


def test_a_strip_shows_its_digits(tmp_path: Path) -> None:
    shapes = DigitShapes(heldout=True, variants=1, seed=0, cache=tmp_path)
    labels = np.repeat(np.arange(10), np.bincount(split_scans(True)[1]))
    shown = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    strip = make_strip(shapes, shown, np.random.default_rng(0))
    rank = {int(drawing): place for place, drawing in enumerate(shapes._order)}
    assert [labels[rank[d]] for d in strip.drawings] == shown.tolist()
    pixels = strip.load(3)
    assert pixels.shape == (*strip.image_size(), 3)
    for drawing, left in zip(strip.drawings, strip.lefts, strict=True):
        np.testing.assert_array_equal(pixels[:, left : left + 16, 1], shapes.pixels[drawing])


def test_augmentation_moves_ink_but_keeps_it() -> None:
    scans, _ = split_scans(False)
    plain, moved = draw_digits(scans, None), draw_digits(scans, np.random.default_rng(0))
    assert np.abs(plain.astype(int) - moved).mean() > 5
    ink = moved.sum((1, 2)) / plain.sum((1, 2))
    assert 0.5 < ink.min() < ink.max() < 1.7


def test_lengths_vary_tenfold(demo: Source, processor: Processor) -> None:
    lengths = [processor.measure(demo[i, 0]) for i in range(len(demo))]
    for name, least in (("vision", 6), ("audio", 10)):
        values = [n for own in lengths for n in own.counts(name)]
        assert max(values) >= least * min(values)


def test_more_digits_take_longer_to_say_and_are_audible(demo: Source) -> None:
    durations: dict[int, list[int]] = {}
    for index in range(1, len(demo), 2):
        (clip,) = demo[index, 0].of("audio")
        wave = clip.load()
        assert len(wave) == clip.clip_info()[0]
        assert 0.02 < np.sqrt(np.mean(wave**2)) < 0.5
        durations.setdefault(len(demo[index, 0].turns[-1].text.split()), []).append(len(wave))
    means = [np.mean(durations[count]) for count in sorted(durations)]
    assert np.all(np.diff(means) > 0)


def test_the_same_list_sounds_the_same_in_every_cache(tmp_path: Path) -> None:
    utterances = make_utterances(False, 8, 4, 0)
    first, second = (ClipCache(utterances, 8000, tmp_path / name) for name in ("a", "b"))
    for index in range(len(utterances)):
        np.testing.assert_array_equal(first.clip_wave(index), second.clip_wave(index))


def test_an_unknown_voice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"espeak_SetVoiceByName\('xx'\) failed with code"):
        ClipCache([SpokenDigits("1", "xx", 200, 50)], 8000, tmp_path)
    assert not list(tmp_path.iterdir())


def test_clips_are_synthesised_once_and_mapped_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    utterances = make_utterances(False, 6, 3, 0)
    first = ClipCache(utterances, 8000, tmp_path)
    assert [p.name.count("speech-") for p in tmp_path.iterdir()] == [1]
    monkeypatch.setattr("data.sources.speech._in_child", None)
    second = ClipCache(utterances, 8000, tmp_path)
    for index in range(len(utterances)):
        np.testing.assert_array_equal(first.clip_wave(index), second.clip_wave(index))


def test_an_interrupted_synthesis_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("data.sources.speech._in_child", full)
    with pytest.raises(DataError, match=r"data.cache: cannot write .*No space left"):
        ClipCache(make_utterances(False, 2, 2, 0), 8000, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["espeakng_loader", "sklearn"])
def test_a_missing_wheel_names_the_extra(
    missing: str, monkeypatch: pytest.MonkeyPatch, make_config: MakeConfig, tmp_path: Path
) -> None:
    real = builtins.__import__

    def refuse(name: str, *others: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=r"pip install mllm_jax\[demo\]"):
        make_source(make_config(cache=tmp_path))


def test_the_set_travels_by_its_arguments(demo: Source) -> None:
    message = pickle.dumps(demo)
    assert len(message) < 10_000
    assert pickle.loads(message)[5, 0].turns == demo[5, 0].turns
    assert not multiprocessing.active_children()


def test_padding_of_the_recommended_budgets_is_below_ten_percent(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = {"kind": "demo", "train": 4000, "clips": 200, "variants": 1}
    config = make_config(source=source, rows=8, lookahead=384)
    microbatches = 36  # of the first epoch, whose last step has what is left
    used: dict[str, int] = {}
    with DataLoader(make_source(config), processor, config, seed=0, rows=all_rows(8)) as loader:
        for microbatch in (next(loader) for _ in range(microbatches)):
            for name, count in microbatch.stats.used.items():
                used[name] = used.get(name, 0) + count
            assert 80 < microbatch.stats.samples < 120
    for name, count in used.items():
        assert 1 - count / (microbatches * 8 * BUDGETS[name]) < 0.08, name


def test_suggested_budgets_run_out_together(demo: Source, processor: Processor) -> None:
    budgets = suggest_budgets(
        measure(demo, processor), (TEXT, VISION, AUDIO), rows=8, samples_per_step=96
    )
    assert set(budgets) == set(BUDGETS)
    assert budgets["tokens"] % 8 == budgets["vision"] % 8 == budgets["audio"] % 64 == 0
    lengths = [processor.measure(demo[i, 0]) for i in range(len(demo))]
    means = {
        "tokens": np.mean([n.total("decoder") for n in lengths]),
        "vision": np.mean([sum(n.counts("vision")) for n in lengths]),
        "audio": np.mean([sum(n.counts("audio")) for n in lengths]),
    }
    samples = [8 * budgets[name] / mean for name, mean in means.items()]
    assert max(samples) < 1.1 * min(samples)
    assert 80 < min(samples) < 120
