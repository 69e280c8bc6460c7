"""Media that a text names by other words than placeholders are refused; other words stay."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import FieldsConfig
from data.media.registry import MEDIA_TYPES
from data.sample import SampleError
from data.sources.formats.records.keys import ShapeError
from data.sources.formats.records.record import CaptionRecord, ParsedConversation, RecordForm
from data.sources.formats.records.turns import check_tags

MARKS: Any = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
TEXT = "Picture 1: <img>a.png</img>\nWhat is this?"
ANSWER = {"role": "assistant", "content": "A cat."}

NAMES = st.sampled_from(
    ["a.png", "a/b.jpg", "https://a.b/c", "data:image/png;base64,iVBO", "my cat.png", "./", "12345"]
)
TAGS = st.sampled_from([("img", "image"), ("picture", "image"), *((k, k) for k in MEDIA_TYPES)])
SHAPES = st.sampled_from(
    ["<{0}>{1}</{0}>", "<|{0}|>{1}<|/{0}|>", "[{0}]{1}[/{0}]", "<{0}> {1}\n</{0}>"]
)
AROUND = st.sampled_from(["", "Picture 1: ", "\n", "a < b, [c] ", "<p>", "<image>\n"])


@given(AROUND, SHAPES, TAGS, NAMES, AROUND, st.booleans())
def test_a_medium_between_tags_is_refused_by_name(
    before: str, shape: str, tag: tuple[str, str], name: str, after: str, upper: bool
) -> None:
    word, kind = tag
    named = shape.format(word.upper() if upper else word, name)
    with pytest.raises(ShapeError) as caught:
        check_tags("turns.0", before + named + after, MARKS)
    assert str(caught.value).startswith(f"turns.0: {named!r}: {kind} media are not read from tags")
    assert f"valid: <{kind}> in its place and the path in {kind}s" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "![](a.png) and ![a cat](https://a.b/c.png)",
        '<img src="a.png"> <img src="a.png"></img> <video controls>no</video>',
        "<video>Your browser does not support this, see a.b/c.</video>",
        "<audio></audio> and <img>a cat</img>",
        "<image>\nWhat is in <image>\na.png?",
        "a < b, [0] [image] and [/img] <b>a.png</b> <img>a cat</img> [Image: a cat] [VIDEO] Watch",
        "<file>report</file> <media>news</media> <file>src/index.ts</file> <images>3</images>",
        "![image](a.png) [image a.png](b) [image 1](b) ![][image1]\n[image1]: <https://a.b/c.png>",
        "<img src=a.png> <image href='a.png' /> <picture><source></picture> <path d='M0'/>",
        "<file> <media/> <path> <picture> <photo> <speech>",
        "List<Image> is a type, and `<img>` a tag:\n```\n<img>a.png</img> <image_1>\n```",
        "<img src='data:image/png;base64,iVBORw0KGgo'> url(data:image/png;base64,iVBORw0KGgo)",
        "<image_url> <video_id> <media_type> <|im_start|>user <h1> <image of 1 cat> <a1>",
        "<image><url>a.png</url></image>",
        "<img>one\ntwo.png</img>",
    ],
)
def test_other_texts_stay(text: str) -> None:
    marks = {"image": "<image>"} if "<audio>" in text else MARKS
    check_tags("turns.0", text, marks)


@pytest.mark.parametrize(
    "text", ["<img>a.png What?", "<photo>a.png", "[img] a.b/c.JPG", "<|audio|>a.wav\nWhat?"]
)
def test_a_file_after_a_tag_that_nothing_closes_is_refused(text: str) -> None:
    with pytest.raises(ShapeError, match="are not read from tags"):
        check_tags("turns.0", text, MARKS)


OTHERS: dict[str, tuple[str, ...]] = {
    "image": (
        *("<|image_1|>", "<image_1>", "<Image>", "<IMAGE>", "<image/>", "<ImageHere>", "<|image|>"),
        *("<|image_pad|>", "<start_of_image>", "<image_soft_token>", "<image_placeholder>"),
        *("<imageplaceholder>", "<IMG_CONTEXT>", "<img>", "<img/>", "<im_patch>", "[IMG]"),
        *("[IMG_BREAK]", "[image_1]", "<picture_2>", "<img1>", "<image 1>", "<Image 12>"),
        *("< image >", "[Image 1]", "<image #1>", "<img></img>"),
    ),
    "audio": ("<|AUDIO|>", "<|audio_bos|>", "<Audio>", "<SpeechHere>", "<audio1>", "[BEGIN_AUDIO]"),
    "video": ("<VIDEO>", "<|video_pad|>", "<video 1>"),
    "": ("<|vision_start|>", "<__media__>", "<|media|>"),
}


@given(
    st.sampled_from([(own, kind) for kind, every in OTHERS.items() for own in every]),
    st.sampled_from(["", "What? ", "\n", "<image>\n", "a < b "]),
    st.sampled_from(["", " What?", "\nWhat?", "."]),
)
def test_placeholders_of_others_are_refused_with_the_conversion(
    other: tuple[str, str], before: str, after: str
) -> None:
    text, kind = other
    with pytest.raises(ShapeError) as caught:
        check_tags("turns.0", before + text + after, MARKS)
    message = str(caught.value)
    shown = text.partition("</")[0]
    assert message.startswith(f"turns.0: {shown!r}: {kind} media have another".replace("  ", " "))
    assert f"<{kind or 'image'}>" in message
    assert "where each medium lies, and the media in" in message
    assert "in the order of the text" in message


def test_the_placeholders_of_a_configuration_are_no_others() -> None:
    marks: Any = {"image": "<|vision_start|><|image_pad|><|vision_end|>", "audio": "[IMG]"}
    check_tags("turns.0", "".join(marks.values()), marks)
    with pytest.raises(ShapeError, match=r"'<image>': image media have .*: <\|vision_start\|>"):
        check_tags("turns.0", "<image>", marks)


FILES = st.sampled_from(["a.png", "b/c d.jpg", "https://a.b/c.png?d=1", "A.PNG"])
NAMED = (
    *("<{0}>{1}</{0}>", "[{0}]{1}[/{0}]", "<{0}:{1}>", "<{0} {1}>", "<{0}: {1} />", "[{0}: {1}]"),
    '<{0}="{1}">',
)
WORDS = ("images", "image_path", "image_url", "ImagePath", "photo", "imgs", "media", "file", "IMG")


@given(st.sampled_from(NAMED), st.sampled_from(WORDS), FILES, st.sampled_from(["", "<image>\n"]))
def test_a_file_in_any_tag_that_may_mean_a_medium_is_refused(
    shape: str, word: str, name: str, before: str
) -> None:
    with pytest.raises(ShapeError, match="image media are not read from tags in a text"):
        check_tags("turns.0", f"{before}{shape.format(word, name)} What?", MARKS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<audio_path>a.wav</audio_path>", "audio media are not read from tags"),
        ("<media>a.mp4</media>", "video media are not read from tags"),
        ("<image>a.png\nWhat?", "'<image>a.png': image media are not read from tags"),
        ("<image> a.png\nWhat?", "'<image> a.png': image media are not read from tags"),
        ("<image_url>https://a.b/c</image_url>", "image media are not read from tags"),
        ("data:image/png;base64,iVBORw0KGgo What?", "image media are not read from within a text"),
        ("It: data:audio/wav;base64,UklGRiQA", "audio media are not read from within a text"),
    ],
)
def test_other_media_in_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        check_tags("turns.0", text, MARKS)


@pytest.mark.parametrize(
    "many", ["<", "[img]", "<img>", "<img ", "`", "data:image/", "<a" + " " * 9]
)
def test_long_texts_are_looked_through_once(many: str) -> None:
    """So that a text of a megabyte costs no minutes, as patterns that go back would."""
    began = time.process_time()
    check = many * (300_000 // len(many))
    with contextlib.suppress(ShapeError):
        check_tags("turns.0", check, MARKS)
    assert time.process_time() - began < 5


def test_tags_around_a_placeholder_are_refused_without_a_name_as_well() -> None:
    with pytest.raises(ShapeError, match="'<image></image>'"):
        check_tags("turns.0", "<image></image>", MARKS)
    check_tags("turns.0", "<image></image>", {})


def test_a_message_about_a_long_medium_is_short() -> None:
    with pytest.raises(ShapeError) as caught:
        check_tags("turns.0", f"<img>data:image/png;base64,{'A' * 10**6}</img>", MARKS)
    assert len(str(caught.value)) < 500


def parse(record: object, attached: Any = None) -> ParsedConversation:
    return RecordForm(FieldsConfig(), MARKS).parse_record("r", record, attached)


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
        (CaptionRecord(TEXT), "caption"),
        ({"system": "Hi", "question": TEXT, "answer": "A cat."}, "question"),
    ],
)
def test_every_text_of_a_record_is_looked_at(record: object, place: str) -> None:
    with pytest.raises(SampleError) as caught:
        parse(record, {"image": ["b.png"]} if isinstance(record, CaptionRecord) else None)
    message = caught.value.fault.text
    assert message.startswith(
        f"record of wrong shape: {place}: '<img>a.png</img>': image media are"
    )


def test_in_parts_and_in_the_field_of_a_system_message_tags_are_words() -> None:
    parts = [{"type": "text", "text": TEXT}]
    conversation = parse({"system": TEXT, "messages": [{"role": "user", "content": parts}, ANSWER]})
    assert [turn.text for turn in conversation.turns] == [TEXT, TEXT, "A cat."]
    typed = [*parts, {"type": "image", "image": "b.png"}]
    conversation = parse(
        {"messages": [{"role": "user", "content": typed}, ANSWER | {"content": TEXT}]}
    )
    assert [turn.text for turn in conversation.turns] == [f"{TEXT}<image>", TEXT]
