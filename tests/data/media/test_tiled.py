"""Tiled images from lengths to batches: each tile a segment, each output where it belongs."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import NEXT_TOKEN, PackedBatch
from data.faults import FaultKind, SampleFault
from data.loading.assemble import BatchArrays, BatchAssembler
from data.media.image.row_spec import ImageRowSpec
from data.planning.layout import SamplePlacement, runs_of_plan
from data.planning.lengths import LengthTable, measure, open_lengths
from data.planning.packing import make_capacity
from data.planning.stream import BatchPlanner, LoaderState, TrainingDemand
from data.planning.suggest import suggest_budgets
from data.processing.processor import Processor
from data.sample import NO_TILES, DataError, Grid, Lengths, ProcessedMedium, Sample, SampleError
from tests.data.loading.test_loader import assert_same_microbatch, take
from tests.data.loading.test_on_read import HOSTS, read
from tests.data.media.tiled import PLACEHOLDER, TILE, TILED, TILING, TiledProcessor, tiled_source
from tests.data.samples import (
    AUDIO,
    TEXT,
    WORK,
    ListSource,
    MakeConfig,
    Picture,
    all_rows,
    make_lengths,
    make_sample,
)

BUDGETS = {"tokens": 160, "vision": 9 * TILE, "audio": 8, "segments": 24}
CAPACITY = make_capacity(BUDGETS, (TEXT, TILED, AUDIO))


@pytest.fixture
def processor(make_config: MakeConfig) -> TiledProcessor:
    return TiledProcessor(make_config(budgets=BUDGETS), [TEXT, TILED, AUDIO])


def microbatch(
    source: ListSource, processor: Processor, config: Any
) -> tuple[PackedBatch, tuple[SamplePlacement, ...]]:
    """The first microbatch, and where its samples lie."""
    state, consumer = LoaderState(0), TrainingDemand(WORK)
    lengths = measure(source, processor)
    plan = BatchPlanner(source, lengths, config, CAPACITY, state, consumer).plan()
    independent = config.balance == "per_phase"
    batch, bad = BatchAssembler(source, processor, config, all_rows(config.rows), independent)(
        plan.placements, CAPACITY
    )
    assert not bad
    return batch, plan.placements


def outputs(inputs: np.ndarray) -> np.ndarray:
    """Stands for encoder and connector: `[n, features]` to `[n / reduction]`."""
    return inputs.reshape(len(inputs) // TILED.reduction, -1).sum(1)


def kept(medium: ProcessedMedium) -> np.ndarray:
    """Outputs of a medium that are merged."""
    return (
        outputs(medium.inputs)[medium.more["resize_indices"]] * medium.more["resize_weights"]
    ).sum(1)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), balance=st.sampled_from(["none", "backbone", "per_phase"]))
def test_every_output_is_merged_where_its_image_stands(
    seed: int, balance: str, make_config: MakeConfig
) -> None:
    config = make_config(budgets=BUDGETS, rows=3, balance=balance)
    processor = TiledProcessor(config, [TEXT, TILED, AUDIO])
    source = tiled_source(40, seed)
    batch, placements = microbatch(source, processor, config)
    decoder, vision = batch.text_rows, batch.rows["vision"]
    results = []
    for inputs, indices, weights in zip(
        vision.inputs,
        vision.array("resize_indices"),
        vision.array("resize_weights"),
        strict=True,
    ):
        results.append((outputs(inputs)[indices] * weights).sum(1))
    flat = np.concatenate(results)
    for p in placements:
        example = processor.process(source[p.index, 0])
        span = np.s_[p.row, p.start : p.start + p.lengths.total("decoder")]
        tokens, index = decoder.inputs[span], decoder.merges["vision"][span]
        np.testing.assert_array_equal(tokens, example.tokens)
        np.testing.assert_array_equal(index >= 0, tokens == PLACEHOLDER)
        expected = [kept(medium) for medium in example.media.get("vision", ())]
        target = np.concatenate([np.zeros(0), *expected])
        np.testing.assert_allclose(flat[index[index >= 0]], target, atol=1e-5)


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_each_tile_is_a_segment_of_its_own(
    balance: str, processor: TiledProcessor, make_config: MakeConfig
) -> None:
    config = make_config(budgets=BUDGETS, rows=3, balance=balance)
    batch, placements = microbatch(tiled_source(40), processor, config)
    vision = batch.rows["vision"]
    media = [n for p in placements for n in p.lengths.counts("vision")]
    tiles = sum(media) // TILE
    assert min(media) == TILE < max(media)
    for row in range(3):
        ids = vision.segment_ids[row]
        numbers, counts = np.unique(ids[ids > 0], return_counts=True)
        assert numbers.tolist() == list(range(1, len(numbers) + 1))
        assert set(counts.tolist()) <= {TILE}
        tiles -= len(numbers)
        for number in numbers:
            assert len({*map(tuple, vision.positions[row, ids == number].tolist())}) == TILE
        assert (vision.array("sizes")[row, ids > 0] == 4).all()
    assert tiles == 0


def test_runs_are_where_outputs_go(processor: TiledProcessor, make_config: MakeConfig) -> None:
    config = make_config(budgets=BUDGETS, rows=3, balance="per_phase")
    batch, placements = microbatch(tiled_source(40), processor, config)
    media = batch.text_rows.merges["vision"]
    result = np.full_like(media, -1)
    per_row = BUDGETS["vision"] // TILED.reduction
    for row, first, at, token, count in runs_of_plan(placements, (TILED, AUDIO))["vision"]:
        assert (result[at, token : token + count] == -1).all()
        result[at, token : token + count] = row * per_row + first + np.arange(count)
    np.testing.assert_array_equal(result, media)


def test_arrays_of_tiles_are_those_of_tiled_encoders_alone(
    processor: TiledProcessor, make_config: MakeConfig
) -> None:
    batch, _ = microbatch(tiled_source(5), processor, make_config(budgets=BUDGETS, rows=2))
    vision, audio = batch.rows["vision"], batch.rows["audio"]
    shape = (2, BUDGETS["vision"] // TILED.reduction, 4)
    assert (
        vision.array("resize_indices").shape,
        vision.array("resize_indices").dtype,
    ) == (shape, np.int32)
    assert (
        vision.array("resize_weights").shape,
        vision.array("resize_weights").dtype,
    ) == (shape, np.float32)
    assert not audio.arrays


def test_what_crosses_hosts_is_what_is_merged() -> None:
    lengths = make_lengths(
        90, {"vision": (5 * TILE,)}, {"vision": (2,)}, {"vision": (Grid(1, 2, 4),)}
    )
    assert TILED.merged_outputs(lengths.of("vision")[0]) == 8 + 8
    assert TILED.segments(5 * TILE) == 5


# ---- measured lengths ----------------------------------------------------------------------------


def test_grids_are_kept_and_found_again(
    processor: TiledProcessor, make_config: MakeConfig, tmp_path: Path
) -> None:
    source = tiled_source(30)
    source.fingerprint, source.home = "one", tmp_path
    config = make_config(budgets=BUDGETS)
    measured = [processor.measure(source[i, 0]) for i in range(30)]
    table = open_lengths(source, processor, config)
    again = open_lengths(source, processor, config)
    for actual in (table, again, pickle.loads(pickle.dumps(again))):
        assert [actual[i] for i in range(30)] == measured
    assert any(medium.grid == NO_TILES for lengths in measured for medium in lengths.of("vision"))
    assert again.folder is not None
    (again.folder / "vision.grids.npy").unlink()
    with pytest.raises(DataError, match="are damaged"):
        pickle.loads(pickle.dumps(again))


def test_other_grids_are_other_lengths() -> None:
    grids = [(Grid(1, 2, 4),), (Grid(1, 1, 4),)]
    tables = [
        LengthTable.from_lengths(
            [make_lengths(9, {"vision": (2 * TILE,)}, {"vision": (1,)}, {"vision": grid})],
            [TEXT, TILED],
        )
        for grid in grids
    ]
    assert tables[0].digest != tables[1].digest


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_hosts_send_each_other_tiles(
    hosts: int, processor: TiledProcessor, make_config: MakeConfig
) -> None:
    source = tiled_source(60)
    config = make_config(budgets=BUDGETS, lookahead=30, balance="per_phase")
    for rows, microbatches in zip(
        HOSTS[hosts], read(4, source, processor, config, hosts), strict=True
    ):
        expected = take(4, source, processor, config, rows=rows)
        for actual, target in zip(microbatches, expected, strict=True):
            assert_same_microbatch(actual, target)


def test_an_image_that_cannot_be_read_is_blank(make_config: MakeConfig) -> None:
    """The outputs of the image are zero, and the text beside it is left out."""
    config = make_config(budgets=BUDGETS, rows=1, balance="per_phase")

    class Broken(TiledProcessor):
        def read_medium(
            self, sample: Any, encoder: str, number: int, expected: Lengths
        ) -> ProcessedMedium:
            raise SampleError(sample.name, SampleFault(FaultKind.IMAGE, "broken"))

    bare = make_sample("one")
    source = ListSource([Sample(bare.name, bare.turns, {"image": (Picture(16, 16),)})])
    processor = Broken(config, [TEXT, TILED, AUDIO])
    lengths = measure(source, processor)
    state = LoaderState(0)
    plan = BatchPlanner(source, lengths, config, CAPACITY, state, TrainingDemand(WORK)).plan()
    batch, bad = BatchAssembler(source, processor, config, all_rows(1), True)(
        plan.placements, CAPACITY
    )
    assert [fault.text for _, fault in bad] == ["broken"]
    vision = batch.rows["vision"]
    assert vision.segment_ids.any()
    assert not vision.array("resize_weights").any()
    assert not batch.text_rows.targets[NEXT_TOKEN].weights.any()


def test_suggested_budgets_are_whole_tiles(processor: TiledProcessor) -> None:
    lengths = measure(tiled_source(60), processor)
    larger = replace(TILED, tiling=replace(TILING, outputs=(3, 5)))
    budgets = suggest_budgets(lengths, (TEXT, larger, AUDIO), rows=2, samples_per_step=16)
    assert budgets["vision"] % (15 * TILED.reduction) == 0
    most = max(sum(each.counts("vision")) for each in map(lengths.__getitem__, range(60)))  # type: ignore[union-attr]
    assert budgets["vision"] >= most


# ---- bad input -----------------------------------------------------------------------------------


def test_images_that_are_not_cut_are_refused(
    processor: TiledProcessor, make_config: MakeConfig
) -> None:
    source = tiled_source(5)
    _, placements = microbatch(source, processor, make_config(budgets=BUDGETS, rows=1))
    placement = next(p for p in placements if p.lengths.of("vision"))
    medium = processor.process(source[placement.index, 0]).media["vision"][0]
    arrays = BatchArrays(all_rows(1), CAPACITY)
    with pytest.raises(
        ValueError, match=r"has the arrays inputs, positions; .* takes .*resize_indices"
    ):
        arrays.write_medium(placement, "vision", 0, replace(medium, more={}))


def test_tiles_need_a_newline() -> None:
    with pytest.raises(ValueError, match="tiles need a newline, and a newline tiles"):
        ImageRowSpec("vision", tiling=TILING)
    with pytest.raises(ValueError, match="got None and 3"):
        ImageRowSpec("vision", newline=3)
