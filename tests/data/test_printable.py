"""Whatever characters a record or the name of a file has, all that is told of it can be printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.faults import LONGEST, FaultKind, SampleFault
from data.quotes import enumerated, printable
from data.sample import DataError, SampleError
from data.sources.make import make_source
from mllm_jax.pages.html.document import write_page
from tests.data.samples import MakeConfig
from tests.data.sources.formats.test_webdataset import PNG
from tests.data.sources.formats.writers import tar

#: Half of a character, a colour of a terminal, a forged line, and a text from right to left.
NAMES = ("\ud800", "\udcff", "\x1b[31m", "a\nINFO b", "\u202eb", "\0")


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_told_is_printable(text: str) -> None:
    fault_text = SampleFault(FaultKind.RECORD, text).text
    assert fault_text.isprintable()
    assert len(fault_text) <= LONGEST
    assert printable(fault_text) == fault_text
    assert f"{DataError(text)}".replace("\n", "").isprintable()
    assert enumerated([text]).isprintable()


def test_what_is_printable_stays_as_it_is() -> None:
    assert printable("é 東 a\\n") == "é 東 a\\n"
    assert printable("a\n\tb", allowed="\n") == "a\n\\tb"
    assert printable("\ud800\x1b") == "\\ud800\\x1b"


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_records_are_told(name: str, tmp_path: Path, make_config: MakeConfig) -> None:
    path = tmp_path / "a.jsonl"
    turns = [{"role": "user", "content": "a", name: 1}, {"role": "assistant", "content": "b"}]
    path.write_text(json.dumps({"messages": turns}))
    source = make_source(make_config(source={"kind": "llava", "path": path}))
    with pytest.raises(SampleError, match="it is not read") as caught:
        source[0, 0]
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", NAMES[1:-1])
def test_samples_are_named(name: str, tmp_path: Path, make_config: MakeConfig) -> None:
    tar(tmp_path / "a.tar", [(f"{name}.png", PNG), (f"{name}.txt", b"A cat.")])
    source = make_source(make_config(source={"kind": "webdataset", "path": tmp_path}))
    assert source.name(0) == source[0, 0].name == f"a.tar:{printable(name)}"
    assert source[0, 0].of("image")[0].load(3).size


def test_a_page_is_written_whatever_it_tells(tmp_path: Path) -> None:
    page = write_page("<p>\ud800</p>", tmp_path / "a.html", "--out")
    assert page.read_text() == "<p>\\ud800</p>"
