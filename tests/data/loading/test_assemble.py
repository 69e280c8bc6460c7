"""The packed batch against the samples it was made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import NEXT_TOKEN, PackedBatch
from data.config import DataConfig
from data.loading.assemble import BatchAssembler, capacity_of
from data.media.audio.row_spec import AudioRowSpec
from data.media.image.row_spec import ImageRowSpec
from data.planning.layout import SamplePlacement
from data.planning.lengths import measure
from data.planning.stream import NO_DEMAND, BatchPlanner, LoaderState
from data.processing.processor import Processor, make_processor
from data.rows.spec import LengthBucket, MediaRowSpec
from data.rows.tokens import media_of
from data.sample import Example
from tests.data.samples import (
    AUDIO,
    BUDGETS,
    TEXT,
    VISION,
    ListSource,
    MakeConfig,
    mixed_source,
    of_example,
    of_tokens,
)

BLOCKY = ImageRowSpec("vision", patch=(8, 8), channels=3, block=(2, 2))
#: Encoders of both kinds: pixel shuffle, class tokens, frames after clips, averages of pairs.
ENCODERS = (
    (VISION, AUDIO),
    (BLOCKY, replace(AUDIO, lookahead=2)),
    (replace(BLOCKY, class_token="dropped"), replace(AUDIO, pool=2)),
    (replace(VISION, class_token="kept"), replace(AUDIO, pool=2, lookahead=2)),
)
#: Narrow images and wide images go through buckets of their own.
LANES = (
    replace(VISION, name="short", bucket=LengthBucket("vision", 0, 9)),
    replace(VISION, name="long", bucket=LengthBucket("vision", 9, None)),
    AUDIO,
)


def first_step(
    source: ListSource, processor: Processor, config: DataConfig
) -> tuple[PackedBatch, tuple[SamplePlacement, ...]]:
    capacity = capacity_of(config, processor)
    lengths = measure(source, processor)
    plan = BatchPlanner(source, lengths, config, capacity, LoaderState(0), NO_DEMAND).plan()
    rows = {module: list(range(config.rows)) for module in processor.specs}
    batch, skipped = BatchAssembler(source, processor, config, rows)(plan.placements, plan.capacity)
    assert not skipped
    return batch, plan.placements


def outputs_of(batch: PackedBatch, spec: MediaRowSpec) -> np.ndarray:
    """All encoder inputs as [rows * T_out, reduction * F]: what one output is made of."""
    inputs = batch.rows[spec.name].inputs
    return inputs.reshape(-1, spec.reduction * spec.features)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), encoders=st.sampled_from([*ENCODERS, LANES]))
def test_every_sample_can_be_read_back_from_the_batch(
    seed: int, encoders: tuple[MediaRowSpec, ...], make_config: MakeConfig
) -> None:
    budgets = BUDGETS | {"short": 36, "long": 72}
    names = ("tokens", "segments", *(spec.name for spec in encoders))
    config = make_config(rows=3, budgets={name: budgets[name] for name in names})
    source = mixed_source(40, seed)
    processor = make_processor(config, [TEXT, *encoders])
    batch, placements = first_step(source, processor, config)
    decoder = batch.text_rows
    for placement in placements:
        example = processor.process(source[placement.index, 0])
        span = np.s_[placement.row, placement.start : placement.start + len(example.tokens)]
        expected = example.tokens, example.targets, example.loss_weight
        for array, values in zip(of_example(decoder), expected, strict=True):
            np.testing.assert_array_equal(array[span], values)
        np.testing.assert_array_equal(decoder.positions[span][:, 0], np.arange(len(example.tokens)))
        assert set(decoder.segment_ids[span].tolist()) == {placement.segment}
        for spec in media_of([*processor.specs.values()]):
            index = decoder.merges[spec.name][span]
            media = of_bucket(example, spec)
            slots = slots_of(media, spec)
            np.testing.assert_array_equal(np.flatnonzero(index >= 0), slots)
            merged = outputs_of(batch, spec)[index[slots]]
            np.testing.assert_array_equal(merged, expected_outputs(media, spec))


def of_bucket(example: Example, spec: MediaRowSpec) -> Example:
    """The example with the media of one bucket alone, by the name of the bucket."""
    bucket = spec.bucket or LengthBucket(spec.name)
    media = example.media.get(bucket.module, ())
    consumed = [i for i, medium in enumerate(media) if bucket.takes(len(medium.inputs))]
    starts = tuple(example.starts[bucket.module][i] for i in consumed)
    return replace(
        example,
        media={spec.name: tuple(media[i] for i in consumed)},
        starts={spec.name: starts},
    )


def slots_of(example: Example, spec: MediaRowSpec) -> np.ndarray:
    """Tokens at which the outputs of a sample's media are merged."""
    media = example.media.get(spec.name, ())
    starts = example.starts.get(spec.name, ())
    runs = [
        start + np.arange(spec.outputs(len(medium.inputs)))
        for start, medium in zip(starts, media, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int64), *runs])


def expected_outputs(example: object, spec: MediaRowSpec) -> np.ndarray:
    """The features of a sample's media, padded to whole merged outputs: [n, reduction * F]."""
    parts = [np.zeros((0, spec.reduction * spec.features), np.float32)]
    for medium in example.media.get(spec.name, ()):  # type: ignore[attr-defined]
        slack = -len(medium.inputs) % spec.reduction
        padded = np.pad(medium.inputs, ((0, slack), (0, 0)))
        complete = padded.reshape(-1, spec.reduction * spec.features)
        parts.append(complete[: spec.outputs(len(medium.inputs))])
    return np.concatenate(parts)


def test_what_no_sample_takes_is_padding(processor: Processor, make_config: MakeConfig) -> None:
    config = make_config(rows=2)
    source = mixed_source(30)
    batch, placements = first_step(source, processor, config)
    decoder = batch.text_rows
    empty = decoder.segment_ids == 0
    assert (~empty).sum() == sum(p.lengths.total("decoder") for p in placements)
    for array in of_tokens(decoder):
        assert not array[empty].any()
    for name in ("vision", "audio"):
        assert (decoder.merges[name][empty] == -1).all()
        encoder = batch.rows[name]
        free = encoder.segment_ids == 0
        used = sum(sum(p.lengths.counts(name)) for p in placements)
        assert (~free).sum() == used
        assert not encoder.inputs[free].any()


def test_each_medium_is_a_segment_with_its_own_positions(
    processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(rows=2)
    batch, placements = first_step(mixed_source(30), processor, config)
    for row in range(2):
        audio = batch.rows["audio"]
        media = [n for p in placements if p.row == row for n in p.lengths.counts("audio")]
        for segment, length in enumerate(media, start=1):
            at = np.flatnonzero(audio.segment_ids[row] == segment)
            np.testing.assert_array_equal(audio.positions[row, at, 0], np.arange(length))
            np.testing.assert_array_equal(np.diff(at), 1)
        vision = batch.rows["vision"]
        for segment in range(1, int(vision.segment_ids[row].max()) + 1):
            at = vision.segment_ids[row] == segment
            (grid,) = np.unique(vision.array("sizes")[row, at], axis=0)
            places = vision.positions[row, at].tolist()
            assert sorted(map(tuple, places)) == list(np.ndindex(*grid))


@pytest.mark.parametrize("encoders", ENCODERS[2:])
def test_what_is_no_patch_and_no_frame_of_a_clip_is_marked(
    encoders: tuple[MediaRowSpec, ...], make_config: MakeConfig
) -> None:
    """Class tokens by their position, frames after a clip by the sign of its segment."""
    image, clip = encoders
    assert isinstance(image, ImageRowSpec)
    config = make_config(rows=2)
    batch, placements = first_step(
        mixed_source(30), make_processor(config, [TEXT, *encoders]), config
    )
    vision, audio = (batch.rows[name] for name in ("vision", "audio"))
    for placement in placements:
        lengths = placement.lengths
        media = zip(placement.media["vision"], lengths.counts("vision"), strict=True)
        for (row, start, _), length in media:
            at = start + (0 if image.class_token == "kept" else length - 1)
            assert vision.positions[row, at].tolist() == [-1, -1]
            assert not vision.inputs[row, at].any()
            assert (vision.positions[row, start : start + length] < 0).sum() == 2
            output = (row * vision.inputs.shape[1] + at) // image.reduction
            merged = batch.text_rows.merges["vision"]
            assert (output in merged) == (image.class_token == "kept")
        media = zip(placement.media["audio"], lengths.counts("audio"), strict=True)
        for (row, start, segment), length in media:
            ids = audio.segment_ids[row, start : start + length]
            expected = [segment] * (length - clip.trailing) + [-segment] * clip.trailing
            assert ids.tolist() == expected


@given(frames=st.integers(1, 3000), lookahead=st.sampled_from([0, 2]))
def test_averages_of_pairs_are_counted_as_released(frames: int, lookahead: int) -> None:
    """Qwen2-Audio's: two convolutions, the second of stride 2, then an average over pairs."""
    spec = AudioRowSpec("audio", stride=4, pool=2, lookahead=lookahead)
    convolved = (frames - 1) // 2 + 1
    assert spec.outputs(frames + lookahead) == (convolved - 2) // 2 + 1
    assert spec.span(frames + lookahead) >= frames + lookahead
    assert spec.span(frames + lookahead) % 4 == 0


def test_shapes_and_types(processor: Processor, make_config: MakeConfig) -> None:
    batch, _ = first_step(mixed_source(10), processor, make_config(rows=2))
    decoder, audio, vision = (batch.rows[name] for name in ("decoder", "audio", "vision"))
    weights = decoder.targets[NEXT_TOKEN].weights
    for array in of_tokens(decoder):
        assert array.shape[:2] == (2, BUDGETS["tokens"])
        assert array.dtype == (np.float32 if array is weights else np.int32)
    assert decoder.positions.shape == (2, BUDGETS["tokens"], 1)
    assert set(decoder.merges) == {"vision", "audio"}
    assert (audio.inputs.shape, audio.inputs.dtype) == ((2, 640, 40), np.float32)
    assert (audio.positions.shape, audio.positions.dtype) == ((2, 640, 1), np.int32)
    assert vision.inputs.shape == (2, 72, 128)
    assert vision.positions.shape == vision.array("sizes").shape == (2, 72, 2)
    assert not audio.arrays


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"decoder": [0]}, r"rows are given for \['decoder'\]; valid: exactly"),
        ({"decoder": [0], "vision": [4], "audio": []}, r"rows of vision: \[4\] are refused"),
        ({"decoder": [0, 0], "vision": [], "audio": []}, r"rows of decoder: \[0, 0\] are refused"),
    ],
)
def test_impossible_rows_are_refused(
    rows: dict[str, list[int]], message: str, processor: Processor, config: DataConfig
) -> None:
    with pytest.raises(ValueError, match=message):
        BatchAssembler(mixed_source(3), processor, config, rows)
