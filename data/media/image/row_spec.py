"""Images as an encoder takes them: patches, perhaps with a class token, perhaps cut into tiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from data.batch import ModuleRows
from data.media.image.tiles import (
    POINTS,
    ImageTiling,
    outputs_in_text,
    runs_of,
    tokens_of,
    zero_interpolation,
)
from data.rows.spec import ArraySpec, Kind, MediaRowSpec
from data.sample import NO_TILES, Grid, MediumLengths, ProcessedMedium, Size

#: Whether images have a class token, and whether its output is merged into the decoder.
ClassToken = Literal["none", "dropped", "kept"]


class LazyImage(ABC):
    """A picture whose pixels are read only when needed."""

    @abstractmethod
    def image_size(self) -> Size:
        """(height, width) in pixels, from metadata alone. Raises MediaError."""

    @abstractmethod
    def load(self, channels: int) -> NDArray[np.uint8]:
        """Pixels [height, width, channels]. Raises MediaError."""


@dataclass(frozen=True)
class ImageRowSpec(MediaRowSpec):
    """Images for one encoder.

    Attributes:
        patch: (height, width) of a patch in pixels.
        channels: 1 (grey) or 3 (RGB).
        block: (rows, columns) of patches that pixel-shuffle merges into one output.
        class_token: one more input position for each image, see
            `data.media.image.patches.with_class_token`.
        tiling: how images are cut into tiles; None for images seen as they are.
        newline: token between the rows of a tiled image's outputs; None without tiles.

    Raises:
        ValueError: a size below 1, channels other than 1 and 3, or tiles without a newline.
    """

    kind: ClassVar[Kind] = "image"

    patch: Size = (16, 16)
    channels: int = 3
    block: Size = (1, 1)
    class_token: ClassToken = "none"
    tiling: ImageTiling | None = None
    newline: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if min(*self.patch, *self.block) < 1:
            raise ValueError(f"encoder {self.name!r}: sizes must be at least 1, got {self}")
        if self.channels not in (1, 3):
            raise ValueError(f"encoder {self.name!r}: channels {self.channels} is not 1 or 3")
        if (self.tiling is None) != (self.newline is None):
            raise ValueError(
                f"encoder {self.name!r}: tiles need a newline, and a newline tiles; got "
                f"{self.tiling} and {self.newline}"
            )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Images, and videos where a frame can be a tile."""
        return (self.kind,) if self.tiling is None else (self.kind, "video")

    @property
    def reduction(self) -> int:
        """Patches of a block."""
        return math.prod(self.block)

    @property
    def features(self) -> int:
        """Values of a patch."""
        return math.prod(self.patch) * self.channels

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """`inputs` are patches; `positions` and `sizes` are (row, column) of a patch and (rows,
        columns) of its image.

        A class token has the position (-1, -1). Tiled images alone have `resize_indices` and
        `resize_weights`: output j is the sum over k of `resize_weights[j, k]` times the output
        `resize_indices[j, k]` of the connector, counted within the row.
        """
        place, size = ArraySpec("position", (2,)), ArraySpec("medium", (2,), blank=1)
        inputs = ArraySpec("position", (self.features,), np.float32)
        plain = {"inputs": inputs, "positions": place, "sizes": size}
        if self.tiling is None:
            return plain
        indices, weights = (
            ArraySpec("output", (POINTS,), offset="output"),
            ArraySpec("output", (POINTS,), np.float32),
        )
        return plain | {"resize_indices": indices, "resize_weights": weights}

    @property
    def class_tokens(self) -> int:
        """Input positions of an image that are no patches."""
        return int(self.class_token != "none")

    @property
    def is_gridded(self) -> bool:
        """Images have rows and columns of outputs."""
        return True

    @property
    def unit(self) -> int | None:
        """Outputs of a tile."""
        return None if self.tiling is None else self.tiling.tile_outputs

    def outputs(self, inputs: int) -> int:
        """Merged outputs, all but that of a class token that is dropped."""
        return -(-(inputs - (self.class_token == "dropped")) // self.reduction)

    def segments(self, inputs: int) -> int:
        """Tiles of an image, or frames of a video, which attend each to itself alone."""
        return 1 if self.tiling is None else inputs // (self.tiling.tile_outputs * self.reduction)

    def grid_of(self, lengths: MediumLengths) -> Grid:
        """Grid of an image's outputs; a tiled one without a grid is only seen whole."""
        if self.tiling is not None and lengths.grid is None:
            return NO_TILES
        return super().grid_of(lengths)

    def merge_runs(self, lengths: MediumLengths) -> Iterator[tuple[int, int, int]]:
        """The places where an image's outputs are merged, see `MediaRowSpec.merge_runs`."""
        if self.tiling is None:
            return super().merge_runs(lengths)
        return runs_of(self.tiling.tile_outputs, self.grid_of(lengths))

    def merged_outputs(self, lengths: MediumLengths) -> int:
        """Outputs of an image that are merged."""
        if self.tiling is None:
            return super().merged_outputs(lengths)
        return outputs_in_text(self.tiling.tile_outputs, self.grid_of(lengths))

    def in_text(self, lengths: MediumLengths, placeholder: int) -> list[int]:
        """The tokens of an image: `placeholder` where its outputs are merged, and newlines."""
        if self.tiling is None or self.newline is None:
            return super().in_text(lengths, placeholder)
        tokens = [self.newline] * tokens_of(self.tiling.tile_outputs, self.grid_of(lengths))
        for _, first, count in self.merge_runs(lengths):
            tokens[first : first + count] = [placeholder] * count
        return tokens

    # ---- of random images ------------------------------------------------------------------------

    def sketch(self, rng: np.random.Generator, outputs: int) -> ProcessedMedium:
        """A strip of blocks, one high, whose last output is its class token's if it has one."""
        tokens = self.class_tokens
        wide = outputs - tokens
        rows, columns = self.block
        row, column = np.divmod(np.arange(rows * columns), columns)
        shift = np.arange(wide)[:, None] * columns
        place = np.stack([np.broadcast_to(row, (wide, row.size)), column + shift], -1)
        around = (tokens, 0) if self.class_token == "kept" else (0, tokens)
        positions = np.pad(
            place.reshape(-1, 2).astype(np.int32), (around, (0, 0)), constant_values=-1
        )
        size = np.array((rows, columns * wide), np.int32)
        inputs = np.zeros((len(positions), self.features), np.float32)
        more: dict[str, NDArray[Any]] = {"sizes": size}
        if self.tiling is not None:
            more["resize_indices"], more["resize_weights"] = zero_interpolation(
                0
            )  # see `mix_outputs`
        return ProcessedMedium(
            inputs, positions, more, NO_TILES if self.tiling else Grid(1, 1, wide)
        )

    def merged_outputs_mask(self, rows: ModuleRows) -> NDArray[np.bool_]:
        """All but those of class tokens that are dropped."""
        every = super().merged_outputs_mask(rows)
        if self.class_token != "dropped":
            return every
        without: NDArray[np.bool_] = every & (rows.positions[:, :: self.reduction, 0] >= 0)
        return without

    def mix_outputs(self, rng: np.random.Generator, rows: ModuleRows) -> dict[str, NDArray[Any]]:
        """Sums of any four outputs of a row, for each output; only tiled images have such sums."""
        if self.tiling is None:
            return {}
        owners = rows.segment_ids[:, :: self.reduction]
        indices, weights = zero_interpolation(*owners.shape)
        for row in range(len(owners)):
            there = np.flatnonzero(owners[row])
            indices[row, there] = rng.choice(there, (len(there), POINTS))
            weights[row, there] = rng.dirichlet(np.ones(POINTS), len(there))
        return {"resize_indices": indices, "resize_weights": weights}
