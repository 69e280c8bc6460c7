"""A processor of tiled images for the tests of data/: noise for pixels, numbers for texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from data.config import DataConfig
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import (
    ImageTiling,
    TileLayout,
    grid_of_tiles,
    interpolation_of,
    layout_of,
)
from data.processing.processor import Processor
from data.rows.spec import RowSpec
from data.rows.tokens import media_of
from data.sample import (
    Example,
    Lengths,
    MediaError,
    MediumLengths,
    ProcessedMedium,
    Sample,
    SampleError,
)
from tests.data.samples import TEXT, ListSource, Picture, make_lengths, make_sample

TILING = ImageTiling(((8, 8), (8, 16), (16, 8), (16, 16)), (8, 8), (2, 4), most=2)
TILED = ImageRowSpec("vision", patch=(2, 2), channels=1, block=(2, 1), tiling=TILING, newline=9999)
PLACEHOLDER = 7
#: Inputs of a tile.
TILE = 16


class TiledProcessor(Processor):
    """Images of a sample alone are cut into tiles, several are only seen whole."""

    def __init__(self, config: DataConfig, specs: Sequence[RowSpec]) -> None:
        # Only released processors cut images.
        plain = [
            replace(m, tiling=None, newline=None) if isinstance(m, ImageRowSpec) else m
            for m in specs
        ]
        super().__init__(config, plain)
        self.specs = {spec.name: spec for spec in specs}
        self.media = {spec.name: spec for spec in media_of(specs)}

    def measure(self, sample: Sample) -> Lengths:
        layouts = _layouts(sample, [image.image_size() for image in sample.of("image")])
        tokens, starts, _ = _text(sample, layouts)
        return make_lengths(len(tokens) - 1, *_by_encoder(layouts, starts))

    def process_unchecked(self, sample: Sample) -> Example:
        sizes = [image.load(1).shape for image in sample.of("image")]
        layouts = _layouts(sample, [(rows, columns) for rows, columns, _ in sizes])
        media = {"vision": tuple(map(_medium, layouts))} if layouts else {}
        return _example(sample, layouts, media)

    def process_text(self, sample: Sample, expected: Lengths) -> Example:
        layouts = _layouts(sample, [image.image_size() for image in sample.of("image")])
        return _example(sample, layouts, {})

    def read_medium(
        self, sample: Sample, encoder: str, number: int, expected: Lengths
    ) -> ProcessedMedium:
        return self.process_unchecked(sample).media[encoder][number]


def _layouts(sample: Sample, sizes: Sequence[tuple[int, int]]) -> list[TileLayout | None]:
    try:
        layouts = [layout_of(size, TILING) for size in sizes]
    except MediaError as error:
        raise SampleError(sample.name, error.fault) from error
    return [layout if len(layouts) == 1 else None for layout in layouts]


def _inputs(layout: TileLayout | None) -> int:
    return TILE * (1 if layout is None else 1 + layout.tiles[0] * layout.tiles[1])


def _by_encoder(
    layouts: Sequence[TileLayout | None], starts: Sequence[int]
) -> tuple[dict[str, tuple], dict[str, tuple], dict[str, tuple]]:
    if not layouts:
        return {}, {}, {}
    media, grids = map(_inputs, layouts), map(grid_of_tiles, layouts)
    return {"vision": tuple(media)}, {"vision": tuple(starts)}, {"vision": tuple(grids)}


def _text(
    sample: Sample, layouts: Sequence[TileLayout | None]
) -> tuple[list[int], list[int], list[bool]]:
    """Ids, where media begin, and what is learnt."""
    ids, starts = [1, 2], []
    for layout in layouts:
        starts.append(len(ids))
        ids += [
            *TILED.in_text(MediumLengths(_inputs(layout), grid_of_tiles(layout)), PLACEHOLDER),
            3,
        ]
    asked = len(ids)
    ids += list(range(100, 101 + len(sample.turns[-1].text)))
    return ids, starts, [i >= asked for i in range(len(ids))]


def _example(
    sample: Sample,
    layouts: Sequence[TileLayout | None],
    media: dict[str, tuple[ProcessedMedium, ...]],
) -> Example:
    tokens, starts, learnt = _text(sample, layouts)
    ids, weight = np.array(tokens, np.int32), np.array(learnt[1:], np.float32)
    first = {"vision": tuple(starts)} if layouts else {}
    return Example(ids[:-1], ids[1:], weight, media, first, TEXT.module)


def _medium(layout: TileLayout | None) -> ProcessedMedium:
    """Random inputs that any other image has not."""
    count = _inputs(layout)
    rng = np.random.default_rng([] if layout is None else [*layout.inner, *layout.resolution])
    places = np.moveaxis(np.indices((4, 4), np.int32), 0, -1).reshape(-1, 2)
    positions = np.tile(places, (count // TILE, 1))
    inputs = rng.normal(size=(count, TILED.features)).astype(np.float32)
    indices, weights = interpolation_of(layout, TILING)
    more = {
        "sizes": np.array((4, 4), np.int32),
        "resize_indices": indices,
        "resize_weights": weights,
    }
    return ProcessedMedium(inputs, positions, more, grid_of_tiles(layout))


def tiled_source(count: int, seed: int = 0) -> ListSource:
    """Samples of text, of one image of any size, and of several."""
    rng = np.random.default_rng(seed)
    samples = []
    for i in range(count):
        images = tuple(
            Picture(*rng.integers(3, 40, 2).tolist()) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))
        )
        bare = make_sample(f"s{i}", answer="1" * int(rng.integers(1, 9)))
        samples.append(Sample(bare.name, bare.turns, {"image": images}))
    return ListSource(samples)
