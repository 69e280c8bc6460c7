"""What the data pipeline must know of an encoder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["image", "audio"]


@dataclass(frozen=True)
class Modality:
    """Input format of one encoder.

    name: the encoder's name, which is also its key in `data.budgets` and in batches.
    kind: which media it takes.
    patch: (height, width) of a patch in pixels; images only.
    channels: 1 (grey) or 3 (RGB); images only.
    block: (rows, columns) of patches that pixel-shuffle merges into one output; images only.
    mels: mel bands; audio only.
    stride: frames that convolutions and stacking merge into one output; audio only.
    """

    name: str
    kind: Kind
    patch: tuple[int, int] = (16, 16)
    channels: int = 3
    block: tuple[int, int] = (1, 1)
    mels: int = 80
    stride: int = 2

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            ValueError: a size below 1, or channels other than 1 and 3.
        """
        sizes = (*self.patch, *self.block, self.mels, self.stride)
        if min(sizes) < 1:
            raise ValueError(f"encoder {self.name!r}: sizes must be at least 1, got {self}")
        if self.channels not in (1, 3):
            raise ValueError(f"encoder {self.name!r}: channels {self.channels} is not 1 or 3")

    @property
    def reduction(self) -> int:
        """Input positions per output position."""
        return math.prod(self.block) if self.kind == "image" else self.stride

    @property
    def features(self) -> int:
        """Width F of an input position."""
        return math.prod(self.patch) * self.channels if self.kind == "image" else self.mels

    def outputs(self, inputs: int) -> int:
        """Output positions of a medium with `inputs` input positions (rounded up)."""
        return -(-inputs // self.reduction)
