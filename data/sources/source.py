"""What a source is: random access to samples by index."""

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
        """What messages call sample `index`."""

    @property
    def fingerprint(self) -> str | None:
        """Of all that decides what its samples are, but for the files of media; None if unknown."""

    @property
    def home(self) -> Path:
        """Folder where what is derived from it is kept."""


def has_split(source: OneSource, split: Split) -> bool:
    """Whether a source has samples of a split."""
    if isinstance(source, DemoSource | SyntheticSource):
        return True
    return split == "train" or source.heldout is not None
