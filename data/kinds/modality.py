"""What the data pipeline must know of an encoder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from data.kinds.tiles import WHOLE, Size, Tiling, outputs_in_text, runs_of, tokens_of
from data.sample import Lengths

Kind = Literal["image", "audio"]
#: Whether images have a class token, and whether its output lands in the decoder.
ClassToken = Literal["none", "dropped", "kept"]


@dataclass(frozen=True)
class Modality:
    """Input format of one encoder.

    name: the encoder's name, which is also its key in `data.budgets` and in batches.
    kind: which media it takes.
    patch: (height, width) of a patch in pixels; images only.
    channels: 1 (grey) or 3 (RGB); images only.
    block: (rows, columns) of patches that pixel-shuffle merges into one output; images only.
    class_token: one more input position for each image, see `data.kinds.patches.with_class_token`.
    mels: mel bands; audio only.
    stride: frames that convolutions and stacking merge into one output; audio only.
    tiling: how images are cut into tiles; None for images seen as they are.
    newline: token between the rows of a tiled image's outputs; None without tiles.
    pool: of them, positions behind the convolutions that are averaged, if all are there; else the
        last output of a medium may be of fewer; audio only.
    lookahead: frames behind a clip that convolutions read, part of its inputs; audio only.
    longest: most frames of a clip, if there are positions for no more; audio only.
    """

    name: str
    kind: Kind
    patch: tuple[int, int] = (16, 16)
    channels: int = 3
    block: tuple[int, int] = (1, 1)
    class_token: ClassToken = "none"
    mels: int = 80
    stride: int = 2
    tiling: Tiling | None = None
    newline: int | None = None
    pool: int = 1
    lookahead: int = 0
    longest: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ValueError: a size below 1, channels other than 1 and 3, or tiles without a newline.
        """
        sizes = (*self.patch, *self.block, self.mels, self.stride)
        if min(sizes) < 1:
            raise ValueError(f"encoder {self.name!r}: sizes must be at least 1, got {self}")
        if self.channels not in (1, 3):
            raise ValueError(f"encoder {self.name!r}: channels {self.channels} is not 1 or 3")
        if (self.tiling is None) != (self.newline is None):
            raise ValueError(
                f"encoder {self.name!r}: tiles need a newline, and a newline tiles; got "
                f"{self.tiling} and {self.newline}"
            )

    @property
    def reduction(self) -> int:
        """Input positions per output position."""
        return math.prod(self.block) if self.kind == "image" else self.stride

    @property
    def features(self) -> int:
        """Width F of an input position."""
        return math.prod(self.patch) * self.channels if self.kind == "image" else self.mels

    @property
    def class_tokens(self) -> int:
        """Input positions of an image that are no patches."""
        return int(self.class_token != "none")

    def outputs(self, inputs: int) -> int:
        """Outputs that land in the decoder, the first ones of a medium with `inputs` positions."""
        used = inputs - self.lookahead - (self.class_token == "dropped")
        return -(-used // (self.reduction // self.pool)) // self.pool

    def span(self, inputs: int) -> int:
        """Positions of a row that such a medium takes: of whole outputs, landing or not."""
        return -(-inputs // self.reduction) * self.reduction

    def segments(self, inputs: int) -> int:
        """Parts of a medium that attend each to itself alone: its tiles, or all of it."""
        if self.tiling is None:
            return 1
        return inputs // (self.tiling.whole * self.reduction)

    def landing(self, inputs: int, grid: Size) -> Iterator[tuple[int, int, int]]:
        """Where a medium's outputs land: (first output, first token, number) of each run of them.

        Args:
            inputs: of the medium.
            grid: of a tiled image, see `Lengths.grids`.
        """
        if self.tiling is None:
            return iter([(0, 0, self.outputs(inputs))])
        return runs_of(self.tiling.whole, grid)

    def landed(self, inputs: int, grid: Size) -> int:
        """Outputs of a medium that land."""
        if self.tiling is None:
            return self.outputs(inputs)
        return outputs_in_text(self.tiling.whole, grid)

    def in_text(self, inputs: int, grid: Size, placeholder: int) -> list[int]:
        """The tokens of a medium: `placeholder` where its outputs land, and newlines."""
        if self.tiling is None or self.newline is None:
            return [placeholder] * self.outputs(inputs)
        tokens = [self.newline] * tokens_of(self.tiling.whole, grid)
        for _, first, count in self.landing(inputs, grid):
            tokens[first : first + count] = [placeholder] * count
        return tokens

    def grids(self, lengths: Lengths) -> Sequence[Size]:
        """Grids of a sample's media; (0, 0) for media without tiles."""
        if self.tiling is None:
            return (WHOLE,) * len(lengths.media.get(self.name, ()))
        return lengths.grids.get(self.name, ())
