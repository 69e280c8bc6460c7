"""Records in JSON and JSON Lines: where they are, on this machine or at a URL."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import shutil
import tarfile
from pathlib import Path
from urllib.parse import quote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data.faults import LONGEST, FaultKind, SampleFault
from data.processing.processor import make_processor
from data.sample import DataError, SampleError
from data.sources.formats.index import open_index
from data.sources.formats.llava import JsonRecords
from data.sources.formats.llava import _build_index as index_of
from data.sources.formats.storage import find_files
from data.sources.make import make_source
from mllm_jax.config.sections import ConfigError
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, assert_same_examples
from tests.data.sources.formats.test_llava import configure, conversation, write_clip, write_image
from tests.data.sources.formats.writers import encoded_image

values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    records=st.lists(values, max_size=6),
    indent=st.sampled_from([None, 1]),
    plain=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
)
def test_every_record_of_a_list_and_of_lines_is_found(
    records: list[object], indent: int | None, plain: bool, encoding: str, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    text = json.dumps(records, indent=indent, ensure_ascii=plain)
    (tmp_path / "a.json").write_text(f" \n{text}\n", encoding)
    lines = [json.dumps(record, ensure_ascii=plain) for record in records]
    assume(not lines or not lines[0].startswith("[{"))  # taken for a list of records
    (tmp_path / "b.jsonl").write_text("\n \n".join(lines), encoding)
    files = find_files(str(tmp_path), (".json", ".jsonl"))
    index = open_index(tmp_path, "x", ("spans", "ends", "digest"), lambda: index_of(files))
    result = pickle.loads(pickle.dumps(JsonRecords(files, index, None)))
    assert [result.read_record(i)[0] for i in range(len(result))] == records * 2
    names = [f"{name}[{i}]" for name in ("a.json", "b.jsonl") for i in range(len(records))]
    assert [result.name(i) for i in range(len(result))] == names
    with pytest.raises(IndexError):
        result.read_record(len(result))


@pytest.mark.parametrize("text", ["[1 2]", "[1,]", "[1", "[1]2", "[", "", "[" * 10**6, "[1]\xff"])
def test_a_list_that_is_not_json_is_an_error(
    text: str, make_config: MakeConfig, media: Path
) -> None:
    config = configure(make_config, media, [])
    (media.parent / "train.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"cannot read .*train\.json"):
        make_source(config)


def test_a_worker_is_sent_no_records(make_config: MakeConfig, media: Path) -> None:
    records = [{"conversations": conversation("a" * 100, str(i))} for i in range(200)]
    source = make_source(configure(make_config, media, records))
    sent = pickle.dumps(source)
    assert len(sent) < 3000
    assert pickle.loads(sent)[150, 0] == source[150, 0]
    assert source[150, 0].turns[1].text == "150"


def test_records_and_media_at_a_url(make_config: MakeConfig, media: Path) -> None:
    write_image(media / "a.png", (40, 16))
    write_clip(media / "c.wav")
    record = {
        "image": "a.png",
        "audio": "c.wav",
        "conversations": conversation("<image> <audio>", "One."),
    }
    here = configure(make_config, media, [record])
    root = f"memory://{media.parent.name}"
    files = {"train.json": media.parent / "train.json"}
    files |= {f"media/{name}": media / name for name in ("a.png", "c.wav")}
    for name, path in files.items():
        with fsspec.open(f"{root}/{name}", "wb") as file:
            file.write(path.read_bytes())
    source = {"kind": "llava", "path": f"{root}/train.json", "media": f"{root}/media"}
    there = here.model_copy(update={"source": type(here.source).model_validate(source)})
    processor = make_processor(here, [TEXT, VISION, AUDIO])
    sources = make_source(here), make_source(there)
    examples = [processor.process(source[0, 0]) for source in sources]
    assert_same_examples(*examples)
    assert sources[1].home.parent == there.cache
    assert sources[0].home.parent == there.cache != sources[1].home
    assert sources[0].fingerprint != sources[1].fingerprint


TURNS = conversation("<image> What?", "A cat.")


def base64_of(side: int, form: str = "PNG") -> str:
    return base64.b64encode(encoded_image((side, side), form)).decode()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_media_in_bare_base64_are_read(form: str, tmp_path: Path, make_config: MakeConfig) -> None:
    text = base64_of(20, form)
    path = tmp_path / "a.jsonl"
    lines = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    bare = [text, text.rstrip("="), lines, text.translate(str.maketrans("+/", "-_"))]
    images = [
        *bare,
        *(f"data:image/x;base64,{own}" for own in bare),
        f"DATA:image/x;charset=utf-8;BASE64,{text}",
        f"data:;base64,{quote(text, safe='')}",
    ]
    records = [json.dumps({"conversations": TURNS, "image": own}) + "\n" for own in images]
    path.write_text("".join(records))
    source = make_source(make_config(source={"kind": "llava", "path": path}))
    result = [source[i, 0].of("image")[0].load(3) for i in range(len(images))]
    assert result[0].shape == (20, 20, 3)
    assert all(np.array_equal(own, result[0]) for own in result)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("a" * 10**6, "is no path, nor a medium in base64; valid: a path, a data URI"),
        (base64_of(300)[:-2] + "?!", "is no path, nor a medium in base64"),
        ("https://x/" + "a" * 10**6, "is a URL"),
        ("data:" + "a" * 10**6, "begins a data URI that is not in base64"),
        ("data:image/png;base64," + "?" * 10**6, "what follows 'data:.*' is not base64"),
        ({"path": "b" * 10**6}, "is no path"),
        ([["c" * 10**6]], "is no medium"),
        ("d" * 300, "is not a usable path|is missing"),
    ],
)
def test_no_reason_is_long(
    image: object, reason: str, tmp_path: Path, make_config: MakeConfig
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"conversations": TURNS, "image": image}))
    config = make_config(source={"kind": "llava", "path": path}, tokenizer="bytes")
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    with pytest.raises(SampleError, match=reason) as caught:
        processor.measure(make_source(config)[0, 0])
    assert len(str(caught.value)) < 1100
    assert len(caught.value.fault.text) <= LONGEST


def test_a_reason_is_cut_in_its_middle() -> None:
    fault = SampleFault(FaultKind.PLACE, "begin" + "x" * 10**6 + "end")
    assert len(fault.text) < LONGEST + 50
    assert fault.text.startswith("begin")
    assert fault.text.endswith("end")


def test_no_error_of_data_or_of_a_configuration_is_long() -> None:
    assert len(str(DataError("begin" + "x" * 10**6 + "end"))) < 4 * LONGEST + 50
    assert len(str(ConfigError("a.yaml", ["begin" + "x" * 10**6]))) < 4 * LONGEST + 100


def tar_of(path: Path) -> bytes:
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "a.txt")
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.parquet", "a.json", "a.jsonl"])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "tar", "gzip", "binary"])
def test_a_file_of_another_kind_names_its_kind(
    kind: str, name: str, tmp_path: Path, make_config: MakeConfig
) -> None:
    path = tmp_path / name
    if kind == "parquet":
        pq.write_table(pa.table({"a": [1]}), path)
    elif kind == "tar":
        tar_of(path)
    else:
        arrow = b"\xff\xff\xff\xff\x10\0"
        path.write_bytes({"arrow": arrow, "gzip": gzip.compress(b"a"), "binary": b"a\0b"}[kind])
    message = {"tar": "kind: webdataset", "gzip": "compressed", "binary": "no text"}
    with pytest.raises(DataError, match=f"{path} is .*{message.get(kind, f'kind: {kind}')}"):
        make_source(make_config(source={"kind": "llava", "path": path}))
