"""Records in JSON and JSON Lines: where they are, on this machine or behind a URL."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import fsspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data.processing.processor import make_processor
from data.sample import DataError
from data.sources.formats.index import open_index
from data.sources.formats.llava import JsonRecords
from data.sources.formats.llava import _index as index_of
from data.sources.formats.storage import find_files
from data.sources.make import make_source
from tests.data.samples import AUDIO, VISION, MakeConfig, assert_same_examples
from tests.data.sources.formats.test_llava import configure, conversation, write_clip, write_image

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
    found = pickle.loads(pickle.dumps(JsonRecords(files, index, None)))
    assert [found.read(i)[0] for i in range(len(found))] == records * 2
    names = [f"{name}[{i}]" for name in ("a.json", "b.jsonl") for i in range(len(records))]
    assert [found.name(i) for i in range(len(found))] == names
    with pytest.raises(IndexError):
        found.read(len(found))


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
    assert pickle.loads(sent)[150] == source[150]
    assert source[150].turns[1].text == "150"


def test_records_and_media_behind_a_url(make_config: MakeConfig, media: Path) -> None:
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
    processor = make_processor(here, [VISION, AUDIO])
    sources = make_source(here), make_source(there)
    examples = [processor.process(source[0]) for source in sources]
    assert_same_examples(*examples)
    assert sources[1].home == there.cache
    assert sources[0].home == media.parent
    assert sources[0].fingerprint != sources[1].fingerprint
