"""Parquet: columns by any name, no byte more than needed, and what damaged files do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import data.sources.formats.parquet
from data.processing.processor import make_processor
from data.sample import DataError, MediaError, SampleError, StorageError
from data.sources.formats.storage import SourceFile
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, media_counts
from tests.data.sources.formats.writers import STORED, encoded_image

TURNS = [{"from": "human", "value": "<image> What?"}, {"from": "gpt", "value": "A cat."}]
ASK = {"role": "user", "content": "What?"}
PNG = encoded_image((40, 16))


def table(rows: int = 4, **columns: Any) -> pa.Table:
    """Rows with an image each, some columns replaced, those that are None left out."""
    cells = pa.array([{"bytes": PNG, "path": f"{i}.png"} for i in range(rows)], STORED)
    base = {"conversations": [TURNS] * rows, "image": cells} | columns
    return pa.table({name: column for name, column in base.items() if column is not None})


@pytest.fixture
def opened(make_config: MakeConfig, tmp_path: Path) -> Any:
    """Writes tables and opens them as a source."""

    def make(*tables: pa.Table, **options: Any) -> Any:
        for number, part in enumerate(tables):
            pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=2)
        source = {"kind": "parquet", "path": tmp_path} | options
        config = make_config(source=source, tokenizer="bytes", cache=tmp_path / "cache")
        return make_source(config), make_processor(config, [TEXT, VISION, AUDIO])

    return make


def test_a_question_and_an_answer_in_columns(opened: Any) -> None:
    texts = {"q": ["What?", "Why?"], "a": ["A cat.", "So."], "conversations": None}
    image = pa.array([{"bytes": PNG, "path": None}, None], STORED)
    source, processor = opened(
        table(2, **texts, image=image), fields={"question": "q", "answer": "a"}
    )
    assert [turn.text for turn in source[0, 0].turns] == ["<image>\nWhat?", "A cat."]
    assert media_counts(processor.measure(source[0, 0])) == {"vision": (5,)}
    with pytest.raises(SampleError, match="image holds no medium, and the texts would be learnt"):
        source[1, 0]


@pytest.mark.parametrize("column", [pa.nulls(2), pa.array([[], []]), pa.array([[None], []])])
def test_a_column_of_images_without_any_makes_bad_samples(opened: Any, column: pa.Array) -> None:
    """Writers give it the type null, of which nothing else can be read."""
    texts = {"question": ["What?", "Why?"], "answer": ["A cat.", "So."], "conversations": None}
    source, _ = opened(table(2, **texts, image=column, note=pa.nulls(2)))
    for index in range(2):
        with pytest.raises(SampleError, match=r"image(\.0: None is| holds) no medium"):
            source[index, 0]


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ({"image_id": [7, None]}, "image_id"),
        ({"source": ["b/a.png", "coco"]}, "source"),
        ({"metadata": [{"image": "a.png"}, {"image": None}]}, "metadata.image"),
        ({"info": ['{"images": ["a.png"]}', "{}"]}, "info.images"),
        ({"tags": [["a.png"], []]}, "tags"),
        ({"meta": [{"weight": 0}, None]}, "meta.weight"),
    ],
    ids=["image_id", "source", "metadata", "info", "tags", "weight"],
)
def test_harmless_columns_that_name_a_medium_make_bad_samples_of_rows_without_one(
    opened: Any, columns: Any, place: str
) -> None:
    texts = {"question": ["What?", "Why?"], "answer": ["A cat.", "So."], "conversations": None}
    rows = table(2, **texts, **columns, image=None, width=[3, 4])
    source, _ = opened(rows)
    with pytest.raises(SampleError, match=rf"shape: {place}: (it names image|weights are not)"):
        source[0, 0]
    assert [turn.text for turn in source[1, 0].turns] == ["Why?", "So."]
    (name,) = columns
    assert opened(rows, ignore=[name])[0][0, 0].turns
    with_images = opened(table(2, **texts, **columns))[0]
    if place != "meta.weight":
        assert with_images[0, 0].turns
        return
    with pytest.raises(SampleError, match=r"meta\.weight: weights are not"):
        with_images[0, 0]


def test_texts_may_be_kept_in_a_dictionary(opened: Any) -> None:
    def kept(*values: str) -> pa.Array:
        return pa.array(values).dictionary_encode()

    texts = {"q": kept("What?", "What?"), "a": kept("A cat.", "So."), "conversations": None}
    source, _ = opened(
        table(2, **texts, image=kept("a.png", "a.png")), fields={"question": "q", "answer": "a"}
    )
    assert [turn.text for turn in source[0, 0].turns] == ["<image>\nWhat?", "A cat."]
    assert [turn.text for turn in source[1, 0].turns] == ["<image>\nWhat?", "So."]


def test_a_text_is_read_without_its_images(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [{"bytes": encoded_image((4000, 16)), "path": None}] * 4
    source, _ = opened(table(image=pa.array(images, STORED)))
    read: list[int] = []
    plain = SourceFile.read

    def counted(file: SourceFile, start: int, size: int) -> bytes:
        read.append(size)
        return plain(file, start, size)

    monkeypatch.setattr(SourceFile, "read", counted)
    sample = source[3, 0]
    assert sample.turns[1].text == "A cat."
    assert 0 < sum(read) < 80_000  # the footer, mostly
    assert sample.of("image")[0].image_size() == (16, 4000)
    assert sum(read) > 180_000


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"conversations": None, "text": ["a"] * 4},
            {},
            r"has the columns image: struct<.*>, text: string; expected conversations or messages "
            r"or texts \(data.source.fields says what they are called; {answer: text} may be meant",
        ),
        ({}, {"fields": {"image": "picture"}}, "expected picture"),
        ({}, {"fields": {"question": "q", "answer": "a"}}, "expected q, a"),
        ({"conversations": [1, 2, 3, 4]}, {}, "column 'conversations' is int64; valid: a list of"),
        ({"conversations": [["a"]] * 4}, {}, "is list<element: string>; valid: a list of structs"),
        ({"image": [1, 2, 3, 4]}, {}, "column 'image' is int64; valid for media: binary, string"),
        ({"image": [{"png": b""}] * 4}, {}, "column 'image' is struct<png: binary>; valid for"),
        ({"image": [[[b""]]] * 4}, {}, "valid for media"),
        ({"a": [1, 2, 3, 4]}, {"fields": {"answer": "a"}}, "column 'a' is int64; valid: string"),
        (
            {"Image": [b""] * 4},
            {},
            r"columns that are not read: Image; .*\. Image: image media",
        ),
        ({"seen": [1.0] * 4}, {}, r"not read: seen; .*data.source.ignore: \[seen\]$"),
        ({"question": ["a"] * 4}, {}, r"with data.source.ignore: \[question\]$"),
        ({"tools.": [1] * 4}, {}, "if it decides nothing, leave it out$"),
        (
            {"conversations": None, "question": ["a"] * 4, "answers": [["b", "c"]] * 4},
            {},
            r"expected conv.* texts \(answers: several right answers, as for evaluation",
        ),
        (
            {"conversations": None, "question": ["a"] * 4, "answer": [["b", "c"]] * 4},
            {},
            "column 'answer' is list.*; valid: string; answer: several right answers",
        ),
        (
            {"conversations": None, "question": ["a"] * 4, "answer": [{"text": "b"}] * 4},
            {},
            r"column 'answer' is struct<text: string>; valid: string$",
        ),
        (
            {"conversations": None, "question": ["a"] * 4, "answer": [{"text": ["b", "c"]}] * 4},
            {},
            "column 'answer' is struct.*; valid: string; answer: several right answers",
        ),
        (
            {"conversations": None, "prompt": [[ASK]] * 4, "completion": [[ASK]] * 4},
            {},
            "column 'prompt' is list.*; valid: string; prompt: a list of messages, as TRL",
        ),
        (
            {"conversations": None, "image": None, "text": ["a"] * 4},
            {},
            r"expected conv.* texts \(text: a text alone, as for pretraining",
        ),
        ({}, {"ignore": ["sene"]}, "data.source.ignore: 'sene' is no column"),
        ({}, {"ignore": ["image"]}, "data.source.ignore: 'image' decides what is learnt"),
    ],
)
def test_wrong_columns_are_listed_with_those_expected(
    columns: Any, options: Any, message: str, opened: Any
) -> None:
    with pytest.raises(DataError, match=message):
        opened(table(**columns), **options)


def structs(*names: str) -> pa.Array:
    """A conversation in a row, whose turns have fields of such names."""
    said = [pa.array(["user", "assistant"]), *[pa.array(["a", "b"])] * (len(names) - 1)]
    turns = pa.StructArray.from_arrays(said, names=names)
    return pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), turns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"messages": structs("role", "content", "content")}, "fields of column 'messages'"),
        ({"question": ["a"], "answer": ["b"], "content": ["c"]}, "columns"),
    ],
)
def test_columns_and_fields_of_one_name_are_told(columns: Any, message: str, opened: Any) -> None:
    rows = pa.table(columns)
    rows = rows.append_column("content", rows["content"]) if "content" in columns else rows
    with pytest.raises(
        DataError, match=f"several {message} have the name content; valid: each with"
    ):
        opened(rows)
    assert opened(pa.table({"messages": structs("role", "content")}))[0][0, 0].turns


def test_columns_are_ignored_as_is_advised(opened: Any) -> None:
    columns: dict[str, Any] = {
        "question": ["a"] * 4,
        "seen.at": [1] * 4,
        "0": [2] * 4,
        "it's": ["b"] * 4,
    }
    options: dict[str, Any] = {}
    for _ in columns:
        with pytest.raises(DataError) as caught:
            opened(table(**columns), **options)
        advised = re.findall(r"data\.source\.(\w+): (\{.*?\}|\[.*?\])", str(caught.value))
        options |= {name: yaml.safe_load(value) for name, value in advised}
    assert set(options["ignore"]) == {*columns}
    assert len(opened(table(**columns), **options)[0]) == 4


def test_files_with_other_columns_are_refused(opened: Any) -> None:
    with pytest.raises(DataError, match=r"1.parquet has other columns than the files before it"):
        opened(table(), table(image=None))


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -300])
def test_a_file_that_is_cut_off_is_an_error(cut: int, opened: Any, tmp_path: Path) -> None:
    opened(table())
    content = (tmp_path / "0.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(content[:cut])
    with pytest.raises(DataError, match=r"1.parquet is not a Parquet file"):
        opened()


def test_rows_that_are_damaged_are_bad_samples_and_the_rest_is_read(
    opened: Any, tmp_path: Path
) -> None:
    source, processor = opened(table())
    path = tmp_path / "0.parquet"
    columns = pq.ParquetFile(path).metadata.row_group(0)
    for column in (0, 2):  # conversations.from, image.bytes
        start = columns.column(column).dictionary_page_offset
        content = bytearray(path.read_bytes())
        content[start : start + 40] = b"\xff" * 40
        path.write_bytes(content)
        source, processor = opened()
        with pytest.raises(SampleError, match=r"sample 0.parquet\[1\]: row group 0 of 0.parquet"):
            processor.measure(source[1, 0])
        assert media_counts(processor.measure(source[2, 0])) == {"vision": (5,)}
        opened(table())


def test_rows_that_decode_to_far_more_than_they_hold_are_refused(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One megabyte a thousand times, as a dictionary of one value."""
    monkeypatch.setattr(data.sources.formats.parquet, "_MOST", 1 << 24)
    source, _ = opened(table(2, image=None, conversations=["a" * (1 << 24)] * 2))
    with pytest.raises(SampleError, match="decodes to more than 16777216 bytes"):
        source[0, 0]


def test_files_that_change_under_the_run_end_it(opened: Any, tmp_path: Path) -> None:
    source, _ = opened(table())
    (tmp_path / "0.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="it has changed, or is not whole"):
        source[0, 0]


def test_paths_lead_to_the_media_folder_and_not_out_of_it(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "media" / "a.png").write_bytes(PNG)
    names = ["a.png", "../a.png", str(tmp_path / "a.png"), None]
    cells = pa.array([{"bytes": None, "path": name} for name in names], STORED)
    source, processor = opened(table(image=cells), media=tmp_path / "media")
    assert media_counts(processor.measure(source[0, 0])) == {"vision": (5,)}
    for index in (1, 2):
        with pytest.raises(SampleError, match="is outside of the media folder"):
            processor.measure(source[index, 0])
    with pytest.raises(MediaError, match="'image 0' has neither bytes nor a path"):
        source[3, 0].of("image")[0].image_size()


def test_large_row_groups_are_warned_of(
    opened: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(data.sources.formats.parquet, "_LARGE", 100)
    opened(table())
    (message,) = caplog.messages
    assert "0.parquet: a row group holds 0 MB, all of which is decoded to read one row" in message


def test_rows_of_nothing_are_bad_samples(opened: Any) -> None:
    turns = pa.array([TURNS, None], table(1).schema.field("conversations").type)
    source, _ = opened(table(2, conversations=turns))
    with pytest.raises(
        SampleError, match="it has image, null in conversations; valid: conversations"
    ):
        source[1, 0]
    with pytest.raises(IndexError):
        source[2, 0]
    assert len(opened(table(0, conversations=turns[:0]))[0]) == 0
