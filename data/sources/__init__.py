"""Sources: random access to samples by index."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from data.config import (
    ArrayRecordSource,
    DataConfig,
    DemoSource,
    FileSource,
    MixtureSource,
    OneSource,
    ParquetSource,
    SyntheticSource,
    WebDatasetSource,
)
from data.sample import DataError, Sample

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


def make_source(config: DataConfig, split: Split = "train") -> Source:
    """The configured source.

    Raises:
        DataError: the source does not exist, cannot be read, or lacks what it needs.
    """
    if isinstance(config.source, DemoSource):
        from data.sources.demo import DemoSet  # needs the `demo` extra

        return DemoSet(config, split)
    if isinstance(config.source, SyntheticSource):
        from data.sources.synthetic import SyntheticSet

        return SyntheticSet(config, split)
    if isinstance(config.source, MixtureSource):
        from data.sources.mixture import Mixture

        return Mixture(config, split)
    return _open_files(config, config.source, split)


def has_split(source: OneSource, split: Split) -> bool:
    """Whether a source has samples of a split."""
    if isinstance(source, DemoSource | SyntheticSource):
        return True
    return split == "train" or source.heldout is not None


def _open_files(config: DataConfig, options: FileSource, split: Split) -> Source:
    """A source of records in files."""
    path = options.path if split == "train" else options.heldout
    if path is None:
        raise DataError(f"data.source has no file for the split {split!r}")
    if isinstance(options, ArrayRecordSource):
        from data.sources.formats.arrayrecord import open_arrayrecord

        return open_arrayrecord(config, options, path)
    if isinstance(options, ParquetSource):
        from data.sources.formats.parquet import open_parquet

        return open_parquet(config, options, path)
    if isinstance(options, WebDatasetSource):
        from data.sources.formats.webdataset import open_webdataset

        return open_webdataset(config, options, path)
    from data.sources.formats.llava import open_llava

    return open_llava(config, options, path)
