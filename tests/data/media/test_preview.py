"""How media look: pictures are the inverse of what encoders get."""

from __future__ import annotations

import numpy as np
import pytest

from data.config import DataConfig, ImageConfig
from data.loading.loader import DataLoader
from data.media.image.patches import images_of
from data.media.image.reader import ConfiguredImages
from data.media.image.row_spec import ClassToken, ImageRowSpec
from data.media.preview import COLUMNS, draw_levels
from data.planning.stream import TrainingDemand
from data.processing.processor import Processor
from data.rows.pack import read_medium
from data.sample import MediumLengths
from data.sources.source import Source
from tests.data.samples import AUDIO, VISION, WORK, all_rows


@pytest.mark.parametrize("class_token", ["none", "dropped", "kept"])
@pytest.mark.parametrize("block", [(1, 1), (2, 3)])
def test_pixels_come_back_from_patches(class_token: ClassToken, block: tuple[int, int]) -> None:
    spec = ImageRowSpec("v", (4, 2), 3, block=block, class_token=class_token)
    config = ImageConfig(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.25))
    pixels = np.random.default_rng(0).integers(0, 256, (16, 12, 3)).astype(np.uint8)
    reader = ConfiguredImages(config, spec)
    (result,) = images_of(reader.read(pixels, alone=True), spec)
    np.testing.assert_array_equal(reader.grey_levels(result), pixels)


def test_media_come_back_from_the_rows_of_a_batch(
    demo: Source, processor: Processor, config: DataConfig
) -> None:
    with DataLoader(
        demo, processor, config, 0, all_rows(4), consumer=TrainingDemand(WORK)
    ) as loader:
        microbatch = next(loader)
    compared = 0
    for placement in microbatch.stats.placements:
        example = processor.process(demo[placement.index, 0])
        for spec in (VISION, AUDIO):
            for number, (row, start, _) in enumerate(placement.media[spec.name]):
                medium = example.media[spec.name][number]
                rows = microbatch.batch.rows[spec.name]
                result = read_medium(rows, spec, row, start, MediumLengths(len(medium.inputs)))
                np.testing.assert_equal(result.arrays, medium.arrays)
                compared += 1
    assert compared > 10


def test_numbers_are_drawn_from_dark_to_bright() -> None:
    picture = draw_levels(np.array([[0.0, 1.0], [0.5, 0.25]], np.float32), "numbers")
    light = picture.pixels.astype(int).sum(axis=2)
    assert light[0, 0] < light[1, 1] < light[1, 0] < light[0, 1]
    assert draw_levels(np.zeros((2, 2), np.float32), "alike").pixels.shape == (2, 2, 3)
    long = draw_levels(np.zeros((2, 3 * COLUMNS), np.float32), "long")
    assert long.pixels.shape == (2, COLUMNS, 3)
    assert f"{COLUMNS} of {3 * COLUMNS} columns" in long.caption
