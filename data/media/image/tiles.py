"""Any-resolution images: the tiles of an image, and the outputs that it keeps.

An image is seen whole, squeezed into one tile, and once more at the best of several resolutions,
cut into tiles. The outputs of the tiles are put together as one grid, from which the image's black
borders fall away and which is shrunk where it is larger than that of `most` tiles
(LLaVA-OneVision, arXiv 2408.03326, section 3.2; the roundings are those of the released model)::

    20 x 52 pixels, tiles of 18 x 18 with 4 x 4 outputs, at most 2 of them, at best 18 x 54:

    whole | 1st tile | 2nd tile | 3rd tile     outputs 4 x 12, unpadded 4 x 10, shrunk to 3 x 8

In the text stand the outputs of the whole image, then each row of the grid with a newline after
it; an image that is only seen whole, as all are where a conversation has several, has one newline.

Each frame of a video is a tile, squeezed like a whole image. The outputs of a frame are halved in
both directions, rounded up; those of all frames stand in the text with one newline after the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.faults import FaultKind
from data.sample import NO_TILES, Grid, MediaError, Size

#: Number of outputs from which one output of a resized grid is interpolated.
POINTS = 4
#: Grids are shrunk if their side exceeds that of `most` tiles by more than this factor.
_TOLERANCE = 1.1


@dataclass(frozen=True)
class ImageTiling:
    """How an encoder's images are cut.

    Attributes:
        pinpoints: resolutions in pixels, (height, width), whole multiples of the tile's.
        tile: pixels of a tile, (height, width).
        outputs: (rows, columns) of outputs of encoder and connector for one tile.
        most: number of tiles whose outputs bound those of an image, its whole view not counted.

    Raises:
        ValueError: no pinpoint, one that is no whole number of tiles, or a size below 1.
    """

    pinpoints: tuple[Size, ...]
    tile: Size
    outputs: Size
    most: int

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if min(*self.tile, *self.outputs, self.most) < 1:
            raise ValueError(
                f"tiles of {self.tile[0]} x {self.tile[1]} pixels and {self.outputs[0]} x "
                f"{self.outputs[1]} outputs, at most {self.most}: valid are numbers of at least 1"
            )
        if not self.pinpoints:
            raise ValueError("no pinpoint, of which an image needs at least one")
        for height, width in self.pinpoints:
            if min(height, width) < 1 or height % self.tile[0] or width % self.tile[1]:
                raise ValueError(
                    f"the pinpoint {height} x {width} is not a whole number of tiles of "
                    f"{self.tile[0]} x {self.tile[1]} pixels"
                )

    @property
    def tile_outputs(self) -> int:
        """Outputs of one tile."""
        return math.prod(self.outputs)

    @property
    def frame_outputs(self) -> Size:
        """(rows, columns) of outputs of a video's frame."""
        return -(-self.outputs[0] // 2), -(-self.outputs[1] // 2)

    @property
    def output_aspect(self) -> float:
        """Ratio of width to height of the pixels that an output covers."""
        (height, width), (rows, columns) = self.tile, self.outputs
        return (width * rows) / (height * columns)


@dataclass(frozen=True)
class TileLayout:
    """The tiles and outputs of an image of one size; sizes are (rows, columns), (height, width).

    Attributes:
        resolution: pixels of all tiles together.
        inner: pixels of the resized image among them.
        tiles: rows and columns of tiles, without the tile of the whole image.
        corner: rows of outputs removed above, and columns removed on the left.
        unpadded: rows and columns of the remaining outputs.
        grid: rows and columns after shrinking.
    """

    resolution: Size
    inner: Size
    tiles: Size
    corner: Size
    unpadded: Size
    grid: Size

    @property
    def black_border(self) -> Size:
        """Rows of black pixels above the resized image, and columns on its left."""
        (height, width), (high, wide) = self.resolution, self.inner
        return (height - high) // 2, (width - wide) // 2


# ---- pixels --------------------------------------------------------------------------------------


def layout_of(size: Size, tiling: ImageTiling) -> TileLayout:
    """The layout of an image of `size` pixels.

    Raises:
        MediaError: the image is empty, or so long and thin that nothing is left of outputs that
            are shrunk.
    """
    if min(size) < 1:
        raise MediaError(FaultKind.SHAPE, f"image of {size[0]} x {size[1]} pixels is empty")
    resolution = _best_resolution(size, tiling)
    (height, width), (rows, columns) = tiling.tile, tiling.outputs
    tiles = resolution[0] // height, resolution[1] // width
    grid = tiles[0] * rows, tiles[1] * columns
    corner = _removed_border(size, grid, tiling.output_aspect)
    unpadded = grid[0] - 2 * corner[0], grid[1] - 2 * corner[1]
    shrunk = _shrunk_grid(size, unpadded, tiling)
    return TileLayout(resolution, _inner_size(size, resolution), tiles, corner, unpadded, shrunk)


def _best_resolution(size: Size, tiling: ImageTiling) -> Size:
    """The pinpoint with most pixels of the image; of equals the smallest, of those the first.

    For an image so long and thin that no resolution shows a whole pixel, it is the smallest of all.
    """
    effective = [_effective_pixels(size, pinpoint) for pinpoint in tiling.pinpoints]
    areas = [-math.prod(pinpoint) for pinpoint in tiling.pinpoints]
    ranks = list(zip(effective, areas, strict=True))
    return tiling.pinpoints[ranks.index(max(ranks))]


def _effective_pixels(size: Size, pinpoint: Size) -> int:
    """Pixels of an image that a resolution shows."""
    (high, wide), (height, width) = size, pinpoint
    scale = min(width / wide, height / high)
    return min(int(wide * scale) * int(high * scale), wide * high)


def _inner_size(size: Size, resolution: Size) -> Size:
    """The image's pixels when it is resized to fit."""
    (high, wide), (height, width) = size, resolution
    across, down = width / wide, height / high
    if across < down:
        return min(math.ceil(high * across), height), width
    return height, min(math.ceil(wide * down), width)


def _removed_border(size: Size, grid: Size, stretch: float) -> Size:
    """Rows that fall away above and below, and columns on the left and right; one of them is 0."""
    (high, wide), (rows, columns) = size, grid
    if wide / high > columns / rows * stretch:
        return (rows - int(round(high * (columns / wide) * stretch, 7))) // 2, 0
    return 0, (columns - int(round(wide * (rows / high) / stretch, 7))) // 2


def _shrunk_grid(size: Size, grid: Size, tiling: ImageTiling) -> Size:
    ratio = math.sqrt(math.prod(grid) / (tiling.most * tiling.tile_outputs))
    if ratio <= _TOLERANCE:
        return grid
    rows, columns = int(grid[0] // ratio), int(grid[1] // ratio)
    if not rows or not columns:
        raise MediaError(
            FaultKind.SHAPE,
            f"image of {size[0]} x {size[1]} pixels is too long and thin: nothing is left of its "
            f"{grid[0]} x {grid[1]} outputs when they are shrunk to {tiling.most} tiles",
        )
    return rows, columns


# ---- outputs -------------------------------------------------------------------------------------


def interpolation_of(
    layout: TileLayout | None, tiling: ImageTiling
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """How an image's outputs are made of those of its tiles, which lie one after the other.

    Args:
        layout: None for an image that is only seen whole.
        tiling: tiling of the encoder.

    Returns:
        indices: `[outputs, POINTS]`: numbers of the tiles' outputs, those of the whole image
            first.
        weights: `[outputs, POINTS]`, which sum to 1 for an output.
    """
    places, parts = zero_interpolation(tiling.tile_outputs)
    places[:, 0], parts[:, 0] = np.arange(tiling.tile_outputs), 1
    if layout is None:
        return places, parts
    down, across = (
        _bilinear_interpolation(n, m, start)
        for n, m, start in zip(layout.unpadded, layout.grid, layout.corner, strict=True)
    )
    places_, parts_ = _grid_interpolation(down, across, layout, tiling)
    return np.concatenate([places, places_]), np.concatenate([parts, parts_])


def grid_of_tiles(layout: TileLayout | None) -> Grid:
    """The grid of a tiled image; `layout` is None for an image that is only seen whole."""
    return NO_TILES if layout is None else Grid(1, *layout.grid)


def grid_of_frames(count: int, interval: float, tiling: ImageTiling) -> Grid:
    """The grid of a video of so many frames, which are `interval` seconds apart."""
    return Grid(count, *tiling.frame_outputs, interval)


def interpolation_of_frames(
    count: int, tiling: ImageTiling
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """How a video's outputs are made of those of its frames; see `interpolation_of`."""
    down, across = (
        _bilinear_interpolation(n, m, 0)
        for n, m in zip(tiling.outputs, tiling.frame_outputs, strict=True)
    )
    places, parts = _cross_interpolation(
        down, across, lambda row, column: row * tiling.outputs[1] + column
    )
    first = tiling.tile_outputs * np.arange(count, dtype=np.int32)[:, None, None]
    return (first + places).reshape(-1, POINTS), np.tile(parts, (count, 1))


def zero_interpolation(*shape: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Indices and weights `[*shape, POINTS]` of outputs that are zero."""
    return np.zeros((*shape, POINTS), np.int32), np.zeros((*shape, POINTS), np.float32)


Reads = tuple[NDArray[np.int64], NDArray[np.float64]]


def _bilinear_interpolation(count: int, target: int, start: int) -> Reads:
    """Along an axis of `count` points from `start`, which two make each of `target`: `[m, 2]`.

    Without aligned corners: output i lies at `(i + 0.5) * count / target - 0.5`, no less than 0.
    """
    at = np.maximum((np.arange(target) + 0.5) * (count / max(target, 1)) - 0.5, 0)
    low = at.astype(np.int64)
    points = np.stack([low, np.minimum(low + 1, count - 1)], axis=1)
    share = at - low
    return start + points, np.stack([1 - share, share], axis=1)


def _grid_interpolation(
    down: Reads, across: Reads, layout: TileLayout, tiling: ImageTiling
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Indices and weights of the grid, row by row."""
    (rows, columns), (_, wide) = tiling.outputs, layout.tiles

    def place_tile(row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
        tile = 1 + row // rows * wide + column // columns
        return tile * tiling.tile_outputs + row % rows * columns + column % columns

    return _cross_interpolation(down, across, place_tile)


def _cross_interpolation(
    down: Reads,
    across: Reads,
    place: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Indices and weights of rows and columns together, where `place` says where an output lies."""
    places = place(down[0][:, None, :, None], across[0][None, :, None, :])
    share = down[1][:, None, :, None] * across[1][None, :, None, :]
    return (
        places.reshape(-1, POINTS).astype(np.int32),
        share.reshape(-1, POINTS).astype(np.float32),
    )


# ---- text ----------------------------------------------------------------------------------------


def outputs_in_text(tile_outputs: int, grid: Grid) -> int:
    """Outputs of an image or a video that are merged, newlines not counted."""
    return grid.outputs if grid.interval else tile_outputs + grid.outputs


def newlines_of(grid: Grid) -> int:
    """Newlines among and after the outputs of an image, or after those of a video."""
    return 1 if grid == NO_TILES or grid.interval else grid.h


def tokens_of(tile_outputs: int, grid: Grid) -> int:
    """Tokens of an image, newlines included."""
    return outputs_in_text(tile_outputs, grid) + newlines_of(grid)


def runs_of(tile_outputs: int, grid: Grid) -> Iterator[tuple[int, int, int]]:
    """The runs of an image's outputs that are merged: (first output, first token, number) of each.

    Example: 4 of the whole and the grid (1, 2, 3) give (0, 0, 7) and (7, 8, 3), newlines being the
    tokens 7 and 11.
    """
    rows, columns = grid.h, grid.w
    if grid.interval:
        yield 0, 0, grid.outputs
        return
    yield 0, 0, tile_outputs + (columns if rows else 0)
    for row in range(1, rows if columns else 0):
        yield tile_outputs + row * columns, tile_outputs + row * (columns + 1), columns
