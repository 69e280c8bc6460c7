"""The interface of a kind of media: how it is found in records and opened, and what processes it.

Media are decoded late: `open` returns an object that knows its size from a header, and only a
`data.media.processor.MediaProcessor` decodes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from data.config import DataConfig
from data.media.file_bytes import FileBytes
from data.media.processor import MediaProcessor
from data.rows.spec import Kind


class MediaType(ABC):
    """A kind of media; `data.media.registry` lists all kinds."""

    #: Name of its section of `data`, its key in samples, and its field in records (or with an s).
    name: Kind
    #: Endings of files of this kind.
    endings: tuple[str, ...]
    #: First bytes of such files, by which base64 without a data URI is known.
    heads: tuple[bytes, ...] = ()
    #: Whether media are drawn anew in every epoch, so that their lengths depend on it.
    is_drawn: bool = False

    @property
    def part_types(self) -> tuple[str, ...]:
        """Types of the parts of messages that hold a medium: `x`, `x_url`, or `input_x` in
        base64."""
        return (self.name, f"{self.name}_url")

    @property
    def record_fields(self) -> tuple[str, str]:
        """Fields of records that hold such media, if `data.source.fields` names none."""
        return (self.name, f"{self.name}s")

    @abstractmethod
    def open(self, content: FileBytes, config: DataConfig) -> Any:
        """The medium in a file, read late."""

    def draw(self, medium: Any, epoch: int) -> Any:
        """A medium as it is in an epoch; unless the kind `is_drawn`, the medium itself.

        The result is a function of its arguments: every host and worker draws the same.

        Args:
            medium: medium as returned by `open`.
        """
        return medium

    @abstractmethod
    def make_processor(self, config: DataConfig, spec: Any, released: Any = None) -> MediaProcessor:
        """The processor of such media for one encoder.

        Args:
            spec: row spec of the encoder.
            released: what reads the encoder's media as a released processor does; None where
                `data` says how they are read.

        Raises:
            DataError: `data` does not fit the encoder.
        """

    @abstractmethod
    def make_noise(self, positions: float, config: DataConfig, rng: np.random.Generator) -> Any:
        """A medium of noise with about `positions` input positions; see `open`."""
