"""Conversations with files, and every bad input: counted when skipped, named when raised."""

from __future__ import annotations

import gzip
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import soundfile

from data.batch import NEXT_TOKEN
from data.config import DataConfig
from data.faults import FaultKind
from data.loading.loader import DataLoader
from data.planning.lengths import open_lengths
from data.planning.stream import LoaderState
from data.processing.processor import make_processor
from data.sample import DataError, SampleError
from data.sources.formats.file_bytes import path_inside
from data.sources.make import make_source
from data.sources.source import Source
from tests.data.samples import AUDIO, BUDGETS, TEXT, VISION, MakeConfig, all_rows

Record = dict[str, Any]


def conversation(*values: str) -> list[dict[str, str]]:
    speakers = ("human", "gpt")
    return [{"from": speakers[i % 2], "value": value} for i, value in enumerate(values)]


def write_image(path: Path, size: tuple[int, int] = (40, 16)) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    PIL.Image.fromarray(pixels).save(path)


def write_clip(path: Path, samples: int = 1600, rate: int = 8000, bad: float = 0.0) -> None:
    wave = np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)
    wave[: samples // 2] += bad
    soundfile.write(path, wave, rate, subtype="FLOAT")


def configure(make_config: MakeConfig, media: Path, records: object, **changes: Any) -> DataConfig:
    path = media.parent / "train.json"
    path.write_text(json.dumps(records))
    source = {"kind": "llava", "path": path, "media": media}
    image = {"height": 16, "max_pixels": 50_000_000}
    base = {"source": source, "image": image, "tokenizer": "bytes", "rows": 1, "lookahead": 4}
    budgets = BUDGETS | {"tokens": 400}
    return make_config(**(base | {"budgets": budgets} | changes))


def good(name: str = "good.png") -> Record:
    return {"id": 1, "image": name, "conversations": conversation("<image>\nWhat?", "A cat.")}


# ---------------------------------------------------------------------------- good input


def test_images_clips_and_text_are_read(make_config: MakeConfig, media: Path) -> None:
    write_image(media / "a.png", (40, 16))
    (media / "deep").mkdir()
    write_image(media / "deep" / "b.jpg", (80, 32))
    write_clip(media / "c.wav", samples=1601)
    records = [
        {
            "image": ["a.png", "deep/b.jpg"],
            "audio": "c.wav",
            "conversations": conversation("<image> <audio>", "One.", "and <image>?", "Two."),
            "model": "ignored",
        },
        {"conversations": conversation("SupervisorHello", "Hi.")},
    ]
    config = configure(make_config, media, records)
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    assert source.name(0) == "train.json[0]"
    lengths = processor.measure(source[0, 0])
    assert (lengths.counts("vision"), lengths.counts("audio")) == ((5, 5), (21,))
    assert processor.process(source[0, 0]).lengths == processor.measure(source[0, 0])
    assert processor.answer_text(source[1, 0]) == "Hi."
    with DataLoader(source, processor, config, seed=0, rows=all_rows(1)) as loader:
        assert next(loader).stats.samples == 2, "a step holds samples of one epoch alone"


@pytest.mark.parametrize("name", ["more.jsonl", "more.ndjson", "more.txt", "more"])
def test_json_lines_and_the_heldout_file(name: str, make_config: MakeConfig, media: Path) -> None:
    write_image(media / "good.png")
    lines = media.parent / name
    lines.write_text(f"{json.dumps(good())}\n\nnot json\n")
    source = {"kind": "llava", "path": lines, "media": media, "heldout": lines}
    config = make_config(source=source, tokenizer="bytes")
    for split in ("train", "heldout"):
        records = make_source(config, split)
        assert len(records) == 2
        assert records[0, 0].turns[1].text == "A cat."
        with pytest.raises(SampleError, match=rf"sample {name}\[1\]: not JSON"):
            records[1, 0]


def test_a_link_that_stays_inside_and_an_absolute_path_inside_are_fine(media: Path) -> None:
    write_image(media / "a.png")
    (media / "link.png").symlink_to(media / "a.png")
    assert path_inside(media, "link.png") == path_inside(media, str(media / "a.png"))


def test_stereo_is_averaged(make_config: MakeConfig, media: Path) -> None:
    wave = np.stack([np.full(800, 0.5), np.full(800, 0.1)], axis=1)
    soundfile.write(media / "s.wav", wave, 8000, subtype="FLOAT")
    record = {"audio": "s.wav", "conversations": conversation("<audio>", "Yes.")}
    (clip,) = make_source(configure(make_config, media, [record]))[0, 0].of("audio")
    np.testing.assert_allclose(clip.load(), 0.3, atol=1e-6)


# ---------------------------------------------------------------------------- bad input

Break = Callable[[Path], Record]
BAD: dict[str, tuple[Break, str]] = {}


def bad(message: str) -> Callable[[Break], Break]:
    """Register a way to make a bad record, with what the error must say."""

    def register(make: Break) -> Break:
        BAD[make.__name__] = make, message
        return make

    return register


@bad("'x.png' is missing in the media folder")
def missing_image(_: Path) -> Record:
    return good("x.png")


@bad("'x.wav' is missing in the media folder")
def missing_clip(_: Path) -> Record:
    return {"audio": "x.wav", "conversations": conversation("<audio>", "Yes.")}


@bad("'x.png' is not a readable image; valid: PNG, JPEG, WEBP")
def unreadable_image(media: Path) -> Record:
    (media / "x.png").write_bytes(b"this is no image")
    return good("x.png")


@bad("'x.png' cannot be decoded")
def truncated_image(media: Path) -> Record:
    write_image(media / "x.png", (40, 40))
    content = (media / "x.png").read_bytes()
    (media / "x.png").write_bytes(content[: len(content) // 2])
    return good("x.png")


@bad("'x.jpg' cannot be decoded")
def truncated_jpeg(media: Path) -> Record:
    write_image(media / "x.jpg", (100, 100))
    content = (media / "x.jpg").read_bytes()
    (media / "x.jpg").write_bytes(content[: len(content) // 2])
    return good("x.jpg")


def _png_of_size(path: Path, width: int, height: int) -> None:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


ABOVE = r"image of {0} x {0} pixels is above data.image.max_pixels 50000000 \(decompression bomb"


@bad("'x.png' is a decompression bomb")
def image_above_twice_the_limit_of_pil(media: Path) -> Record:
    _png_of_size(media / "x.png", 60_000, 60_000)
    return good("x.png")


@bad(ABOVE.format(10_000))
def image_above_the_limit_of_pil(media: Path) -> Record:
    _png_of_size(media / "x.png", 10_000, 10_000)
    return good("x.png")


@bad(ABOVE.format(9_000))
def image_above_max_pixels(media: Path) -> Record:
    _png_of_size(media / "x.png", 9_000, 9_000)
    return good("x.png")


@bad("'x.png' has pixel mode")
def image_of_16_bits(media: Path) -> Record:
    PIL.Image.fromarray(np.zeros((16, 40), np.uint16)).save(media / "x.png")
    return good("x.png")


def _heard(name: str) -> Record:
    return {"audio": name, "conversations": conversation("<audio>", "Yes.")}


@bad("clip has zero length")
def empty_clip(media: Path) -> Record:
    write_clip(media / "x.wav", samples=0)
    return _heard("x.wav")


@bad("clip has 800 samples that are NaN or infinite")
def clip_of_nan(media: Path) -> Record:
    write_clip(media / "x.wav", bad=float("nan"))
    return _heard("x.wav")


@bad("clip has a sample rate of 44100 Hz, data.audio.sample_rate is 8000 Hz")
def wrong_sample_rate(media: Path) -> Record:
    write_clip(media / "x.wav", rate=44100)
    return _heard("x.wav")


@bad("'x.wav' is not a readable clip")
def unreadable_clip(media: Path) -> Record:
    (media / "x.wav").write_bytes(b"RIFF but not much else")
    return _heard("x.wav")


@bad("cannot be decoded|was measured as")
def truncated_clip(media: Path) -> Record:
    write_clip(media / "x.flac.wav")
    wave, _ = soundfile.read(media / "x.flac.wav")
    soundfile.write(media / "x.flac", wave, 8000)
    content = (media / "x.flac").read_bytes()
    (media / "x.flac").write_bytes(content[: len(content) // 2])
    return _heard("x.flac")


@bad(r"'../secret.png' is outside of the media folder")
def path_with_dots(media: Path) -> Record:
    write_image(media.parent / "secret.png")
    return good("../secret.png")


@bad(r"'/.*is outside of the media folder")  # a long path is told by its beginning
def absolute_path(media: Path) -> Record:
    write_image(media.parent / "secret.png")
    return good(str(media.parent / "secret.png"))


@bad("'x.png' is outside of the media folder")
def link_to_outside(media: Path) -> Record:
    write_image(media.parent / "secret.png")
    (media / "x.png").symlink_to(media.parent / "secret.png")
    return good("x.png")


@bad("'door/secret.png' is outside of the media folder")
def folder_link_to_outside(media: Path) -> Record:
    write_image(media.parent / "secret.png")
    (media / "door").symlink_to(media.parent)
    return good("door/secret.png")


@bad("'x.png' is not a regular file")
def pipe(media: Path) -> Record:
    os.mkfifo(media / "x.png")
    return good("x.png")


@bad("is not a usable path|is missing")
def path_with_null_byte(_: Path) -> Record:
    return good("x\0.png")


@bad("2 <image> placeholders for 1 image files")
def more_placeholders_than_images(_: Path) -> Record:
    return good() | {"conversations": conversation("<image> <image>", "A cat.")}


@bad("0 <audio> placeholders for 1 audio files")
def fewer_placeholders_than_clips(media: Path) -> Record:
    write_clip(media / "x.wav")
    return good() | {"audio": "x.wav"}


@bad(r"needs \d+ tokens, above data.budgets' 400 for a row")
def too_long_a_text(_: Path) -> Record:
    return {"conversations": conversation("Why?", "Because. " * 50)}


@bad("needs 100 vision, above data.budgets' 72 for a row")
def too_wide_an_image(media: Path) -> Record:
    write_image(media / "x.png", (800, 16))
    return good("x.png")


@bad("turn 1 is an empty answer")
def empty_answer(_: Path) -> Record:
    return good() | {"conversations": conversation("<image> What?", " \n")}


@bad("does not end with an answer")
def no_last_answer(_: Path) -> Record:
    return good() | {"conversations": conversation("<image> What?", "A cat.", "Why?")}


@bad("record of wrong shape: it has id; valid: conversations or messages or texts; question and")
def no_conversations(_: Path) -> Record:
    return {"id": 1}


@bad("record of wrong shape: conversations.1.from: 'robot'; valid: human, user, gpt, assistant")
def unknown_speaker(_: Path) -> Record:
    turns = [{"from": "human", "value": "a"}, {"from": "robot", "value": "b"}]
    return {"conversations": turns}


@bad("record of wrong shape: image: 7 is no medium; valid: a path")
def image_that_is_a_number(_: Path) -> Record:
    return good() | {"image": 7}


@bad("record of wrong shape: conversations.0.value: null, not a text")
def value_that_is_no_text(_: Path) -> Record:
    return {"conversations": [{"from": "human", "value": None}]}


@bad("record of wrong shape: a list, not a mapping of fields")
def record_that_is_a_list(_: Path) -> Any:
    return ["conversations"]


def loaded(config: DataConfig) -> tuple[Source, DataLoader]:
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    return source, DataLoader(source, processor, config, seed=0, rows=all_rows(1))


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_skipped_and_counted_and_the_rest_is_read(
    name: str, make_config: MakeConfig, media: Path
) -> None:
    make, message = BAD[name]
    write_image(media / "good.png")
    config = configure(make_config, media, [good(), make(media)], lookahead=2)
    _, loader = loaded(config)
    with loader:
        microbatch = next(loader)
    assert {name for name, _ in microbatch.skipped} == {"train.json[1]"}
    assert all(
        pytest.RaisesExc(Exception, match=message).matches(Exception(str(fault)))
        for _, fault in microbatch.skipped
    )
    tokens = microbatch.batch.text_rows
    samples = microbatch.stats.samples
    assert tokens.targets[NEXT_TOKEN].weights.sum() == 7 * (samples - holes(samples, microbatch))
    assert isinstance(microbatch.state, LoaderState)


def test_a_clip_that_is_not_finite_is_bad_when_lengths_are_measured(
    make_config: MakeConfig, media: Path
) -> None:
    write_image(media / "good.png")
    config = configure(make_config, media, [good(), clip_of_nan(media)])
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    lengths = open_lengths(source, processor, config)
    assert [fault.kind for fault in lengths.unusable.values()] == [FaultKind.CLIP]


def holes(samples: int, microbatch: Any) -> int:
    """Planned samples that have no segment in the batch."""
    return samples - len(np.unique(microbatch.batch.text_rows.segment_ids)) + 1


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_raised_by_name(name: str, make_config: MakeConfig, media: Path) -> None:
    make, message = BAD[name]
    write_image(media / "good.png")
    config = configure(make_config, media, [make(media)], on_error="raise")
    _, loader = loaded(config)
    with loader, pytest.raises(SampleError, match=message) as caught:
        next(loader)
    assert caught.value.name == "train.json[0]"
    assert "sample train.json[0]: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"conversations": []}', "train.json holds a dict, not a list of records"),
        ("[1, 2", "cannot read .*train.json"),
        ('{"id": 1}\n{"id": 2}\n', r"train.json holds a record a line, .* named \*.jsonl"),
        ("[]".encode("utf-16"), "train.json is in UTF-16; valid for kind: llava: JSON"),
        (
            gzip.compress(b"[]", mtime=0),
            r"train.json is compressed \(gzip\); valid for kind: llava: JSON",
        ),
        (None, "cannot read .*train.json"),
    ],
)
def test_a_file_that_is_no_list_of_records_is_an_error(
    text: str | bytes | None, message: str, make_config: MakeConfig, media: Path
) -> None:
    config = configure(make_config, media, [])
    path = media.parent / "train.json"
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError, match=message):
        make_source(config)


def test_a_list_in_a_file_of_lines_is_told(make_config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    for mark in ("", "\ufeff"):
        path.write_text(f"{mark}[\n" + json.dumps(good()) + "]", encoding="utf-8")
        with pytest.raises(DataError, match=r"train.jsonl begins with a list.* named \*.json"):
            make_source(make_config(source={"kind": "llava", "path": path}))


def test_a_missing_folder_split_or_record_is_an_error(make_config: MakeConfig, media: Path) -> None:
    config = configure(make_config, media, [])
    with pytest.raises(DataError, match="no file for the split 'heldout'"):
        make_source(config, "heldout")
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    with pytest.raises(DataError, match=r"data\.source has no samples"):
        DataLoader(make_source(config), processor, config, seed=0, rows=all_rows(1))
    media.rmdir()
    with pytest.raises(DataError, match=r"data.source.media: .*media is not a folder"):
        make_source(config)
