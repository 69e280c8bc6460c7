"""Images as released processors prepare them: to pixels, and to patches.

    padded to a square -> resized -> cropped at the centre -> scaled, normalised -> patches

Everything up to normalising is done with PIL on 8-bit pixels, as transformers' processors do; what
they do with torchvision differs from that by less than a grey level.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from data.faults import FaultKind
from data.media.image.patches import blocks_of, cut_patches, eight_bits, with_class_token
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import (
    ImageTiling,
    TileLayout,
    grid_of_frames,
    grid_of_tiles,
    interpolation_of,
    interpolation_of_frames,
    layout_of,
)
from data.sample import NO_TILES, DataError, Grid, MediaError, ProcessedMedium, Size

Pixels = NDArray[np.uint8]  # [height, width, channels]

#: Resampling filters by PIL's numbers, which are what `resample` is.
FILTERS = {int(kind): kind for kind in PIL.Image.Resampling}


class Resize(ABC):
    """A way of resizing images."""

    @abstractmethod
    def target_size(self, size: Size) -> Size:
        """The size that an image of `size` is resized to."""

    def find_misfit(self, spec: ImageRowSpec) -> tuple[str, str] | None:
        """What the processor has, and an encoder that does not take it; None if it does."""
        del spec
        return None


@dataclass(frozen=True)
class ShortestEdge(Resize):
    """Resize the shorter edge to so many pixels, the longer one with it (CLIP)."""

    pixels: int

    def target_size(self, size: Size) -> Size:
        """See `Resize`."""
        shorter, longer = min(size), max(size)
        other = int(self.pixels * longer / shorter)
        return (other, self.pixels) if size[1] <= size[0] else (self.pixels, other)


@dataclass(frozen=True)
class ExactSize(Resize):
    """Resize to this size, whatever the shape was (SigLIP)."""

    size: Size

    def target_size(self, size: Size) -> Size:
        """See `Resize`."""
        return self.size


@dataclass(frozen=True)
class ImageTransforms:
    """The transforms of an image: padding, resizing, cropping, scaling and normalising.

    Attributes:
        square: whether the image is first padded to a square.
        resize: way of resizing; None to keep the size.
        resample: PIL's number of the filter.
        crop: (height, width) of the centre that is kept; None to keep everything. A smaller image
            is put into the middle of a black one.
        scale: factor on pixel values.
        mean: mean by channel of scaled values.
        std: standard deviation by channel of scaled values.
        pinpoints: resolutions of which one is cut into tiles, if an image is the only one of its
            conversation; the tiles are as large as `resize` says. None: images are seen whole.
        border: colour of the padding, by channel in 8 bits.
        most_tiles: of an image's outputs, see `data.media.image.tiles.ImageTiling`; None if it is
            not said.
    """

    square: bool
    resize: Resize | None
    resample: int
    crop: Size | None
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    pinpoints: tuple[Size, ...] | None = None
    border: tuple[int, ...] = (0, 0, 0)
    most_tiles: int | None = None

    def size_of(self, size: Size, most: int) -> Size:
        """The size of an image of `size` after all transforms, from metadata alone.

        Args:
            size: size of the image.
            most: pixels that an image may have, resized ones too.

        Raises:
            MediaError: the image is empty or has too many pixels.
        """
        if min(size) < 1:
            raise MediaError(FaultKind.SHAPE, f"image of {size[0]} x {size[1]} pixels is empty")
        check_pixels(size, most, "")
        if self.square:
            size = (max(size), max(size))
            check_pixels(size, most, ", padded to a square,")
        if self.resize is not None:
            size = self.resize.target_size(size)
            check_pixels(size, most, ", resized,")
        return self.crop or size

    def transform_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """The normalised pixels [height, width, channels] of an image."""
        if self.square:
            pixels = padded_to_square(pixels, self.border)
        if self.resize is not None:
            high, wide = self.resize.target_size((pixels.shape[0], pixels.shape[1]))
            pixels = resize_pixels(pixels, (high, wide), self.resample)
        if self.crop is not None:
            pixels = crop_pixels(pixels, self.crop)
        return self.normalize_pixels(pixels)

    def normalize_pixels(self, pixels: Pixels) -> NDArray[np.float32]:
        """Scaled, less the mean, by the standard deviation."""
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return (pixels * np.float32(self.scale) - mean) / std

    def grey_levels(self, values: NDArray[np.float32]) -> Pixels:
        """Pixels of normalised values [height, width, channels]."""
        return eight_bits((values * np.array(self.std) + np.array(self.mean)) / self.scale)


def check_pixels(size: Size, most: int, what: str) -> None:
    """Raise MediaError for more pixels than an image may have; `what` qualifies the image."""
    if math.prod(size) > most:
        raise MediaError(
            FaultKind.PIXELS,
            f"image{what} of {size[0]} x {size[1]} pixels is above data.image.max_pixels {most} "
            "(decompression bomb)",
        )


def resize_pixels(pixels: Pixels, size: Size, resample: int) -> Pixels:
    """Pixels [*size, channels] by the filter `resample`."""
    image = PIL.Image.fromarray(pixels)
    return np.asarray(image.resize((size[1], size[0]), FILTERS[resample]))


def crop_pixels(pixels: NDArray[Any], size: Size) -> NDArray[Any]:
    """The centre [*size, channels]; a smaller image gets a black border."""
    result = np.zeros((*size, pixels.shape[2]), pixels.dtype)
    (rows, above), (columns, left) = (
        _centre_slice(length, target) for length, target in zip(pixels.shape[:2], size, strict=True)
    )
    centre = pixels[rows, columns]
    result[above : above + len(centre), left : left + centre.shape[1]] = centre
    return result


def _centre_slice(length: int, target: int) -> tuple[slice, int]:
    """The part of an axis that stays, and its start among `target` pixels."""
    start = (length - target) // 2
    return slice(max(start, 0), max(start, 0) + target), max(-start, 0)


def padded_to_square(pixels: Pixels, colour: tuple[int, ...]) -> Pixels:
    """The image in the middle of a square of one colour."""
    high, wide, channels = pixels.shape
    side = max(high, wide)
    square = np.empty((side, side, channels), pixels.dtype)
    square[:] = colour
    above, left = (side - high) // 2, (side - wide) // 2
    square[above : above + high, left : left + wide] = pixels
    return square


# ---- encoder inputs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleasedImages:
    """Images of one encoder as their released processor makes them.

    Attributes:
        transforms: transforms of an image that is seen whole.
        spec: row spec of the encoder; its `tiling` describes tiles.
        most: pixels that an image may have.
        frames: transforms of a frame of a video; None: those of an image.

    Raises:
        DataError: the processor's images do not fit the encoder.
    """

    transforms: ImageTransforms
    spec: ImageRowSpec
    most: int
    frames: ImageTransforms | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit."""
        resize, spec = self.transforms.resize, self.spec
        if spec.channels != 3:
            raise self._misfit_error("has images of 3 channels", f"channels {spec.channels}")
        if misfit := resize and resize.find_misfit(spec):
            raise self._misfit_error(*misfit)
        self._check_tiles()

    def _check_tiles(self) -> None:
        tiling, pinpoints = self.spec.tiling, self.transforms.pinpoints
        if tiling is None and pinpoints is None:
            return
        most = self.transforms.most_tiles
        if tiling is not None and most not in (None, tiling.most):
            raise DataError(
                f"data.processor keeps the outputs of {most} tiles of an image "
                f"(vision_aspect_ratio), but the encoder {self.spec.name!r} those of {tiling.most}"
            )
        if tiling is None:
            raise self._misfit_error("cuts images into tiles", "none")
        if pinpoints is None:
            raise self._misfit_error("cuts no images into tiles", f"tiles of {tiling.tile} pixels")
        for plural, resize in (
            ("tiles", self.transforms.resize),
            ("frames", self._frame_transforms.resize),
        ):
            if resize != ExactSize(tiling.tile):
                raise self._misfit_error(f"has {plural} by {resize}", f"tiles of {tiling.tile}")
        if pinpoints != tiling.pinpoints:
            raise self._misfit_error(f"has pinpoints {pinpoints}", f"pinpoints {tiling.pinpoints}")
        grid = self._patch_grid(tiling.tile)
        outputs = grid[0] // self.spec.block[0], grid[1] // self.spec.block[1]
        if outputs != tiling.outputs:
            raise self._misfit_error(
                f"has tiles of {outputs} outputs", f"tiles of {tiling.outputs}"
            )

    def _misfit_error(self, has: str, encoder: str) -> DataError:
        return DataError(f"data.processor {has}, but the encoder {self.spec.name!r} has {encoder}")

    def measure(self, size: Size, alone: bool) -> tuple[int, Grid]:
        """Input positions of an image of `size`, and its grid (`MediumLengths.grid`).

        Args:
            size: size of the image.
            alone: whether the image is its conversation's only one; only such images become tiles.

        Raises:
            MediaError: the image cannot be used.
        """
        tiling = self.spec.tiling
        if tiling is None:
            grid = self._patch_grid(self.transforms.size_of(size, self.most))
            inputs = math.prod(grid) + self.spec.class_tokens
            return inputs, blocks_of(grid, self.spec)
        tile = tiling.tile_outputs * self.spec.reduction
        if not alone:
            self._square_transforms.size_of(size, self.most)
            return tile, NO_TILES
        check_pixels(size, self.most, "")
        layout = layout_of(size, tiling)
        return tile * (1 + math.prod(layout.tiles)), grid_of_tiles(layout)

    def _patch_grid(self, size: Size) -> Size:
        """Rows and columns of patches. Raises MediaError: they are no whole blocks."""
        (high, wide), (rows, columns) = self.spec.patch, self.spec.block
        grid = size[0] // high, size[1] // wide
        if min(grid) < 1 or grid[0] % rows or grid[1] % columns:
            raise MediaError(
                FaultKind.SHAPE,
                f"image becomes {size[0]} x {size[1]} pixels, {grid[0]} x {grid[1]} patches, "
                f"which are no whole blocks of {rows} x {columns}",
            )
        return grid

    def read(self, pixels: Pixels, alone: bool) -> ProcessedMedium:
        """An image as encoder input.

        Args:
            pixels: pixels of the image, RGB.
            alone: as in `measure`.

        Raises:
            MediaError: as `measure`.
        """
        size = (pixels.shape[0], pixels.shape[1])
        self.measure(size, alone)
        tiling = self.spec.tiling
        if tiling is None:
            return with_class_token(
                self._cut_patches(self.transforms.transform_pixels(pixels)), self.spec
            )
        if not alone:
            medium = self._cut_patches(self._square_transforms.transform_pixels(pixels))
            return _with_interpolation(medium, None, tiling)
        layout = layout_of(size, tiling)
        tiles = tiles_of(pixels, layout, tiling.tile, self.transforms.resample)
        parts = [self._cut_patches(self.transforms.normalize_pixels(tile)) for tile in tiles]
        return _with_interpolation(_join_parts(parts), layout, tiling)

    def measure_frames(self, count: int, interval: float) -> tuple[int, Grid]:
        """Input positions of a video of so many frames, and its grid (`MediumLengths.grid`).

        Args:
            interval: seconds from one frame to the next.
        """
        inputs = count * self._required_tiling.tile_outputs * self.spec.reduction
        return inputs, grid_of_frames(count, interval, self._required_tiling)

    def read_frames(self, frames: Iterable[Pixels], interval: float) -> ProcessedMedium:
        """A video as encoder input.

        Args:
            interval: as of `measure_frames`.
            frames: frames [height, width, 3]; each is resized to a tile, whatever its shape.
        """
        parts = [
            self._cut_patches(self._frame_transforms.transform_pixels(frame)) for frame in frames
        ]
        indices, weights = interpolation_of_frames(len(parts), self._required_tiling)
        more = {**parts[0].more, "resize_indices": indices, "resize_weights": weights}
        grid = grid_of_frames(len(parts), interval, self._required_tiling)
        return replace(_join_parts(parts), more=more, grid=grid)

    def grey_levels(self, values: NDArray[np.float32]) -> Pixels:
        """Pixels of normalised values [height, width, channels] of an image."""
        return self.transforms.grey_levels(values)

    def frame_levels(self, values: NDArray[np.float32]) -> Pixels:
        """Pixels of normalised values [height, width, channels] of a frame."""
        return self._frame_transforms.grey_levels(values)

    def _cut_patches(self, pixels: NDArray[np.float32]) -> ProcessedMedium:
        return cut_patches(pixels, self.spec)

    @property
    def _required_tiling(self) -> ImageTiling:
        assert self.spec.tiling is not None, "an encoder without tiles takes no videos"
        return self.spec.tiling

    @property
    def _frame_transforms(self) -> ImageTransforms:
        return self.frames or self.transforms

    @property
    def _square_transforms(self) -> ImageTransforms:
        return replace(self.transforms, square=True)


def _join_parts(parts: Sequence[ProcessedMedium]) -> ProcessedMedium:
    """Tiles, or frames, one after the other."""
    inputs = np.concatenate([part.inputs for part in parts])
    positions = np.concatenate([part.positions for part in parts])
    return ProcessedMedium(inputs, positions, parts[0].more)


def _with_interpolation(
    medium: ProcessedMedium, layout: TileLayout | None, tiling: ImageTiling
) -> ProcessedMedium:
    """The tiles of an image with how its outputs come from theirs."""
    indices, weights = interpolation_of(layout, tiling)
    more = {**medium.more, "resize_indices": indices, "resize_weights": weights}
    return replace(medium, more=more, grid=grid_of_tiles(layout))


def tiles_of(pixels: Pixels, layout: TileLayout, tile: Size, resample: int) -> list[Pixels]:
    """Tiles [*tile, channels]: the whole image out of shape, then its parts row by row."""
    (high, wide), (above, left) = layout.inner, layout.black_border
    canvas = np.zeros((*layout.resolution, pixels.shape[2]), pixels.dtype)
    canvas[above : above + high, left : left + wide] = resize_pixels(pixels, layout.inner, resample)
    rows, columns = (range(0, n, step) for n, step in zip(layout.resolution, tile, strict=True))
    parts = [canvas[y : y + tile[0], x : x + tile[1]] for y in rows for x in columns]
    return [resize_pixels(pixels, tile, resample), *parts]
