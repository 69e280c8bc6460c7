"""Arrow files as `datasets` saves them: which belong to a data set, and what damaged ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from data.processing.processor import make_processor
from data.sample import DataError
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, media_counts
from tests.data.sources.formats.test_parquet import PNG, table
from tests.data.sources.formats.writers import encoded_clip, saved


@pytest.fixture
def opened(make_config: MakeConfig, tmp_path: Path) -> Any:
    """Opens a place as a source."""

    def make(path: Path, **options: Any) -> Any:
        source = {"kind": "arrow", "path": path} | options
        config = make_config(source=source, tokenizer="bytes", cache=tmp_path / "cache")
        return make_source(config), make_processor(config, [TEXT, VISION, AUDIO])

    return make


def test_files_that_the_list_does_not_name_are_none_of_the_data_set(
    opened: Any, tmp_path: Path
) -> None:
    saved(tmp_path / "set", table(5))
    # `map` of datasets keeps its results in the folder of the data set.
    (tmp_path / "set" / "cache-00ff.arrow").write_bytes(b"other rows")
    source, processor = opened(tmp_path / "set")
    assert len(source) == 5
    assert source.name(4) == "data-00001-of-00002.arrow[1]"
    assert media_counts(processor.measure(source[4, 0])) == {"vision": (5,)}
    alone, _ = opened(tmp_path / "set" / "data-00000-of-00002.arrow")
    assert len(alone) == 3


def test_a_folder_of_splits_asks_for_one(opened: Any, tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / "all").mkdir(exist_ok=True)
        saved(tmp_path / "all" / split, table(2))
    with pytest.raises(DataError, match=r"the data sets test, train; valid: .*/all/test"):
        opened(tmp_path / "all")
    assert len(opened(tmp_path / "all" / "train")[0]) == 2


def test_media_may_be_missing_paths_or_lists(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "0.png").write_bytes(PNG)
    stored = table().schema.field("image").type
    cells = [{"bytes": None, "path": "0.png"}, None, {"bytes": PNG, "path": None}]
    answer = {"from": "gpt", "value": "A cat."}
    message = [[{"from": "human", "value": text}, answer] for text in ("<image>", "?", "<image>")]
    saved(tmp_path / "set", table(3, conversations=message, image=pa.array(cells, stored)))
    source, processor = opened(tmp_path / "set", media=str(tmp_path / "set"))
    assert [processor.measure(source[i, 0]).counts("vision") for i in range(3)] == [
        (5,),
        (),
        (5,),
    ]


@pytest.mark.parametrize("cut", [0, 3, 40, 300, -40])
def test_a_file_that_is_cut_off_is_an_error(cut: int, opened: Any, tmp_path: Path) -> None:
    saved(tmp_path / "set", table(4))
    path = tmp_path / "set" / "data-00001-of-00002.arrow"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"data-00001-of-00002\.arrow is (no stream|damaged)"):
        opened(tmp_path / "set")


def test_what_is_no_data_set_is_told(opened: Any, tmp_path: Path) -> None:
    saved(tmp_path / "set", table(4))
    state = tmp_path / "set" / "state.json"
    for text, message in (
        ('{"_data_files": [{"filename": "gone.arrow"}]}', "lists .*gone.arrow"),
        ("{}", "lists no files: KeyError"),
        ("{", "lists no files"),
    ):
        state.write_text(text)
        with pytest.raises(DataError, match=message):
            opened(tmp_path / "set")
    state.unlink()
    with pytest.raises(DataError, match="expected picture"):
        opened(tmp_path / "set", fields={"image": "picture"})


@pytest.mark.filterwarnings("ignore")  # of dill, which datasets calls
def test_a_data_set_that_datasets_has_saved_is_read(opened: Any, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    turns = [{"from": "human", "value": "<image><audio> What?"}, {"from": "gpt", "value": "A cat."}]
    rows = {
        "conversations": [turns] * 7,
        "image": [{"bytes": PNG, "path": None}] * 7,
        "audio": [{"bytes": encoded_clip(800), "path": "a.wav"}] * 7,
    }
    turn = {"from": datasets.Value("string"), "value": datasets.Value("string")}
    features = datasets.Features(
        conversations=datasets.List(turn),
        image=datasets.Image(),
        audio=datasets.Audio(decode=False),
    )
    # From a table, as the package encodes clips by torch.
    table = pa.table(rows, schema=features.arrow_schema)
    result = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint="00")
    result.save_to_disk(tmp_path / "set", num_shards=2)
    result.to_parquet(tmp_path / "set.parquet")
    source, processor = opened(tmp_path / "set")
    tables, _ = opened(tmp_path / "set.parquet", kind="parquet")
    assert len(source) == len(tables) == 7
    for index in (6, 0):
        one, other = processor.process(source[index, 0]), processor.process(tables[index, 0])
        assert one.lengths == other.lengths
        assert media_counts(one.lengths) == {"vision": (5,), "audio": (10,)}
    assert json.loads((tmp_path / "set" / "state.json").read_text())["_data_files"]
