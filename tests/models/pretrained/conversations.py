"""Conversations of `tests/parity` with their media, packed as the loader packs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from data.batch import PackedBatch
from data.loading.assemble import BatchArrays
from data.media.image.patches import with_class_token
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import ImageTiling, grid_of_tiles, interpolation_of, layout_of
from data.planning.layout import SamplePlacement, lay_out, runs_of_plan
from data.planning.packing import make_capacity
from data.rows.spec import MediaRowSpec
from data.sample import Example, ProcessedMedium
from mllm_jax.config.inputs import media_specs
from mllm_jax.models.model_config import ModelConfig
from tests.data.samples import TEXT
from tests.models.pretrained.stored import arrays, composition, cut


def example(folder: str, name: str, config: ModelConfig) -> Example:
    """A conversation; its last token is a position, too, from which nothing is learnt."""
    inputs, _ = arrays(folder)
    ids, mask = (inputs[f"{name}.{key}"][0] for key in ("input_ids", "answer_mask"))
    learnt = np.append(mask[1:], 0).astype(np.float32)
    (spec,) = media_specs(config)
    media = _media(inputs, name, spec)
    placeholder = composition(folder).placeholders[spec.name]
    places = np.flatnonzero(ids == placeholder)
    texts = [_in_text(medium, spec, placeholder) for medium in media]
    counts = [len(text) for text in texts]
    assert sum(counts) == len(places)
    ids[places] = [token for text in texts for token in text]
    ends = np.cumsum(counts)
    starts = tuple(places[ends - counts].tolist()) if media else ()
    own, where = ({spec.name: media}, {spec.name: starts}) if media else ({}, {})
    return Example(ids, np.roll(ids, -1), learnt, own, where, TEXT.module)


def _in_text(medium: ProcessedMedium, spec: MediaRowSpec, placeholder: int) -> list[int]:
    """Tokens of a medium; released texts have the placeholder where newlines are, too."""
    return spec.in_text(medium.lengths, placeholder)


def _media(
    inputs: dict[str, np.ndarray], name: str, spec: MediaRowSpec
) -> tuple[ProcessedMedium, ...]:
    if isinstance(spec, ImageRowSpec) and spec.tiling is not None:
        return tuple(_tiled(inputs, name, spec, spec.tiling))
    if isinstance(spec, ImageRowSpec) and f"{name}.pixel_values" in inputs:
        patches, grids = cut(inputs[f"{name}.pixel_values"], spec.patch[0])
        return tuple(
            with_class_token(_image(one, tuple(grid)), spec)
            for one, grid in zip(patches, grids.tolist(), strict=True)
        )
    if f"{name}.input_features" not in inputs:
        return ()
    frames = inputs[f"{name}.feature_attention_mask"].sum(axis=-1) + spec.trailing
    features = inputs[f"{name}.input_features"].swapaxes(1, 2)
    return tuple(
        ProcessedMedium(one[:count], np.arange(count, dtype=np.int32)[:, None])
        for one, count in zip(features, frames.tolist(), strict=True)
    )


def _tiled(
    inputs: dict[str, np.ndarray], name: str, spec: ImageRowSpec, tiling: ImageTiling
) -> Iterator[ProcessedMedium]:
    """Images with their tiles, without those that fill a batch up; several have none."""
    pixels = inputs.get(f"{name}.pixel_values", np.zeros(0))
    for tiles, size in zip(pixels, inputs.get(f"{name}.image_sizes", []), strict=True):
        layout = layout_of((int(size[0]), int(size[1])), tiling) if len(pixels) == 1 else None
        count = 1 + math.prod(layout.tiles) if layout else 1
        patches, grids = cut(tiles[:count], spec.patch[0])
        one = _image(patches[0], (int(grids[0][0]), int(grids[0][1])))
        indices, weights = interpolation_of(layout, tiling)
        yield replace(
            one,
            inputs=patches.reshape(-1, patches.shape[-1]),
            positions=np.tile(one.positions, (count, 1)),
            more={**one.more, "resize_indices": indices, "resize_weights": weights},
            grid=grid_of_tiles(layout),
        )


def _image(patches: np.ndarray, grid: tuple[int, int]) -> ProcessedMedium:
    positions = np.moveaxis(np.indices(grid, np.int32), 0, -1).reshape(-1, 2)
    return ProcessedMedium(patches, positions, {"sizes": np.array(grid, np.int32)})


def packed(
    examples: Sequence[Example],
    config: ModelConfig,
    budgets: dict[str, int],
    rows: Sequence[int],
    media_rows: Sequence[Sequence[int]],
) -> tuple[PackedBatch, tuple[SamplePlacement, ...]]:
    """A batch, and where everything lies in it.

    Args:
        budgets: of `tokens` and of the encoder.
        rows: the row of every conversation.
        media_rows: the rows of its media.
    """
    own = tuple(media_specs(config))
    name = own[0].name
    capacity = make_capacity({**budgets, "segments": 8}, (TEXT, *own))
    lengths = [(i, one.lengths) for i, one in enumerate(examples)]
    by_name = [{name: media} for media in media_rows]
    placements = lay_out(lengths, rows, capacity.specs, by_name)
    count = 1 + max([*rows, *(row for media in media_rows for row in media)])
    whole = {tower: range(count) for tower in ("decoder", name)}
    made = BatchArrays(whole, capacity)
    for one, placement in zip(examples, placements, strict=True):
        made.write_text(placement, one)
        for number, medium in enumerate(one.media.get(name, ())):
            made.write_medium(placement, name, number, medium)
    return replace(made.batch, runs=runs_of_plan(placements, own)), placements
