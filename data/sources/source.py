"""The interface of a source: random access to samples by index."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from data.config import DemoSource, OneSource, SyntheticSource
from data.sample import Sample

Split = Literal["train", "heldout"]


class Source(Protocol):
    """A finite list of samples, the same in every process; it must be picklable."""

    def __len__(self) -> int:
        """Number of samples."""

    def __getitem__(self, index: int) -> Sample:
        """Sample `index`, without reading its media. Raises SampleError if it is malformed."""

    def name(self, index: int) -> str:
        """Name of sample `index` in messages."""

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of all that decides the samples, except media files; None if unknown."""

    @property
    def home(self) -> Path:
        """Folder of `data.cache` for what is derived from the source alone, such as its lengths."""


def has_split(source: OneSource, split: Split) -> bool:
    """Whether a source has samples of a split."""
    if isinstance(source, DemoSource | SyntheticSource):
        return True
    return split == "train" or source.heldout is not None
