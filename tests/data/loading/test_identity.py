"""Data that have become others are noticed; copies of them are not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from data.config import DataConfig
from data.loading import identity
from data.loading.identity import (
    DataIdentity,
    check_same_data,
    processing_identity,
    source_identities,
)
from data.sample import DataError
from data.sources.formats.storage import SourceFile
from data.sources.make import make_source
from tests.data.samples import BUDGETS, MakeConfig


def record(number: int) -> dict[str, Any]:
    said = [("human", f"Question {number}?"), ("gpt", f"Answer {number}.")]
    return {"conversations": [{"from": who, "value": text} for who, text in said]}


def written(folder: Path, records: int, name: str = "train.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(record(number)) + "\n" for number in range(records)]
    (folder / name).write_text("".join(lines))
    return folder / name


def configure(make_config: MakeConfig, path: Path, **changes: Any) -> DataConfig:
    source = {"kind": "llava", "path": str(path)}
    return make_config(**{"source": source, "tokenizer": "bytes", "budgets": BUDGETS} | changes)


def of(config: DataConfig) -> identity.Identities:
    return source_identities(make_source(config))


def test_fewer_records_are_refused_by_name(make_config: MakeConfig, tmp_path: Path) -> None:
    config = configure(make_config, written(tmp_path, 300))
    before = of(config)
    written(tmp_path, 120)
    with pytest.raises(DataError, match=r"data.source: 300 -> 120 samples, \d+ -> \d+ bytes\n"):
        check_same_data(before, of(config), config)
    accepting = config.model_copy(update={"accept_changes": True})
    (line,) = check_same_data(before, of(config), accepting)
    assert "300 -> 120 samples" in line
    assert check_same_data(before, before, config) == []


def test_a_copy_elsewhere_is_the_same_data(make_config: MakeConfig, tmp_path: Path) -> None:
    path = written(tmp_path / "here", 20)
    before = of(configure(make_config, path))
    (tmp_path / "there").mkdir()
    copied = Path(shutil.copy(path, tmp_path / "there"))
    os.utime(copied, (1, 1))
    assert of(configure(make_config, copied)) == before


@settings(max_examples=20)
@given(at=st.integers(0, 5000), size=st.sampled_from([2**6, 2**16]))
def test_a_changed_byte_is_noticed_where_files_are_looked_at(
    make_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory, at: int, size: int
) -> None:
    """Anywhere in a small file; in a large one, at its ends and in places between."""
    path = written(tmp_path_factory.mktemp("data"), 60)
    content = bytearray(path.read_bytes())
    at = at % len(content)
    file = SourceFile(str(path), len(content), "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "_LOOK", size)
        places = identity._probe_starts(len(content))
        before = identity._digest_files([file])
        content[at] ^= 1
        path.write_bytes(content)
        seen = any(start <= at < start + size for start in places)
        assert (identity._digest_files([file]) != before) is seen
    assert seen or len(content) > size * 32


def test_members_of_a_mixture_are_compared_one_by_one(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    def mixed(**members: Path) -> DataConfig:
        sources = {
            name: {"source": {"kind": "llava", "path": str(path)}} for name, path in members.items()
        }
        source = {"kind": "mixture", "members": sources}
        return configure(make_config, tmp_path, source=source)

    one, two = written(tmp_path / "a", 9), written(tmp_path / "b", 9, "other.jsonl")
    before = of(mixed(one=one, two=two))
    two.write_text(two.read_text().replace("Answer 3", "answer 3"))
    now = mixed(one=one, three=two)
    with pytest.raises(DataError) as error:
        check_same_data(before, of(now), now)
    message = str(error.value).splitlines()[1:3]
    assert message == [
        "  data.source.members.three: was not there before",
        "  data.source.members.two: is no longer there",
    ]
    changed = mixed(one=one, two=two)
    with pytest.raises(DataError, match=r"other data:\n  data.source.members.two: other contents"):
        check_same_data(before, of(changed), changed)


def test_another_tokenizer_is_noticed_wherever_it_lies(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    """A version that noted no tokenizer is the exception: its runs go on with any."""
    records = written(tmp_path, 9)

    def tokens(**changes: Any) -> identity.Identities:
        config = configure(make_config, records, **changes)
        return {**of(config), **processing_identity(config)}

    release = Path(__file__).parents[2] / "parity" / "llava_onevision"
    here, there = (Path(shutil.copytree(release, tmp_path / name)) for name in ("here", "there"))
    of_folder = {"tokenizer": "demo", "processor": here}
    before = tokens(**of_folder)
    config = configure(make_config, records)
    assert tokens(**of_folder | {"processor": there}) == before
    settings = there / "preprocessor_config.json"
    settings.write_text(settings.read_text() + " ")
    with pytest.raises(DataError, match=r"other data:\n  data.processor: other contents"):
        check_same_data(before, tokens(**of_folder | {"processor": there}), config)
    with pytest.raises(DataError, match=r"data.tokenizer: was not .*\n  data.processor: is no"):
        check_same_data(before, tokens(), config)
    assert check_same_data(of(config), before, config) == []

    copied = Path(shutil.copy(here / "tokenizer.json", tmp_path))
    before = tokens(tokenizer=str(copied))
    copied.write_text(copied.read_text() + " ")
    with pytest.raises(DataError, match=r"other data:\n  data.tokenizer: other contents"):
        check_same_data(before, tokens(tokenizer=str(copied)), config)


@pytest.mark.parametrize("change", [{"samples": "3"}, {"digest": 5}, {"lines": 7}])
def test_an_identity_that_is_kept_has_its_types_and_nothing_else(change: dict[str, Any]) -> None:
    """Else a number that another version writes as a text would seem to be other data."""
    values = {"samples": 3, "files": 1, "bytes": 40, "digest": "a"}
    assert DataIdentity.model_validate(values).model_dump() == values
    with pytest.raises(ValidationError, match=next(iter(change))):
        DataIdentity.model_validate(values | change)
