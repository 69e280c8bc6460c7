"""What rows hold beside tokens: positions, the index, ids of spans, and ids with an offset."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data.batch import PackedBatch
from data.loading.assemble import mask_sample
from data.media.image.row_spec import ImageRowSpec
from data.planning.layout import SamplePlacement
from data.processing.processor import Processor
from data.rows.pack import empty_rows, read_medium, write_medium
from data.rows.spec import ArraySpec, MediaRowSpec
from data.rows.tokens import TextSpan, TokenSpec, sequential, text_spans
from data.sample import NO_TILES, Grid, MediumLengths
from mllm_jax.models.short_form import BACKBONE
from tests.data.loading.test_assemble import first_step
from tests.data.media.tiled import TILED
from tests.data.rows.three_axes import mrope
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, make_lengths, mixed_source

SPEC = TokenSpec("decoder", 3, mrope, ("span_ids",))
IMAGE = TextSpan(4, 6, Grid(1, 2, 3), "image")


def test_positions_of_several_axes_are_those_of_the_page() -> None:
    """The example of `data.rows.tokens`, after another sample in its row."""
    rows = SPEC.empty_rows((1, 16), ["vision"])
    SPEC.write(rows, 0, 0, 1, 2)
    SPEC.write(rows, 0, 2, 2, 12, [IMAGE])
    here = np.s_[0, 2:14]
    time, row, column = rows.positions[here].T.tolist()
    assert time == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 7, 8]
    assert row == [0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 7, 8]
    assert column == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8]
    assert rows.index is not None
    assert rows.index[0].tolist() == [0, 1, *range(12), 0, 0]
    assert rows.segment_ids[0].tolist() == [1] * 2 + [2] * 12 + [0] * 2
    assert rows.array("span_ids")[here].tolist() == [0] * 4 + [7] * 6 + [0] * 2


def test_text_alone_has_the_index_for_its_position() -> None:
    rows = TEXT.empty_rows((1, 5), [])
    TEXT.write(rows, 0, 1, 1, 3, [IMAGE])
    assert rows.positions[..., 0].tolist() == [[0, 0, 1, 2, 0]]
    assert not rows.arrays
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC


def test_positions_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sequential .* \(1, 1\) for 1 tokens; .* \(1, 3\)"):
        replace(SPEC, write_positions=sequential)
    own = replace(SPEC, write_positions=lambda tokens, spans: mrope(1, spans))
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for 4 tokens; valid: \(4, 3\)"):
        own.write(own.empty_rows((1, 8), []), 0, 0, 1, 4)


def test_ids_that_no_tokens_have_are_refused() -> None:
    with pytest.raises(ValueError, match="masks read window_ids of tokens; valid: span_ids"):
        TokenSpec("decoder", ids=("window_ids",))


def test_spans_are_those_of_outputs_that_are_merged() -> None:
    """Two encoders at the same tokens, tiles with newlines, and a clip too short for an output."""
    tile = 16 * TILED.reduction
    lengths = make_lengths(
        60,
        {"vision": (2 * tile,), "again": (2 * tile,), "audio": (8, 1)},
        {"vision": (3,), "again": (3,), "audio": (40, 50)},
        {"vision": (Grid(1, 2, 4),), "again": (Grid(1, 2, 4),)},
    )
    own = {"vision": TILED, "again": replace(TILED, name="again"), "audio": replace(AUDIO, pool=2)}
    (image, clip) = text_spans(lengths, own.values())
    merged = [*TILED.merge_runs(MediumLengths(2 * tile, Grid(1, 2, 4)))]
    assert len(merged) == 2
    assert image == TextSpan(3, merged[-1][1] + merged[-1][2], Grid(1, 2, 4), "image")
    assert clip == TextSpan(
        40, own["audio"].outputs(8), Grid(1, 1, own["audio"].outputs(8)), "audio"
    )


@pytest.mark.parametrize(
    ("spec", "grid"),
    [(VISION, Grid(1, 1, 4)), (AUDIO, Grid(1, 1, AUDIO.outputs(16))), (TILED, NO_TILES)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_medium_has_a_grid(spec: MediaRowSpec, grid: Grid) -> None:
    """One that is listed, or else one row; of tiles, that of an image which is seen whole."""
    count = 4 * VISION.reduction if spec is VISION else 16
    assert spec.grid_of(MediumLengths(count)) == grid
    assert spec.grid_of(MediumLengths(count, Grid(2, 1, 2, 0.5))) == Grid(2, 1, 2, 0.5)


def test_rows_of_samples_have_the_positions_of_their_lengths(
    processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(rows=2)
    several = Processor(config, [SPEC, VISION, AUDIO])
    batch, placements = first_step(mixed_source(30), several, config)
    decoder = batch.text_rows
    merged = sum((index >= 0) for index in decoder.merges.values())
    np.testing.assert_array_equal(decoder.array("span_ids") > 0, merged > 0)
    assert merged.any()
    for placement in placements:
        count = placement.lengths.total("decoder")
        here = np.s_[placement.row, placement.start : placement.start + count]
        spans = text_spans(placement.lengths, several.media.values())
        expected = mrope(count, spans)
        np.testing.assert_array_equal(decoder.positions[here], expected)
        firsts = [placement.start + span.start + 1 for span in spans]
        assert sorted({*decoder.array("span_ids")[here].tolist()} - {0}) == firsts


def test_what_is_left_out_has_neither_positions_nor_spans() -> None:
    rows = SPEC.empty_rows((1, 16), [])
    SPEC.write(rows, 0, 2, 1, 12, [IMAGE])
    mask_sample(
        PackedBatch({BACKBONE: rows}), [0], SamplePlacement(0, 0, 2, 1, make_lengths(12), {})
    )
    assert rows.index is not None
    for array in (rows.positions, rows.index, rows.segment_ids, rows.array("span_ids")):
        assert not array.any()


class Windows(ImageRowSpec):
    """Images with windows of two patches."""

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        return {**super().arrays, "window_ids": ArraySpec("position", blank=1, offset="position")}


def test_ids_with_an_offset_are_those_of_one_medium_alone() -> None:
    own = Windows("vision", patch=(2, 2))
    rows, rng = empty_rows(own, 1, 12), np.random.default_rng(0)
    media: list[Any] = []
    for start, count in ((0, 4), (4, 6)):
        medium = own.sketch(rng, count)
        windows = 1 + np.arange(count, dtype=np.int32) // 2
        media.append(replace(medium, more={**medium.more, "window_ids": windows}))
        write_medium(rows, own, 0, start, len(media), media[-1])
    assert rows.array("window_ids")[0].tolist() == [1, 1, 2, 2, 5, 5, 6, 6, 7, 7, 0, 0]
    for start, medium in zip((0, 4), media, strict=True):
        found = read_medium(rows, own, 0, start, MediumLengths(len(medium.inputs)))
        np.testing.assert_array_equal(found.more["window_ids"], medium.more["window_ids"])


def test_an_array_that_rows_do_not_have_is_refused() -> None:
    rows = empty_rows(Windows("vision", patch=(2, 2)), 1, 12)
    with pytest.raises(KeyError, match=r"no array edges; valid: .*window_ids"):
        rows.array("edges")
