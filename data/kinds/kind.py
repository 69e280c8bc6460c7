"""What a kind of media is: how it is found in records, opened, measured and read.

Its samples are late: what `open` gives knows its size from a header, and is decoded by `read`
alone. A reader says what becomes of them in one encoder; it is picklable, and what it measures it
must read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from data.config import DataConfig
from data.kinds.blob import Blob
from data.kinds.modality import Kind
from data.sample import Medium, Size

#: Input positions of a medium, and its grid if it has one (`Lengths.grids`).
Measured = tuple[int, Size | None]


class MediumKind(ABC):
    """One kind of media; `data.kinds.registry` lists all."""

    #: Its section of `data`, its key in samples, and its field in records, or with an s behind.
    name: Kind
    #: Endings of files that hold one.
    endings: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """Types of the parts of messages that are one: `x` or `x_url`, or `input_x` in base64."""
        return (self.name, f"{self.name}_url")

    @property
    def fields(self) -> tuple[str, str]:
        """Fields of records that hold them, if `data.source.fields` names none."""
        return (self.name, f"{self.name}s")

    @abstractmethod
    def open(self, blob: Blob, config: DataConfig) -> Any:
        """The medium in a file, read late."""

    @abstractmethod
    def reader(self, config: DataConfig, modality: Any) -> Any:
        """What makes encoder inputs of media as `data` says. Raises DataError: it cannot."""

    @abstractmethod
    def measure(self, reader: Any, medium: Any, alone: bool) -> Measured:
        """Input positions of a medium, from metadata alone.

        Args:
            reader: of the encoder.
            medium: as of `open`.
            alone: whether it is the only one of its kind in its conversation.

        Raises:
            MediaError: it cannot be used.
        """

    @abstractmethod
    def read(self, reader: Any, modality: Any, medium: Any, alone: bool) -> Medium:
        """A medium as encoder input; see `measure`. Raises MediaError."""

    @abstractmethod
    def noise(self, positions: float, config: DataConfig, rng: np.random.Generator) -> Any:
        """A medium of no meaning, of about so many input positions; see `open`."""
