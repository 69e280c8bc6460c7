"""Media between tags in a text are refused by name; what is no medium stays a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import FieldsConfig
from data.media.registry import KINDS
from data.sample import SampleError
from data.sources.formats.keys import ShapeError
from data.sources.formats.record import Caption, Conversation, RecordForm
from data.sources.formats.turns import check_tags

MARKS: Any = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
TEXT = "Picture 1: <img>a.png</img>\nWhat is this?"
ANSWER = {"role": "assistant", "content": "A cat."}

NAMES = st.sampled_from(
    ["a.png", "a/b.jpg", "https://a.b/c", "data:image/png;base64,iVBO", "my cat.png", "./", "12345"]
)
TAGS = st.sampled_from([("img", "image"), ("picture", "image"), *((k, k) for k in KINDS)])
SHAPES = st.sampled_from(
    ["<{0}>{1}</{0}>", "<|{0}|>{1}<|/{0}|>", "[{0}]{1}[/{0}]", "<{0}> {1}\n</{0}>"]
)
AROUND = st.sampled_from(["", "Picture 1: ", "\n", "a < b, [c] ", "<p>", "<image>\n"])


@given(AROUND, SHAPES, TAGS, NAMES, AROUND, st.booleans())
def test_a_medium_between_tags_is_refused_by_name(
    before: str, shape: str, tag: tuple[str, str], name: str, behind: str, upper: bool
) -> None:
    word, kind = tag
    named = shape.format(word.upper() if upper else word, name)
    with pytest.raises(ShapeError) as caught:
        check_tags("turns.0", before + named + behind, MARKS)
    assert str(caught.value).startswith(f"turns.0: {named!r}: {kind} media are not read from tags")
    assert f"valid: <{kind}> in its place and the path in {kind}s" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "![](a.png) and ![a cat](https://a.b/c.png)",
        '<img src="a.png"> <img src="a.png"></img> <video controls>no</video>',
        "<video>Your browser does not support this, see a.b/c.</video>",
        "<audio></audio> and <img></img>",
        "<image>\nWhat is in <image>a.png?",
        "a < b, [0] <imgs>a.png</imgs> [image] and [/img] <b>a.png</b> <img>a cat</b>",
        "<image><url>a.png</url></image>",
        "<img>one\ntwo.png</img>",
    ],
)
def test_other_texts_stay(text: str) -> None:
    marks = {"image": "<image>"} if "<audio>" in text else MARKS
    check_tags("turns.0", text, marks)


@pytest.mark.parametrize("text", ["<img>a.png What?", "[img] a.b/c.JPG", "<|audio|>a.wav\nWhat?"])
def test_a_file_behind_a_tag_that_nothing_closes_is_refused(text: str) -> None:
    with pytest.raises(ShapeError, match="are not read from tags"):
        check_tags("turns.0", text, MARKS)


def test_tags_around_a_placeholder_are_refused_without_a_name_as_well() -> None:
    with pytest.raises(ShapeError, match="'<image></image>'"):
        check_tags("turns.0", "<image></image>", MARKS)
    check_tags("turns.0", "<image></image>", {})


def test_a_message_about_a_long_medium_is_short() -> None:
    with pytest.raises(ShapeError) as caught:
        check_tags("turns.0", f"<img>data:image/png;base64,{'A' * 10**6}</img>", MARKS)
    assert len(str(caught.value)) < 500


def parse(record: object, beside: Any = None) -> Conversation:
    return RecordForm(FieldsConfig(), MARKS).parse("r", record, beside)


@pytest.mark.parametrize(
    ("record", "place"),
    [
        ({"conversations": [{"from": "user", "value": TEXT}]}, "conversations.0"),
        ({"messages": [{"role": "system", "content": TEXT}]}, "messages.0"),
        ({"messages": [ANSWER | {"content": TEXT}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": TEXT, "images": ["a.png"]}]}, "messages.0"),
        ({"texts": [{"user": "Hi", "assistant": TEXT}]}, "texts.0"),
        ({"question": TEXT, "answer": "A cat."}, "question"),
        ({"question": "Hi", "answer": TEXT}, "answer"),
        ({"instruction": "Hi", "input": TEXT, "output": "A cat."}, "input"),
        ({"query": "Hi", "response": "A cat.", "history": [["a", "b"], [TEXT, "c"]]}, "history.1"),
        (Caption(TEXT), "caption"),
    ],
)
def test_every_text_of_a_record_is_looked_at(record: object, place: str) -> None:
    with pytest.raises(SampleError) as caught:
        parse(record, {"image": ["b.png"]} if isinstance(record, Caption) else None)
    told = caught.value.fault.text
    assert told.startswith(f"record of wrong shape: {place}: '<img>a.png</img>': image media are")


def test_in_parts_and_in_the_field_of_a_system_message_tags_are_words() -> None:
    parts = [{"type": "text", "text": TEXT}]
    found = parse({"system": TEXT, "messages": [{"role": "user", "content": parts}, ANSWER]})
    assert [turn.text for turn in found.turns] == [TEXT, TEXT, "A cat."]
    typed = [*parts, {"type": "image", "image": "b.png"}]
    found = parse({"messages": [{"role": "user", "content": typed}, ANSWER | {"content": TEXT}]})
    assert [turn.text for turn in found.turns] == [f"{TEXT}<image>", TEXT]
