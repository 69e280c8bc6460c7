"""What the data pipeline must know of an encoder: what it takes of a medium, and what lands.

An encoder's rows are arrays of the names that `Modality.arrays` lists; `data.kinds.rows` makes,
writes, sends and reads them, whatever the kind of media.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from data.sample import WHOLE, Lengths, Medium, Size

#: Name of a kind of media: its section of `data`, its field of records, its key in a sample.
Kind = str


@dataclass(frozen=True)
class Array:
    """One array of an encoder's rows; where no medium lies it is zero.

    Attributes:
        per: what a medium has an entry for: each of its input `position`s, each `output` that
            lands, or itself (`medium`, written to all of its positions).
        shape, dtype: of an entry.
        blank: value of a medium that cannot be read.
        is_place: whether the values are places among the outputs of the medium; in a row they count
            from its first output.
    """

    per: Literal["position", "output", "medium"]
    shape: tuple[int, ...] = ()
    dtype: DTypeLike = np.int32
    blank: int = 0
    is_place: bool = False


@dataclass(frozen=True)
class Modality(ABC):
    """Input format of one encoder; a subclass for each kind of media.

    name: the encoder's name, which is also its key in `data.budgets` and in batches.
    """

    kind: ClassVar[Kind]

    name: str

    @property
    @abstractmethod
    def reduction(self) -> int:
        """Input positions per output position."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Width F of an input position."""

    @property
    @abstractmethod
    def arrays(self) -> Mapping[str, Array]:
        """Arrays of a row, by name: `inputs`, `positions` and perhaps more."""

    @property
    def is_gridded(self) -> bool:
        """Whether media have grids of outputs, with newlines among them in the text."""
        return False

    @property
    def unit(self) -> int | None:
        """Outputs that media have whole multiples of; None for any number."""
        return None

    @property
    def averaged(self) -> int:
        """Positions behind the encoder that an output is the mean of; it lands if all are there."""
        return 1

    @property
    def behind(self) -> int:
        """Last input positions of a medium that are read and are none of its own."""
        return 0

    def outputs(self, inputs: int) -> int:
        """Outputs that land in the decoder, the first ones of a medium with `inputs` positions."""
        return -(-(inputs - self.behind) // (self.reduction // self.averaged)) // self.averaged

    def span(self, inputs: int) -> int:
        """Positions of a row that such a medium takes: of whole outputs, landing or not."""
        return -(-inputs // self.reduction) * self.reduction

    def segments(self, inputs: int) -> int:
        """Parts of a medium that attend each to itself alone."""
        return 1

    def landing(self, inputs: int, grid: Size) -> Iterator[tuple[int, int, int]]:
        """Where a medium's outputs land: (first output, first token, number) of each run of them.

        Args:
            inputs: of the medium.
            grid: see `Lengths.grids`.
        """
        return iter([(0, 0, self.outputs(inputs))])

    def landed(self, inputs: int, grid: Size) -> int:
        """Outputs of a medium that land."""
        return sum(count for _, _, count in self.landing(inputs, grid))

    def in_text(self, inputs: int, grid: Size, placeholder: int) -> list[int]:
        """The tokens of a medium: `placeholder` where its outputs land, and newlines."""
        return [placeholder] * self.landed(inputs, grid)

    def grids(self, lengths: Lengths) -> Sequence[Size]:
        """Grids of a sample's media; `WHOLE` for media without."""
        if self.is_gridded:
            return lengths.grids.get(self.name, ())
        return (WHOLE,) * len(lengths.media.get(self.name, ()))

    # ---- of random media, for verification and tests ---------------------------------------------

    @abstractmethod
    def sketch(self, rng: np.random.Generator, outputs: int) -> Medium:
        """A medium whose outputs, landing or not, are so many; its inputs are zero."""

    def lands(self, rows: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Which outputs of rows land, `[rows, outputs]`."""
        real = rows["segment_ids"][:, :: self.reduction // self.averaged] > 0
        return np.all(real.reshape(len(real), -1, self.averaged), axis=-1)

    def remixed(
        self, rng: np.random.Generator, rows: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Random arrays that have an entry for each output of a row, if there are such arrays."""
        return {}


def blank(modality: Modality, inputs: int, grid: Size = WHOLE) -> Medium:
    """Stands for a medium that cannot be read."""
    arrays = {
        name: np.full(shape, array.blank, array.dtype)
        for name, (array, shape) in shapes(modality, inputs, grid).items()
    }
    return Medium(
        arrays.pop("inputs"), arrays.pop("positions"), arrays, grid if modality.is_gridded else None
    )


def shapes(modality: Modality, inputs: int, grid: Size) -> dict[str, tuple[Array, tuple[int, ...]]]:
    """Arrays that a medium is made of, and their shapes."""
    counts = {"position": (inputs,), "output": (modality.landed(inputs, grid),), "medium": ()}
    return {
        name: (array, (*counts[array.per], *array.shape)) for name, array in modality.arrays.items()
    }


def sizes(modality: Modality, inputs: int, grid: Size) -> list[int]:
    """Elements of the arrays of a medium, in the order of `Modality.arrays`."""
    return [math.prod(shape) for _, shape in shapes(modality, inputs, grid).values()]
