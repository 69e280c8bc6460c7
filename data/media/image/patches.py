"""Images to encoder inputs: patches.

`grid_of` plans on metadata alone, and a reader must agree with it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from data.config import ImageConfig
from data.faults import FaultKind
from data.media.image.row_spec import ImageRowSpec
from data.sample import Grid, MediaError, ProcessedMedium, Size


def _fit_blocks(size: tuple[int, int], unit: tuple[int, int], most: int) -> tuple[int, int]:
    """Largest (rows, columns) of `unit`-pixel blocks, at most `most`, near the image's aspect.

    Never enlarges beyond rounding up to one block. Example: 300 x 600 pixels, units of 100, most
    8: the natural grid 3 x 6 has 18 blocks, scaled by sqrt(8/18) it is 2 x 4.
    """
    natural = np.array(size) / np.array(unit)
    scale = min(1.0, float(np.sqrt(most / natural.prod())))
    rows, cols = np.maximum(1, np.round(natural * scale)).astype(int).tolist()
    while rows * cols > most:  # rounding up, or a very long image whose short side became 1
        rows, cols = (rows, cols - 1) if cols >= rows else (rows - 1, cols)
    return rows, cols


def _scale_to_height(size: tuple[int, int], height: int) -> tuple[int, int]:
    return height, max(1, round(size[1] * height / size[0]))


def grid_of(size: tuple[int, int], spec: ImageRowSpec, config: ImageConfig) -> tuple[int, int]:
    """(rows, columns) of the patch grid of an image of `size` (height, width) in pixels.

    Raises:
        MediaError: an empty image, one above `max_pixels`, or (fixed height) above `max_patches`.
    """
    if min(size) < 1:
        raise MediaError(FaultKind.SHAPE, f"image of {size[0]} x {size[1]} pixels is empty")
    if size[0] * size[1] > config.max_pixels:
        raise MediaError(
            FaultKind.PIXELS,
            f"image of {size[0]} x {size[1]} pixels is above data.image.max_pixels "
            f"{config.max_pixels} (decompression bomb)",
        )
    block = spec.block
    unit = (spec.patch[0] * block[0], spec.patch[1] * block[1])
    if config.height is None:
        rows, cols = _fit_blocks(size, unit, max(1, config.max_patches // spec.reduction))
    else:
        high, wide = _scale_to_height(size, config.height)
        rows, cols = -(-high // unit[0]), -(-wide // unit[1])
    grid = rows * block[0], cols * block[1]
    if grid[0] * grid[1] > config.max_patches:
        raise MediaError(
            FaultKind.SHAPE,
            f"image of {size[0]} x {size[1]} pixels needs {grid[0]} x {grid[1]} patches, above "
            f"data.image.max_patches {config.max_patches}",
        )
    return grid


def _resize_pixels(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    if pixels.shape[:2] == size:
        return pixels
    image = PIL.Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    resized = image.resize((size[1], size[0]), PIL.Image.Resampling.BICUBIC)
    return np.asarray(resized).reshape(*size, pixels.shape[2])


@lru_cache(maxsize=4096)
def _grid_positions(grid: tuple[int, int], block: tuple[int, int]) -> NDArray[np.int32]:
    """(row, column) of each patch [n, 2], the patches of one block together."""
    rows, cols = np.indices(grid, np.int32)
    return np.stack([_by_block(rows, block), _by_block(cols, block)], axis=-1)


def _by_block(values: NDArray, block: tuple[int, int]) -> NDArray:
    """[rows, columns, ...] to [rows * columns, ...]: blocks row by row, and so within each.

    Example, block (2, 2): the grid [[0 1 2 3], [4 5 6 7]] is read as 0 1 4 5 2 3 6 7.
    """
    rows, cols, *entry = values.shape
    split = values.reshape(rows // block[0], block[0], cols // block[1], block[1], *entry)
    return split.swapaxes(1, 2).reshape(rows * cols, *entry)


def patches_of(
    pixels: NDArray[np.uint8], spec: ImageRowSpec, config: ImageConfig
) -> ProcessedMedium:
    """Cut an image [height, width, channels] into normalised patches, see `ImageConfig`.

    A patch is flattened as (row, column, channel). Padding of the fixed-height form is black.
    """
    height, width, channels = pixels.shape
    grid = grid_of((height, width), spec, config)
    high, wide = grid[0] * spec.patch[0], grid[1] * spec.patch[1]
    inner = (
        (high, wide) if config.height is None else _scale_to_height((height, width), config.height)
    )
    canvas = np.zeros((high, wide, channels), np.float32)
    canvas[: inner[0], : inner[1]] = _resize_pixels(pixels, inner)
    mean, std = np.array(config.mean, np.float32), np.array(config.std, np.float32)
    return cut_patches((canvas / np.float32(255) - mean) / std, spec)


def cut_patches(pixels: NDArray[np.float32], spec: ImageRowSpec) -> ProcessedMedium:
    """Normalised pixels [height, width, channels] as patches, each (row, column, channel).

    Remaining pixels on the right and below are cut off.
    """
    (ph, pw), channels = spec.patch, pixels.shape[2]
    grid = pixels.shape[0] // ph, pixels.shape[1] // pw
    inside = pixels[: grid[0] * ph, : grid[1] * pw]
    tiles = inside.reshape(grid[0], ph, grid[1], pw * channels).swapaxes(1, 2)
    inputs = _by_block(tiles.reshape(*grid, -1), spec.block)
    positions = _grid_positions(grid, spec.block)
    more = {"sizes": np.array(grid, np.int32)}
    return ProcessedMedium(np.ascontiguousarray(inputs), positions, more, blocks_of(grid, spec))


def blocks_of(grid: Size, spec: ImageRowSpec) -> Grid:
    """The grid of outputs of an image with so many rows and columns of patches."""
    return Grid(1, grid[0] // spec.block[0], grid[1] // spec.block[1])


def images_of(medium: ProcessedMedium, spec: ImageRowSpec) -> list[NDArray[np.float32]]:
    """The normalised pixels [height, width, channels] of each tile; the inverse of `cut_patches`.

    A class token has no pixels.
    """
    parts = spec.segments(len(medium.inputs))
    rows, columns = np.reshape(medium.more["sizes"], (-1, 2))[0].tolist()
    (high, wide), channels = spec.patch, spec.channels
    images = []
    for inputs, places in zip(
        np.split(medium.inputs, parts), np.split(medium.positions, parts), strict=True
    ):
        grid = np.zeros((rows, columns, high, wide, channels), np.float32)
        real = places[:, 0] >= 0
        row, column = places[real].T
        grid[row, column] = inputs[real].reshape(-1, high, wide, channels)
        images.append(grid.swapaxes(1, 2).reshape(rows * high, columns * wide, channels))
    return images


def eight_bits(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Pixels from 0 to 255, rounded; normalising has rounded them, too."""
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def with_class_token(medium: ProcessedMedium, spec: ImageRowSpec) -> ProcessedMedium:
    """The image with its class token, if it has one: a position of zeros, in row and column -1.

    A kept class token comes first, as its output is merged first. A dropped one comes last, so that
    the merged outputs are the first ones, and blocks of patches stay whole.
    """
    if spec.class_token == "none":
        return medium
    before, after = (1, 0) if spec.class_token == "kept" else (0, 1)
    around = ((before, after), (0, 0))
    inputs = np.pad(medium.inputs, around)
    positions = np.pad(medium.positions, around, constant_values=-1)
    return replace(medium, inputs=inputs, positions=positions)
