"""The interface of a source: random access to samples by index and epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from data.config import DemoSource, OneSource, SyntheticSource
from data.sample import Sample

Split = Literal["train", "heldout"]


#: A sample of a source: its index, and the number of the epoch in which it comes up.
SampleKey = tuple[int, int]


class Source(Protocol):
    """A finite list of samples, the same in every process; it must be picklable.

    `source[17, 2]` is sample 17 as it comes up in epoch 2. Most sources have the same samples in
    every epoch; what is drawn anew, such as the neighbours of a node of a graph, depends on index
    and epoch, and on nothing else.
    """

    def __len__(self) -> int:
        """Number of samples."""

    def __getitem__(self, key: SampleKey) -> Sample:
        """The sample at (index, epoch), without reading its media.

        Raises:
            SampleError: the sample is malformed.
        """

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
