"""ArrayRecord: msgpack maps, damaged files, and copies of remote ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import msgpack
import pytest

from data.processing.processor import make_processor
from data.sample import DataError, SampleError, StorageError
from data.sources.formats.storage import SourceFile
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, media_counts
from tests.data.sources.formats.writers import array_records, encoded_image

PNG = encoded_image((40, 16))
TURNS = [{"from": "human", "value": "<image> What?"}, {"from": "gpt", "value": "A."}]
GOOD = msgpack.packb({"conversations": TURNS, "image": PNG})


@pytest.fixture
def opened(make_config: MakeConfig, tmp_path: Path) -> Any:
    """Writes records into a file and opens it as a source."""

    def make(*records: bytes, write: str = "group_size:1", **options: Any) -> Any:
        if records:
            array_records(tmp_path / "a.array_record", records, write)
        source = {"kind": "arrayrecord", "path": tmp_path} | options
        config = make_config(source=source, tokenizer="bytes", cache=tmp_path / "cache")
        return make_source(config), make_processor(config, [TEXT, VISION, AUDIO])

    return make


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "not msgpack"),
        (b"\xc1", "not msgpack"),
        (GOOD[:-1], "not msgpack"),
        (GOOD + b"\x00", "not msgpack: .*extra data"),
        (b"\x91" * 5000, "not msgpack"),
        (b"\xdd\xff\xff\xff\xff", "not msgpack"),
        (msgpack.packb({1: 2}), "not msgpack: .*strict_map_key"),
        (msgpack.packb([1]), "a list, not a mapping"),
        (msgpack.packb({b"a": msgpack.ExtType(5, b"")}), "it has b'a'; valid: conversations"),
        (
            msgpack.packb({"conversations": msgpack.ExtType(5, b"x")}),
            "conversations: an ExtType, not a list",
        ),
        (msgpack.packb({"conversations": TURNS, "image": PNG[:30]}), "image 0' is not a readable"),
        (msgpack.packb({"conversations": TURNS, "image": "../a"}), "outside of the media folder"),
        (
            msgpack.packb({"conversations": TURNS, "image": "http://a/b"}),
            "'http://a/b' is a URL.*; valid: a path within",
        ),
        (msgpack.packb({"conversations": TURNS, "image": "data:,x"}), "not in base64"),
    ],
)
def test_a_bad_record_is_one_bad_sample(record: bytes, message: str, opened: Any) -> None:
    source, processor = opened(GOOD, record, GOOD)
    with pytest.raises(SampleError, match=rf"sample a.array_record\[1\]: .*{message}"):
        processor.measure(source[1, 0])
    assert media_counts(processor.measure(source[2, 0])) == {"vision": (5,)}


@pytest.mark.parametrize("damage", ["nothing", "junk", "half", "end", "footer"])
def test_a_damaged_file_is_an_error(damage: str, opened: Any, tmp_path: Path) -> None:
    opened(*[GOOD + b""] * 100)
    path = tmp_path / "a.array_record"
    content = bytearray(path.read_bytes())
    content[-65536 + 20] ^= 255 * (damage == "footer")
    ends = {"nothing": 0, "half": len(content) // 2, "end": -10}
    path.write_bytes(b"junk" * 40_000 if damage == "junk" else content[: ends.get(damage)])
    with pytest.raises(DataError, match=r"a.array_record is no whole ArrayRecord file: ."):
        opened()


def test_a_damaged_record_is_a_bad_sample(opened: Any, tmp_path: Path) -> None:
    opened(*[GOOD] * 300)
    path = tmp_path / "a.array_record"
    content = bytearray(path.read_bytes())
    content[500] ^= 255
    path.write_bytes(content)
    source, processor = opened()
    bad = []
    for index in range(300):
        try:
            processor.measure(source[index, 0])
        except SampleError as error:
            bad.append(str(error.fault))
    assert 0 < len(bad) < 150
    assert "hash mismatch" in bad[0]


def test_groups_are_warned_of(opened: Any, caplog: pytest.LogCaptureFixture) -> None:
    opened(*[GOOD] * 8, write="group_size:4")
    (message,) = caplog.messages
    assert "a.array_record: records are in groups of 4" in message


def test_a_remote_file_is_copied_once_and_whole(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(GOOD)
    root = f"memory://{tmp_path.name}-remote"
    with fsspec.open(f"{root}/a.array_record", "wb") as file:
        file.write((tmp_path / "a.array_record").read_bytes())
    plain = SourceFile.read

    def broken(file: SourceFile, start: int, size: int) -> bytes:
        raise StorageError("gone")

    monkeypatch.setattr(SourceFile, "read", broken)
    with pytest.raises(StorageError, match="gone"):
        opened(path=root)
    assert not list((tmp_path / "cache").glob("copy-*"))
    monkeypatch.setattr(SourceFile, "read", plain)
    source, processor = opened(path=root)
    monkeypatch.setattr(SourceFile, "read", broken)
    assert media_counts(processor.measure(source[0, 0])) == {"vision": (5,)}
    (copy,) = (tmp_path / "cache").glob("copy-*")
    assert [path.name for path in copy.iterdir()] == ["a.array_record"]
