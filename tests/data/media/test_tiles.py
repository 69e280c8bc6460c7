"""Any-resolution tiles: roundings are the released ones, and outputs come from their places."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.media.image.tiles import (
    ImageTiling,
    TileLayout,
    grid_of_tiles,
    interpolation_of,
    layout_of,
    newlines_of,
    outputs_in_text,
    runs_of,
    tokens_of,
)
from data.sample import NO_TILES, Grid, MediaError, Size

PARITY = Path(__file__).parents[2] / "parity" / "llava_onevision"
PINPOINTS = ((18, 18), (18, 36), (18, 54), (36, 18), (36, 36), (54, 18))
SMALL = ImageTiling(PINPOINTS, (18, 18), (4, 4), most=2)
#: As released, up to 6 x 6 tiles of 384 pixels, but for fewer outputs.
LARGE = ImageTiling(
    tuple((384 * rows, 384 * columns) for rows in range(1, 7) for columns in range(1, 7)),
    (384, 384),
    (9, 9),
    most=9,
)
OBLONG = ImageTiling(((8, 8), (16, 8), (16, 24)), (8, 4), (3, 2), most=3)
sizes = st.tuples(
    st.integers(1, 60) | st.integers(1, 3000), st.integers(1, 60) | st.integers(1, 3000)
)
tilings = st.sampled_from([SMALL, LARGE, OBLONG])


def laid(size: Size, tiling: ImageTiling) -> TileLayout:
    """The layout of an image that is not refused."""
    try:
        return layout_of(size, tiling)
    except MediaError:
        assume(False)
        raise


# ---- as released ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((20, 52), TileLayout((18, 54), (18, 47), (1, 3), (0, 1), (4, 10), (3, 8))),
        ((61, 70), TileLayout((36, 36), (32, 36), (2, 2), (1, 0), (6, 8), (4, 6))),
        ((47, 21), TileLayout((54, 18), (41, 18), (3, 1), (2, 0), (8, 4), (8, 4))),
        ((9, 13), TileLayout((18, 18), (13, 18), (1, 1), (1, 0), (2, 4), (2, 4))),
        # The image covers 3 rows of 4, but no half of a row falls away on either side.
        ((15, 18), TileLayout((18, 18), (15, 18), (1, 1), (0, 0), (4, 4), (4, 4))),
        # So thin that nothing of the tiles is left, and the whole image stands alone.
        ((1, 54), TileLayout((18, 54), (1, 54), (1, 3), (2, 0), (0, 12), (0, 12))),
        # So thin that no resolution shows a whole pixel: the smallest one.
        ((84, 1), TileLayout((18, 18), (18, 1), (1, 1), (0, 2), (4, 0), (4, 0))),
        ((2, 300), TileLayout((18, 18), (1, 18), (1, 1), (2, 0), (0, 4), (0, 4))),
    ],
)
def test_an_image_is_laid_out_as_released(size: Size, expected: TileLayout) -> None:
    assert layout_of(size, SMALL) == expected


@pytest.mark.parametrize("name", ["wide", "large", "tall", "tiny"])
def test_released_images_have_as_many_tiles_and_tokens(name: str) -> None:
    inputs, expected = (np.load(PARITY / f"{part}.npz") for part in ("inputs", "expected"))
    high, wide = inputs[f"{name}.image_sizes"][0].tolist()
    layout = layout_of((high, wide), SMALL)
    assert tokens_of(SMALL.tile_outputs, grid_of_tiles(layout)) == len(expected[f"{name}.features"])
    assert 1 + math.prod(layout.tiles) == inputs[f"{name}.pixel_values"].shape[1]


@given(sizes, tilings)
def test_the_resolution_shows_most_of_the_image(size: Size, tiling: ImageTiling) -> None:
    chosen = laid(size, tiling).resolution

    def seen(pinpoint: Size) -> int:
        scale = min(pinpoint[1] / size[1], pinpoint[0] / size[0])
        return min(int(size[1] * scale) * int(size[0] * scale), math.prod(size))

    for number, pinpoint in enumerate(tiling.pinpoints):
        assert seen(pinpoint) <= seen(chosen)
        if seen(pinpoint) == seen(chosen) and pinpoint != chosen:
            areas = math.prod(pinpoint), math.prod(chosen)
            first = tiling.pinpoints.index(chosen) < number
            assert areas[0] > areas[1] or (areas[0] == areas[1] and first)


@given(sizes, tilings)
def test_the_resized_image_fits_and_keeps_its_shape(size: Size, tiling: ImageTiling) -> None:
    layout = laid(size, tiling)
    scale = min(r / s for r, s in zip(layout.resolution, size, strict=True))
    for inner, resolution, pixels in zip(layout.inner, layout.resolution, size, strict=True):
        assert 1 <= inner <= resolution
        assert -1e-6 < inner - pixels * scale < 1
    assert any(i == r for i, r in zip(layout.inner, layout.resolution, strict=True))
    for above, inner, resolution in zip(
        layout.black_border, layout.inner, layout.resolution, strict=True
    ):
        assert 0 <= resolution - inner - 2 * above <= 1


@given(sizes, tilings)
def test_what_is_unpadded_is_what_the_image_covers(size: Size, tiling: ImageTiling) -> None:
    """Up to a row or column, of which no half can fall away."""
    layout = laid(size, tiling)
    grid = [n * m for n, m in zip(layout.tiles, tiling.outputs, strict=True)]
    assert min(layout.corner) == 0
    for remaining, complete, corner in zip(layout.unpadded, grid, layout.corner, strict=True):
        assert remaining == complete - 2 * corner >= 0
    seen = [n / m for n, m in zip(tiling.tile, tiling.outputs, strict=True)]  # by an output
    scale = min(r / s for r, s in zip(layout.resolution, size, strict=True))
    expected = [n * scale / pixels for n, pixels in zip(size, seen, strict=True)]
    for remaining, covered, complete in zip(layout.unpadded, expected, grid, strict=True):
        assert -1e-6 < min(covered, complete) - remaining + 1 < 2 or remaining == complete


@given(sizes, tilings)
def test_grids_are_shrunk_to_the_most_and_only_above_it(size: Size, tiling: ImageTiling) -> None:
    layout = laid(size, tiling)
    most = tiling.most * tiling.tile_outputs
    if math.prod(layout.unpadded) <= 1.1**2 * most:
        assert layout.grid == layout.unpadded
    else:
        assert math.prod(layout.grid) <= most
        shape = math.sqrt(math.prod(layout.unpadded) / most)
        for shrunk, unpadded in zip(layout.grid, layout.unpadded, strict=True):
            assert -1e-9 < unpadded / shape - shrunk < 1 + 1e-9


def test_shrunk_grids_are_rounded_as_released() -> None:
    """45 // (5 / 3) is 26, although 45 / (5 / 3) is 27."""
    layout = layout_of((1537, 1537), LARGE)
    assert (layout.unpadded, layout.grid) == ((45, 45), (26, 26))


# ---- outputs -------------------------------------------------------------------------------------


def joined(outputs: NDArray, layout: TileLayout, tiling: ImageTiling) -> NDArray:
    """Outputs of the tiles beside the whole image as one unpadded grid."""
    (rows, columns), (high, wide) = tiling.outputs, layout.tiles
    tiles = outputs[tiling.tile_outputs :].reshape(high, wide, rows, columns)
    grid = np.concatenate([np.concatenate(list(row), axis=1) for row in tiles], axis=0)
    (top, left), (down, across) = layout.corner, layout.unpadded
    return grid[top : top + down, left : left + across]


def resized(grid: NDArray, shape: Size) -> NDArray:
    """Bilinear, along one axis and then the other."""
    for axis, expected in enumerate(shape):
        count = grid.shape[axis]
        at = (np.arange(expected) + 0.5) * count / max(expected, 1) - 0.5
        lines = np.moveaxis(grid, axis, -1).reshape(-1, count)
        result = np.stack([np.interp(at, np.arange(count), line) for line in lines])
        others = grid.shape[1 - axis]
        grid = np.moveaxis(result.reshape(others, expected), -1, axis)
    return grid


@given(sizes, tilings, st.integers(0, 9))
def test_outputs_come_from_their_places(size: Size, tiling: ImageTiling, seed: int) -> None:
    layout = laid(size, tiling)
    assume(math.prod(layout.grid))
    count = tiling.tile_outputs * (1 + math.prod(layout.tiles))
    outputs = np.random.default_rng(seed).normal(size=count)
    indices, weights = interpolation_of(layout, tiling)
    assert 0 <= indices.min() <= indices.max() < count
    assert len(indices) == outputs_in_text(tiling.tile_outputs, grid_of_tiles(layout)) <= count
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    result = (outputs[indices] * weights).sum(1)
    np.testing.assert_array_equal(result[: tiling.tile_outputs], outputs[: tiling.tile_outputs])
    expected = resized(joined(outputs, layout, tiling), layout.grid).reshape(-1)
    np.testing.assert_allclose(result[tiling.tile_outputs :], expected, atol=2e-6)


@given(sizes, tilings)
def test_what_is_not_shrunk_is_taken_as_it_is(size: Size, tiling: ImageTiling) -> None:
    layout = laid(size, tiling)
    assume(layout.grid == layout.unpadded)
    indices, weights = interpolation_of(layout, tiling)
    assert set(np.unique(weights).tolist()) <= {0.0, 1.0}
    assert len({*indices[weights == 1].tolist()}) == len(indices)


def test_an_image_that_is_only_seen_whole_is_what_it_is() -> None:
    indices, weights = interpolation_of(None, SMALL)
    assert indices[:, 0].tolist() == list(range(16))
    assert weights.tolist() == [[1, 0, 0, 0]] * 16


@pytest.mark.parametrize("size", [(1, 54), (54, 1), (84, 1), (1, 4000)])
def test_an_image_without_a_grid_has_outputs_of_the_whole(size: Size) -> None:
    layout = layout_of(size, SMALL)
    assert math.prod(layout.grid) == 0
    assert len(interpolation_of(layout, SMALL)[0]) == 16


# ---- text ----------------------------------------------------------------------------------------


grids = st.builds(Grid, st.just(1), st.integers(0, 6), st.integers(0, 6), st.just(0.0))


@given(st.integers(1, 20), grids)
def test_runs_and_newlines_are_the_image(complete: int, grid: Grid) -> None:
    """Every output is merged once, in turn, and the tokens between are newlines."""
    runs = list(runs_of(complete, grid))
    outputs = [first + i for first, _, count in runs for i in range(count)]
    tokens = [token + i for _, token, count in runs for i in range(count)]
    assert outputs == list(range(outputs_in_text(complete, grid)))
    assert tokens == sorted(set(tokens))
    newlines = sorted(set(range(tokens_of(complete, grid))) - set(tokens))
    assert len(newlines) == newlines_of(grid)
    rows, columns = grid.h, grid.w
    after = [complete + (row + 1) * (columns + 1) - 1 for row in range(rows)]
    assert newlines == ([complete] if grid == NO_TILES else after)


# ---- bad input -----------------------------------------------------------------------------------


def test_an_empty_image_is_refused() -> None:
    with pytest.raises(MediaError, match="image of 0 x 5 pixels is empty"):
        layout_of((0, 5), SMALL)


def test_what_shrinks_to_nothing_is_refused() -> None:
    tiling = ImageTiling(((4, 64),), (4, 4), (1, 1), most=1)
    with pytest.raises(MediaError, match="nothing is left of its 1 x 16 outputs"):
        layout_of((4, 64), tiling)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pinpoints": ()}, "no pinpoint"),
        ({"pinpoints": ((18, 20),)}, "pinpoint 18 x 20 is not a whole number of tiles of 18 x 18"),
        ({"pinpoints": ((0, 18),)}, "pinpoint 0 x 18 is not"),
        ({"most": 0}, "at most 0: valid are numbers of at least 1"),
        ({"outputs": (0, 4)}, "0 x 4 outputs"),
    ],
    ids=str,
)
def test_impossible_tilings_are_refused(change: dict[str, tuple], message: str) -> None:
    values = {"pinpoints": PINPOINTS, "tile": (18, 18), "outputs": (4, 4), "most": 2}
    with pytest.raises(ValueError, match=message):
        ImageTiling(**{**values, **change})  # type: ignore[arg-type]
