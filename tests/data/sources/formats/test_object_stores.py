"""Sources at `s3://` and `gs://`: the samples are the same; a store out of reach is named."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import pytest

from data.config import DataConfig
from data.loading.loader import DataLoader
from data.planning.stream import TrainingDemand
from data.processing.processor import make_processor
from data.sample import DataError, UnreachableError
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, WORK, MakeConfig, all_rows, assert_same_examples
from tests.data.sources.formats.writers import FORMATS, SAMPLES
from tests.stores.object_store import BUCKET, GOOGLE, S3, ObjectStore, object_store

#: A format of each kind of source, those with media in files among them.
WRITTEN = ("json_list", "parquet_hub", "arrow_saved", "webdataset", "arrayrecord")


@pytest.fixture(scope="module", params=[S3, GOOGLE], ids=lambda own: own.scheme)
def objects(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObjectStore]:
    with object_store(request.param, tmp_path_factory.mktemp("server") / "log") as store:
        yield store


@pytest.fixture
def configure(make_config: MakeConfig, tmp_path: Path, objects: ObjectStore) -> Any:
    def configured(name: str, place: str) -> tuple[DataConfig, DataConfig]:
        """A source here, and the same one in the store."""
        (tmp_path / name).mkdir()
        options = FORMATS[name](tmp_path / name, SAMPLES)
        system, _ = fsspec.core.url_to_fs(objects.url)
        system.put(str(tmp_path / name), f"{BUCKET}/{place}", recursive=True)
        there = {
            key: value.replace(str(tmp_path / name), f"{objects.url}/{place}")
            for key, value in options.items()
            if isinstance(value, str)
        }
        common = {"tokenizer": "bytes", "rows": 1, "lookahead": 4, "cache": tmp_path / "cache"}
        retry = {"retry_seconds": 0.3}
        return (
            make_config(**common, source=options),
            make_config(**common, source=options | there | retry),
        )

    return configured


@pytest.mark.parametrize("name", WRITTEN)
def test_samples_in_a_store_are_those_of_files(name: str, configure: Any) -> None:
    here, there = configure(name, name)
    processor = make_processor(here, [TEXT, VISION, AUDIO])
    source, other = make_source(here), make_source(there)
    assert len(source) == len(other) == len(SAMPLES)
    for index in (5, 0, 3):
        assert_same_examples(
            processor.process(source[index, 0]), processor.process(other[index, 0])
        )


@pytest.mark.parametrize("content", [b"a\r", b"a\n", b"a\r\n", b"\r", b"\n", b""])
def test_a_store_keeps_every_byte(content: bytes, tmp_path: Path, objects: ObjectStore) -> None:
    """Otherwise tests of checkpoints, whose last bytes are checksums, would fail now and then."""
    (tmp_path / "file").write_bytes(content)
    system, _ = fsspec.core.url_to_fs(objects.url)
    system.put_file(str(tmp_path / "file"), f"{BUCKET}/file")
    assert system.cat_file(f"{BUCKET}/file") == content


@pytest.mark.parametrize("objects", [S3], ids=lambda own: own.scheme, indirect=True)
def test_a_store_that_stays_away_ends_reading_with_its_name(
    configure: Any, objects: ObjectStore
) -> None:
    _, there = configure("parquet_hub", "gone")
    processor = make_processor(there, [TEXT, VISION, AUDIO])
    source = make_source(there)
    with (
        DataLoader(
            source, processor, there, 0, all_rows(1), consumer=TrainingDemand(WORK)
        ) as loader,
        objects.away(),
    ):
        with pytest.raises(
            UnreachableError, match=r"data\.source: s3://.* s \(retry_seconds 0\.3\)"
        ):
            deque(islice(loader, 50), maxlen=0)
        with pytest.raises(DataError, match="s3://"):
            make_source(there)
