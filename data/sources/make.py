"""Sources by configuration."""

from __future__ import annotations

from data.config import (
    ArrayRecordSource,
    ArrowSource,
    DataConfig,
    DemoSource,
    FileSource,
    MixtureSource,
    ParquetSource,
    SyntheticSource,
    WebDatasetSource,
)
from data.sample import DataError
from data.sources.source import Source, Split


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
        from data.sources.mixture import SourceMixture

        return SourceMixture(config, split, make_source)
    return _open_files(config, config.source, split)


def _open_files(config: DataConfig, options: FileSource, split: Split) -> Source:
    """A source of records in files."""
    path = options.path if split == "train" else options.heldout
    if path is None:
        raise DataError(f"data.source has no file for the split {split!r}")
    if isinstance(options, ArrowSource):
        from data.sources.formats.arrow import open_arrow

        return open_arrow(config, options, path)
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
