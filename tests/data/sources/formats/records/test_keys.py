"""Every key of a record is read, harmless or told; the page of records says so by examples."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from data.config import FieldsConfig
from data.media.naming import medium_of
from data.sample import DataError, SampleError, Turn
from data.sources.formats.prompts import QuestionForm
from data.sources.formats.records.keys import (
    HARMLESS_KEYS,
    HARMLESS_OF_MESSAGES,
    HARMLESS_OF_PARTS,
    AllowedKeys,
    check_ignored,
)
from data.sources.formats.records.record import CaptionRecord, ParsedConversation, RecordForm
from tests.configs import ROOT

MARKS: Any = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
PAGE = (ROOT / "docs/how-to/records.md").read_text()
PAGE_OF_KEYS = (ROOT / "docs/how-to/record-keys.md").read_text()
ROWS = re.findall(r"(?m)^\| ([^|]+) \| `(\{.*?\})` \| (read|refused: `(.*)`) \|$", PAGE)

ASK = {"role": "user", "content": "What?"}
ANSWER = {"role": "assistant", "content": "A cat."}


def parse(record: object, *ignored: str, attached: Any = None) -> ParsedConversation:
    form = RecordForm(FieldsConfig(), MARKS, AllowedKeys(frozenset(ignored)))
    return form.parse_record("r", record, attached)


def test_fields_that_are_like_those_of_conversations_are_told() -> None:
    assert "it has Messages; Messages is like messages; valid:" in told({"Messages": [ASK, ANSWER]})
    form = RecordForm(FieldsConfig(image="photo"), MARKS)
    with pytest.raises(SampleError, match="image media are read from another key, as data"):
        form.parse_record("r", messages(ASK, ANSWER, image="a", photo="b"))


def told(record: object, *ignored: str) -> str:
    with pytest.raises(SampleError) as caught:
        parse(record, *ignored)
    return caught.value.fault.text


def messages(*turns: Any, **keys: Any) -> dict[str, Any]:
    return {"messages": list(turns), **keys}


@pytest.mark.parametrize("row", ROWS, ids=[name for name, *_ in ROWS])
def test_the_page_of_records_says_what_is_read(row: tuple[str, str, str, str]) -> None:
    _, example, outcome, reason = row
    record = json.loads(example)
    if outcome != "read":
        assert told(record).removeprefix("record of wrong shape: ").startswith(reason)
        return
    conversation = parse(record)
    marks = sum(turn.count(mark) for turn in conversation.turns for mark in MARKS.values())
    assert marks == sum(map(len, conversation.media.values())) == example.count("a.png")
    assert conversation.turns[-1].is_learnt


def test_the_page_of_records_has_every_form_and_key() -> None:
    assert len(ROWS) == PAGE.count("| read |") + PAGE.count("| refused: ") == 42
    keys = {**HARMLESS_KEYS, "in messages": HARMLESS_OF_MESSAGES, "in parts": HARMLESS_OF_PARTS}
    for name, words in keys.items():
        assert f"| {name} | {' '.join(f'`{word}`' for word in words.split())} |\n" in PAGE_OF_KEYS


def test_harmless_keys_change_nothing() -> None:
    plain = messages(ASK | {"images": ["a.png"]}, ANSWER)
    keys = dict.fromkeys(" ".join(HARMLESS_KEYS.values()).split(), "x")
    inner = dict.fromkeys(HARMLESS_OF_MESSAGES.split(), 1)
    conversation = parse(messages(ASK | {"images": ["a.png"]} | inner, ANSWER, **keys))
    assert conversation == parse(plain)
    assert {*conversation.met.passed} == {*keys, *(f"messages.{key}" for key in inner)}
    read = ["messages.role", "messages.content", "messages.images", "messages"]
    assert sorted(conversation.met.read) == sorted(read)


@pytest.mark.parametrize(
    "record",
    [
        messages(ASK, ANSWER, seen=1),
        messages(ASK | {"seen": "x" * 10**6}, ANSWER),
        messages({"role": "user", "content": [{"type": "text", "text": "a", "seen": {}}]}, ANSWER),
        messages(ASK, ANSWER, image={"bytes": b"a", "path": None, "seen": [1]}),
    ],
    ids=["record", "message", "part", "medium"],
)
def test_an_unknown_key_is_told_at_every_level(record: Any) -> None:
    text = told(record)
    path = text.partition("ignore: [")[2].partition("]")[0]
    assert "seen: it is not read" in text
    assert len(text) < 500
    assert path.endswith("seen")
    assert parse(record, path).turns
    assert path in parse(record, path).met.passed


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (messages(ASK, ANSWER, **{"0": 1}), "0"),
        (messages(ASK | {"12": 1}, ANSWER), "messages.12"),
        (messages(ASK, ANSWER, images=[{"bytes": b"a", "1": 1}]), "images.1"),
    ],
)
def test_a_key_of_digits_is_no_number_of_a_list(record: Any, path: str) -> None:
    assert re.search(rf"data\.source\.ignore: \['?{path}'?\]$", told(record))
    assert path in parse(record, path).met.passed


def test_null_is_absent_everywhere() -> None:
    nothing = {"tool_calls": None, "refusal": None, "name": None, "seen": None, "weight": None}
    part = {"type": "text", "text": "What?", "image": None, "image_url": None, "seen": None}
    record = messages({"role": "user", "content": [part], **nothing}, ANSWER | nothing, **nothing)
    assert [turn.text for turn in parse(record).turns] == ["What?", "A cat."]
    assert parse(messages(ASK, ANSWER | {"tool_calls": []}, tools="")).turns[-1].is_learnt


@pytest.mark.parametrize(
    ("key", "like"),
    [
        ("Image", "image"),
        ("imags", "images"),
        ("conversation", "conversations"),
        ("sistem", "system"),
    ],
)
def test_a_misspelt_key_names_the_one_that_is_meant(key: str, like: str) -> None:
    assert like in told(messages(ASK, ANSWER) | {key: "a"})


@pytest.mark.parametrize(
    "key",
    ["image_path", "img", "image_url", "audio_file", "wav", "video_path", "image_0", "pictures"],
)
def test_media_by_other_names_are_told_everywhere(key: str) -> None:
    kind = medium_of(key)
    for record in (
        messages(ASK, ANSWER, **{key: "a"}),
        messages(ASK | {key: "a"}, ANSWER),
        messages({"role": "user", "content": [{"type": "text", "text": "a", key: "a"}]}, ANSWER),
    ):
        assert f"{kind} media are not read from this key" in told(record)


# ---- what is learnt ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["weight", "loss", "train", "trainable", "loss_mask"])
@pytest.mark.parametrize("value", [0, False, 0.0])
def test_an_answer_that_shall_not_be_learnt_is_not(key: str, value: Any) -> None:
    turns = {"from": "human", "value": "a"}, {"from": "gpt", "value": "b", key: value}
    for record in (messages(ASK, ANSWER | {key: value}), {"conversations": list(turns)}):
        assert [turn.is_learnt for turn in parse(record).turns] == [False, False]
    assert parse(messages(ASK | {key: value}, ANSWER | {key: True})).turns[-1].is_learnt
    pair = {"user": "a", "assistant": "b", key: value}
    assert not parse({"texts": [pair]}).turns[-1].is_learnt


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"weight": 0.5}, "messages.1.weight: 0.5; valid: 0 or 1"),
        ({"weight": "0"}, "messages.1.weight: '0'; valid: 0 or 1"),
        ({"loss_mask": [0, 1]}, r"messages.1.loss_mask: \[0, 1\]; valid: 0 or 1"),
        ({"weight": float("nan")}, "messages.1.weight: nan; valid"),
        ({"weight": 0, "train": True}, "weight false and train true contradict"),
        ({"role": "user", "weight": 1}, "a turn of the user is learnt; only answers are"),
        ({"masks": [1]}, "messages.1.masks: parts of answers have no weights"),
        ({"loss_weight": 0}, "messages.1.loss_weight: .* another key; valid: weight 0 or 1"),
        ({"masked": True}, "messages.1.masked: the weight of an answer has another key"),
    ],
)
def test_other_weights_are_refused(turn: Any, reason: str) -> None:
    assert re.search(reason, told(messages(ASK, ANSWER | turn)))


def test_weights_of_records_are_refused() -> None:
    assert "weight: records have no weights" in told(messages(ASK, ANSWER, weight=1))


def test_a_system_message_is_in_one_place() -> None:
    assert parse(messages(ASK, ANSWER, system="S <image>")).turns[0].words == (2,)
    assert len(parse(messages(ASK, ANSWER, system="")).turns) == 2
    assert "system: the conversation has a system message, too" in told(
        messages({"role": "system", "content": "a"}, ASK, ANSWER, system="b")
    )
    assert "system: a list, not a text" in told(messages(ASK, ANSWER, system=["a"]))
    assert "fields: {system: system_prompt}" in told(messages(ASK, ANSWER, system_prompt="a"))


# ---- media ---------------------------------------------------------------------------------------


def test_media_of_a_message_come_where_its_text_says_or_first() -> None:
    conversation = parse(
        messages(ASK | {"images": ["a", "b"]}, ANSWER, ASK | {"audio": "c"}, ANSWER)
    )
    assert conversation.turns[0].text == "<image>\n<image>\nWhat?"
    assert conversation.turns[2].text == "<audio>\nWhat?"
    assert (conversation.media["image"], conversation.media["audio"]) == (["a", "b"], ["c"])
    placed = {"from": "human", "value": "Is <image> it?", "image": "a"}
    (turn, _) = parse({"conversations": [placed, {"from": "gpt", "value": "b"}]}).turns
    assert turn.text == "Is <image> it?"
    assert "1 <image> placeholders for 2 image files" in told(
        {"conversations": [placed | {"image": ["a", "b"]}]}
    )
    assert parse(messages(ASK | {"images": []}, ANSWER)).media["image"] == ()
    part = {"role": "user", "content": [{"type": "image", "image": "a"}], "images": ["b"]}
    assert "in a field of the message and in its parts" in told(messages(part, ANSWER))


def test_a_placeholder_in_a_text_beside_typed_parts_is_a_word() -> None:
    typed = [{"type": "image", "image": "a"}, {"type": "text", "text": "Is it <image> or <audio>?"}]
    record = messages({"role": "user", "content": typed}, ANSWER | {"content": "Not <image>."})
    ask, answer = parse(record).turns
    assert (ask.count("<image>"), ask.count("<audio>"), answer.count("<image>")) == (1, 0, 0)
    assert ask.split_at(re.compile("<image>")) == [
        ("<image>", True),
        ("Is it <image> or <audio>?", False),
    ]
    text = messages({"role": "user", "content": typed[1:]}, ANSWER)
    assert parse(text).turns[0].count("<image>") == 0
    assert parse(messages(ASK | {"content": "<image>"}, ANSWER)).turns[0] == Turn("user", "<image>")


def test_texts_that_spell_a_placeholder_together_are_words() -> None:
    cut = [{"type": "text", "text": "<ima"}, {"type": "text", "text": "ge>"}]
    medium = {"type": "image", "image": "a"}
    for parts in ([*cut, medium], [medium, *cut], [cut[0], medium, cut[1]]):
        turn = parse(messages({"role": "user", "content": parts}, ANSWER)).turns[0]
        assert turn.count("<image>") == 1
        assert "".join(text for text, mark in turn.split_at(re.compile("<image>")) if not mark) == (
            "<image>"
        )


@pytest.mark.parametrize(
    ("parts", "attached", "reason"),
    [
        ([{}], {}, "1 parts of type image .* and 0 image media are beside"),
        ([{}, {}], {"images": ["a"]}, "2 parts .* and 1 image media are beside; valid: as many"),
        ([{}], {"images": ["a", "b"]}, "1 parts .* and 2 image media are beside"),
        ([{"image": "a"}, {}], {}, "1 parts .* and 0 .* {type: image, image: ...}$"),
    ],
)
def test_a_part_without_a_medium_is_told(parts: Any, attached: Any, reason: str) -> None:
    """And not as a placeholder, which nobody wrote."""
    content = [*({"type": "image", **part} for part in parts), {"type": "text", "text": "What?"}]
    result = told(messages({"role": "user", "content": content}, ANSWER, **attached))
    assert re.match(reason, result)


@pytest.mark.parametrize("nothing", [None, "", []])
def test_questions_without_their_media_are_bad(nothing: Any) -> None:
    pair = {"question": "What?", "answer": "A cat."}
    exchange = {"texts": [{"user": "What?", "assistant": "A cat."}]}
    for record in (pair, exchange):
        assert len(parse(record).turns) == 2
        assert "image holds no medium" in told(record | {"image": nothing})
        assert parse(record | {"image": nothing, "audio": "a.wav"}).media["audio"] == ["a.wav"]
        with pytest.raises(SampleError, match="no member of the sample is a medium"):
            parse(record, attached={"image": []})
    assert len(parse(messages(ASK, ANSWER, image=nothing)).turns) == 2


def test_media_of_two_names_are_refused_unless_one_is_empty() -> None:
    assert "it has image and images" in told(messages(ASK, ANSWER, image="a", images=["b"]))
    assert parse(messages(ASK, ANSWER, image="a", images=[])).media["image"] == ["a"]


def test_a_key_that_is_there_twice_is_told() -> None:
    text = json.dumps([ASK, ANSWER])[:-2] + ', "weight": 0, "weight": 1}]'
    assert "messages: not JSON: the key 'weight' is there twice" in told({"messages": text})


PAIR = {"question": "What?", "answer": "A cat."}
MENTIONS: list[dict[str, Any]] = [
    *({key: value} for key in ("image_id", "video_id", "audio_id") for value in (0, "7", "a.png")),
    *({key: "b/a.PNG"} for key in ("source", "url", "id", "key", "origin", "comment", "__key__")),
    {"url": "https://a.b/a.mp4?x=1"},
    {"source": "data:image/png;base64,iVBORw0KGgo"},
    {"tags": ["cat", "a.wav"]},
    {"meta": {"image": "a.png"}},
    {"metadata": {"images": ["a.png"]}},
    {"metadata": '{"image": "a.png"}'},
    {"metadata": {"of": {"image_id": 7}}},
    {"info": {"file": "a.png"}},
    {"info": {"imagePath": "a"}},
]


@pytest.mark.parametrize("keys", MENTIONS, ids=str)
def test_a_harmless_key_that_names_a_medium_is_told_where_there_is_none(
    keys: dict[str, Any],
) -> None:
    """In pairs and messages, learnt and asked; where a medium is, it is harmless."""
    (key,) = keys
    for record in (PAIR, messages(ASK, ANSWER), {"texts": [{"user": "a", "assistant": "b"}]}):
        text = told(record | keys)
        assert re.search(rf"{key}[.\w]*: it names (image|audio|video) media, and the record", text)
        assert text.endswith(f"data.source.ignore: [{key}]")
        assert len(text) < 400
        assert parse(record | keys, key).turns
        assert key in parse(record | keys | {"image": "a.png"}).met.passed
        assert parse(record | keys, attached={"image": ["a.png"]}).turns
    question = QuestionForm(FieldsConfig(), MARKS)
    with pytest.raises(SampleError, match=r"it names .*; or, if it decides nothing, leave it out"):
        question.parse_record("r", {"prompt": "What?"} | keys)
    assert question.parse_record("r", {"prompt": "What?", "audio": "a.wav"} | keys).turns


def test_a_harmless_key_that_names_a_file_may_be_the_field_of_media() -> None:
    assert "image or images, or data.source.fields: {image: source}; or, if it decides" in told(
        PAIR | {"source": "a.png"}
    )
    form = RecordForm(FieldsConfig(image="source"), MARKS)
    assert form.parse_record("r", PAIR | {"source": "a.png"}).media["image"] == ["a.png"]
    assert "data.source.fields" not in told(PAIR | {"image_id": 7})
    assert "data.source.fields" not in told(PAIR | {"meta": {"image": "a.png"}})


@pytest.mark.parametrize(
    "keys",
    [
        {"image_id": None, "video_id": "", "source": "coco"},
        {"id": "a", "url": "https://a.b/c.html", "source": "src/index.ts", "model": "v1.5"},
        {"metadata": {"image": None, "images": [], "lang": "en"}, "num_images": 0},
        {"meta": "{", "info": {"loss": 2.5, "train": "a"}, "comment": "a.png\nis it"},
        {"scores": {"loss": 1}, "tags": ["png", ".png"], "image_id": float("nan")},
    ],
    ids=str,
)
def test_other_harmless_keys_name_no_medium(keys: dict[str, Any]) -> None:
    assert parse(PAIR | keys).turns


def test_media_and_weights_below_metadata_of_messages_are_told() -> None:
    media = {"metadata": {"images": ["a.png"]}}
    assert "messages.0.metadata.images: it names image media" in told(messages(ASK | media, ANSWER))
    assert parse(messages(ASK | media, ANSWER), "messages.metadata").turns
    assert parse(messages(ASK | media, ANSWER, image="a.png")).turns
    for key in ("weight", "loss", "train", "loss_mask", "trainable"):
        weight = {"metadata": {key: 0}}
        for record in (messages(ASK, ANSWER | weight), messages(ASK, ANSWER, image="a", **weight)):
            text = told(record)
            assert f"metadata.{key}: weights are not read from here; valid: weight 0 or 1" in text
            path = "messages.metadata" if "messages.1" in text else "metadata"
            assert text.endswith(f"data.source.ignore: [{path}]")
            assert parse(record, path).turns
    question = messages(ASK | {"metadata": {"weight": 0}})
    assert (
        QuestionForm(FieldsConfig(), MARKS).parse_record("r", question).turns
    )  # nothing is learnt


TALK: list[dict[str, Any]] = [
    {"system": "You are a cat."},
    {"system_prompt": "You are a cat."},
    {"reasoning_content": "Count to two."},
    {"thinking": "Count to two."},
    {"tools": [{"type": "function"}]},
    {"tool_calls": [{"id": "1"}]},
    {"function_call": {"name": "a"}},
    {"of": {"system": "You are a cat."}},
]


@pytest.mark.parametrize("facts", TALK, ids=str)
@pytest.mark.parametrize("key", ["metadata", "meta", "info"])
def test_parts_of_the_conversation_below_metadata_are_told(key: str, facts: dict[str, Any]) -> None:
    for value in (facts, json.dumps(facts)):
        text = told(PAIR | {key: value})
        assert re.match(
            rf"record of wrong shape: {key}\.[\w.]*: a part of the conversation is", text
        )
        assert text.endswith(f"data.source.ignore: [{key}]")
        assert parse(PAIR | {key: value}, key).turns
        with pytest.raises(SampleError, match="a part of the conversation is not read from here"):
            QuestionForm(FieldsConfig(), MARKS).parse_record(
                "r", {"prompt": "a", "metadata": facts}
            )
    inner = {"role": "assistant", "content": "A cat.", "metadata": facts}
    assert "messages.1.metadata" in told(messages(ASK, inner))


def test_facts_about_machines_are_no_part_of_a_conversation() -> None:
    facts = {"system": "linux", "reasoning": True, "thinking": "", "tools": [], "functions": ["a"]}
    assert parse(PAIR | {"metadata": facts, "info": {"thought": None}}).turns


# ---- placeholders in answers ---------------------------------------------------------------------

TAG = "It has an <image> tag."


@pytest.mark.parametrize(
    ("record", "place"),
    [
        ({"question": "What?", "answer": TAG, "image": "a.png"}, "answer"),
        ({"question": "Is <image> it?", "answer": TAG, "images": ["a.png", "b.png"]}, "answer"),
        ({"query": "What?", "response": TAG, "images": ["a.png"]}, "response"),
        (
            {"query": "a", "response": "b", "history": [["a", "b"], ["c", TAG]], "image": "a.png"},
            "history.1",
        ),
        ({"instruction": "a", "input": "b", "output": TAG, "image": "a.png"}, "output"),
        ({"texts": [{"user": "What?", "assistant": TAG}], "images": ["a.png"]}, "texts"),
    ],
)
def test_a_placeholder_in_the_answer_of_a_pair_is_refused(record: Any, place: str) -> None:
    text = told(record)
    assert f"shape: {place}: '<image>' in an answer, where media belong to the question" in text
    assert len(text) < 400
    with pytest.raises(SampleError, match=f"shape: {place}: '<image>' in an answer"):
        QuestionForm(FieldsConfig(), MARKS).parse_record("r", record)


def test_a_placeholder_in_an_answer_is_refused_by_its_medium() -> None:
    assert "caption: '<image>' in an answer" in parse_told(CaptionRecord(TAG), {"image": ["a.png"]})
    assert parse({"question": "What?", "answer": TAG, "audio": "a.wav"}).turns
    assert parse({"question": "What?", "answer": TAG, "video": 3}).turns
    assert parse(messages(ASK, ANSWER | {"content": TAG}, image="a.png")).media["image"]
    part = {"role": "user", "content": [{"type": "image", "image": "a.png"}]}
    assert parse(messages(part, ANSWER | {"content": TAG})).turns[1].count("<image>") == 0
    form = RecordForm(FieldsConfig(answer="text"), MARKS)
    with pytest.raises(SampleError, match="text: '<image>' in an answer"):
        form.parse_record("r", {"text": TAG, "image": "a.png"})


@pytest.mark.parametrize("answer", [{"answer": TAG}, {"answers": ["a", TAG]}])
def test_a_placeholder_in_an_answer_that_is_compared_is_refused(answer: Any) -> None:
    form = QuestionForm(FieldsConfig(), MARKS)
    with pytest.raises(SampleError, match=r"answers?: '<image>' in an answer, where"):
        form.parse_record("r", {"prompt": "What?", "image": "a.png"} | answer)
    assert form.parse_record("r", {"prompt": "What?"} | answer).turns


def test_a_conversation_of_a_question_has_no_medium_in_the_answer_at_its_end() -> None:
    """The question would be asked without its medium."""
    form = QuestionForm(FieldsConfig(), MARKS)
    record = messages(ASK, ANSWER | {"content": TAG}, image="a.png")
    with pytest.raises(SampleError, match="shape: <image> in the answer at the end, which is not"):
        form.parse_record("r", record)
    assert form.parse_record(
        "r", messages(ASK, ANSWER | {"content": TAG}, ASK, ANSWER, image="a")
    ).turns
    part = {"role": "user", "content": [{"type": "image", "image": "a.png"}]}
    assert form.parse_record("r", messages(part, ANSWER | {"content": TAG})).turns


def test_options_that_are_asked_name_no_media() -> None:
    form = QuestionForm(FieldsConfig(), MARKS)
    with pytest.raises(SampleError, match=r"choices\.1: '<image 2>': image media have another"):
        form.parse_record(
            "r", {"prompt": "Which?", "image": "a.png", "choices": ["a", "<image 2>"]}
        )


def parse_told(record: object, attached: Any) -> str:
    with pytest.raises(SampleError) as caught:
        parse(record, attached=attached)
    return caught.value.fault.text


# ---- keys that users declare harmless ------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "image",
        "messages",
        "tools",
        "messages.tool_calls",
        "messages.weight",
        "messages.images",
        "a.content",
        "",
    ],
)
def test_keys_that_decide_cannot_be_ignored(path: str) -> None:
    with pytest.raises(DataError, match=r"data\.source\.ignore: "):
        check_ignored([path], RecordForm(FieldsConfig(), MARKS).all_fields)


def test_a_key_that_fields_replace_can_be_ignored() -> None:
    form = RecordForm(FieldsConfig(image="photo"), MARKS)
    check_ignored(["image", "weight", ".npy"], form.all_fields)
    with pytest.raises(DataError, match="each once"):
        check_ignored(["seen", "seen"], form.all_fields)
