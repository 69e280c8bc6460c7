"""One record form: LLaVA's turns and chat messages mean the same, and bad shapes are told."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from data.config import FieldsConfig
from data.sample import SampleError, Turn
from data.sources.formats.file_bytes import LoadedBytes
from data.sources.formats.records.record import ParsedConversation, RecordForm
from data.sources.formats.records.turns import StoredMedium

MARKS: Any = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
FORM = RecordForm(FieldsConfig(), MARKS)
SPEAKERS = {"user": "human", "assistant": "gpt", "system": "system"}


def parse(record: object, attached: Any = None, **fields: str) -> ParsedConversation:
    return RecordForm(FieldsConfig(**fields), MARKS).parse_record("r", record, attached)


pieces = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.sampled_from(["What?", "\n", "a b", "."])),
        st.tuples(st.just("image"), st.sampled_from(["a.png", "b.png"])),
        st.tuples(st.just("audio"), st.sampled_from(["a.wav", "b.wav"])),
    ),
    max_size=5,
)
dialogues = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), pieces).filter(
        lambda own: own[0] != "user" or any(value.strip() for _, value in own[1])
    ),
    min_size=1,
)
Dialogue = list[tuple[str, list[tuple[str, str]]]]


def as_llava(dialogue: Dialogue) -> dict[str, Any]:
    turns = [
        {
            "from": SPEAKERS[role],
            "value": "".join(MARKS.get(kind, value) for kind, value in content),
        }
        for role, content in dialogue
    ]
    media: dict[str, Any] = {"image": [], "audio": []}
    for _, content in dialogue:
        for kind, value in content:
            if kind in media:
                media[kind].append(value)
    return {"conversations": turns, **media}


def as_parts(dialogue: Dialogue) -> dict[str, Any]:
    return {
        "messages": [
            {"role": role, "content": [{"type": kind, kind: value} for kind, value in content]}
            for role, content in dialogue
        ]
    }


def as_bare_parts(dialogue: Dialogue) -> dict[str, Any]:
    """Media beside the messages, as trainers of chat models have them."""
    parts = as_parts(dialogue)
    for message in parts["messages"]:
        for part in message["content"]:
            if part["type"] != "text":
                del part[part["type"]]
    attached = as_llava(dialogue)
    return parts | {"images": attached["image"], "audios": attached["audio"]}


def as_texts(dialogue: Dialogue) -> dict[str, Any]:
    record = as_llava(dialogue)
    names = {speaker: role for role, speaker in SPEAKERS.items()}
    turns = [{"role": names[t["from"]], "content": t["value"]} for t in record.pop("conversations")]
    return {"messages": turns, **record}


@given(dialogues)
def test_all_forms_of_a_dialogue_are_the_same_conversation(dialogue: Dialogue) -> None:
    expected = parse(as_llava(dialogue))
    assert [turn.role for turn in expected.turns] == [role for role, _ in dialogue]
    for form in (as_parts, as_bare_parts, as_texts):
        assert parse(form(dialogue)) == expected
    table = {"messages": json.dumps(as_parts(dialogue)["messages"]), "conversations": None}
    assert parse(table) == expected


@given(st.permutations(["a", "b", "c"]), st.data())
def test_parts_name_media_beside_them_by_their_place(order: list[str], data: Any) -> None:
    more = data.draw(st.lists(st.sampled_from(order), max_size=2))
    parts = [{"type": "image", "index": "abc".index(name)} for name in [*order, *more]]
    content = [{"type": "text", "text": "x", "index": None}, *parts]
    conversation = parse(
        {"messages": [{"role": "user", "content": content}], "images": ["a", "b", "c"]}
    )
    assert conversation.media["image"] == [*order, *more]


@pytest.mark.parametrize(
    ("part", "kind", "medium"),
    [
        ({"type": "image", "image": "a"}, "image", "a"),
        ({"type": "image", "path": "a", "text": None, "url": None}, "image", "a"),
        ({"type": "image", "url": "a"}, "image", "a"),
        ({"type": "image_url", "image_url": {"url": "a", "detail": "low"}}, "image", "a"),
        ({"type": "image_url", "image_url": "a"}, "image", "a"),
        ({"type": "image", "image": b"a"}, "image", b"a"),
        (
            {"type": "image", "image": {"bytes": b"a", "path": None}},
            "image",
            StoredMedium(bytes=b"a", path=None),
        ),
        ({"type": "audio", "audio": "a"}, "audio", "a"),
        ({"type": "audio_url", "audio_url": {"url": "a"}}, "audio", "a"),
        (
            {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "wav"}},
            "audio",
            "data:;base64,YQ==",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "DATA:;base64,YQ=="}},
            "audio",
            "DATA:;base64,YQ==",
        ),
    ],
)
def test_parts_of_messages_as_others_write_them(part: Any, kind: Any, medium: Any) -> None:
    conversation = parse({"messages": [{"role": "user", "content": [part]}]})
    assert conversation.turns == (Turn("user", MARKS[kind]),)
    assert list(conversation.media[kind]) == [medium]


def test_columns_of_text_are_a_question_and_an_answer() -> None:
    record: dict[str, Any] = {"q": "What?", "a": "A cat.", "picture": "a.png"}
    record["audios"] = ["b.wav", "c.wav"]
    conversation = parse(record, question="q", answer="a", image="picture")
    assert conversation.turns == (
        Turn("user", "<image>\n<audio>\n<audio>\nWhat?"),
        Turn("assistant", "A cat."),
    )
    assert conversation.media == {"image": ["a.png"], "audio": ["b.wav", "c.wav"], "video": ()}
    placed = parse(record | {"q": "Is <image> it?"}, question="q", answer="a", image="picture")
    assert placed.turns[0].text == "<audio>\n<audio>\nIs <image> it?"
    del record["q"], record["audios"]
    assert parse(record, answer="a", image="picture", audio="none").turns[0].text == "<image>\n"
    with pytest.raises(SampleError, match="neither a question nor a medium before the answer"):
        parse({"a": "Text."}, answer="a")


def test_media_that_come_with_a_record_are_for_one_that_names_none() -> None:
    attached = {
        "image": [LoadedBytes("x.png", b"")],
        "audio": [LoadedBytes("x.wav", b"")],
        "video": (),
    }
    turns = {"conversations": [{"from": "gpt", "value": "a"}]}
    assert parse(turns, attached).media == attached
    assert parse(turns | {"image": "a.png"}, attached).media["image"] == ["a.png"]
    part = {"type": "image", "image": "b.png"}
    inner = parse({"messages": [{"role": "user", "content": [part]}]}, attached)
    assert inner.media == attached | {"image": ["b.png"]}


def test_numbers_under_the_name_of_videos_are_no_media() -> None:
    turns = {"conversations": [{"from": "gpt", "value": "a"}]}
    assert parse(turns | {"video": 3}).media["video"] == ()
    assert parse(turns | {"video": "a.mp4"}).media["video"] == ["a.mp4"]
    asked = parse({"question": "q", "answer": "a", "video": 1.0})
    assert asked.media["video"] == ()
    with pytest.raises(SampleError, match="video holds no medium"):
        parse({"question": "q", "answer": "a", "video": ""})


def test_the_one_answer_of_several_is_proposed() -> None:
    record = {"question": "q", "multiple_choice_answer": "a", "answers": ["a", "b"]}
    with pytest.raises(SampleError, match="answer: multiple_choice_answer"):
        parse(record)


@pytest.mark.parametrize("name", ["transcription", "transcript", "sentence", "text"])
def test_what_is_said_in_a_clip_is_proposed_as_the_answer(name: str) -> None:
    record = {"audio": "a.wav", name: "Hello."}
    with pytest.raises(SampleError, match=rf"or others by data.source.fields: {{answer: {name}}}$"):
        parse(record)
    assert parse(record, answer=name).media["audio"] == ["a.wav"]


MESSAGE = {"role": "user", "content": "a"}
PLACED: dict[str, Any] = {"type": "image"}

#: Values that are false, and yet not absent.
FALSE: list[Any] = [0, False, 0.0, [], {}]


@pytest.mark.parametrize(
    ("record", "fields", "message"),
    [
        ([], {}, "a list, not a mapping of fields"),
        (None, {}, "null, not a mapping of fields"),
        (
            {"id": 1, "text": "a"},
            {},
            "text: a text alone, as for pretraining; only answers are learnt; valid: messages",
        ),
        ({"id": 1}, {"conversation": "chat"}, "chat: Field required; it has id"),
        (
            {"chat": [], "messages": None},
            {},
            "it has chat, null in messages; valid: conv.*fields: {conversation: chat}",
        ),
        ({"conversations": [{}], "messages": [MESSAGE]}, {}, "it has conversations and messages"),
        (
            {"messages": [MESSAGE], "image": "a", "images": ["b"]},
            {},
            "it has image and images; valid: data.source.fields: {image: image} with data",
        ),
        ({"messages": {}}, {}, "messages: a dict, not a list of turns"),
        ({"messages": ["a"]}, {}, "messages.0: a str, not a turn such as"),
        ({"messages": "nothing"}, {}, "messages: not JSON: Expecting value"),
        ({"messages": ""}, {}, "messages: it is empty; valid: a list of turns, such as {role, con"),
        ({"messages": []}, {}, "messages: it is empty; valid: a list of turns"),
        ({"messages": "[" * 10**6}, {}, "messages: not JSON: maximum recursion"),
        ({"messages": [{"role": "tool", "content": "a"}]}, {}, "messages.0.role: 'tool': tools"),
        ({"messages": [{"role": "you", "content": "a"}]}, {}, "role: 'you'; valid: human, user"),
        ({"messages": [{"role": "user", "content": None}]}, {}, "messages.0.content: null, not a"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, {}, "content.0: a str, not a part"),
        (
            {"messages": [{"role": "user", "content": [{"type": "cloud"}]}]},
            {},
            "messages.0.content.0.type: 'cloud'; valid: text, image",
        ),
        ({"messages": [MESSAGE, {"said": "a"}]}, {}, "messages.1.said: it is not read"),
        ({"messages": [MESSAGE, {}]}, {}, "messages.1.role: Field required; valid: human"),
        ({"messages": [MESSAGE], "image": [1]}, {}, r"image\.0: 1 is no medium; valid: a path"),
        ({"messages": [MESSAGE], "audio": {"a": object()}, "image": {"bytes": 1}}, {}, "image"),
        ({"q": "a", "a": 7}, {"question": "q", "answer": "a"}, "a: an int, not a text"),
        ({"a": "b"}, {"question": "q", "answer": "a"}, "q: null, not a text"),
        *(
            ({"instruction": "a", "input": empty, "output": "b"}, {}, "input: .*, not a text")
            for empty in FALSE
        ),
        (
            {
                "messages": [{"role": "user", "content": [{"type": "image", "image": "a"}]}],
                "image": "b",
            },
            {},
            "image media are both in the messages and beside them",
        ),
        *(
            ({"messages": [{"role": "user", "content": parts}], "images": ["a", "b"]}, {}, message)
            for parts, message in (
                ([PLACED | {"index": 0}], r"indices \[0\] of 2 beside .*; valid: all of these"),
                ([PLACED | {"index": 0}, PLACED], r"the indices \[0, None\] of 2"),
                ([PLACED | {"index": 1}, PLACED | {"index": 2}], r"the indices \[1, 2\] of 2"),
            )
        ),
    ],
)
def test_a_wrong_shape_is_told(record: Any, fields: dict[str, str], message: str) -> None:
    with pytest.raises(SampleError, match=f"sample r: record of wrong shape: .*{message}"):
        parse(record, **fields)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.binary(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["messages", "conversations", "image", "role", "content", "from"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_is_a_conversation_or_a_bad_sample(record: object) -> None:
    with suppress(SampleError):
        assert isinstance(FORM.parse_record("r", record), ParsedConversation)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question": "q"}, "question 'q' has no answer"),
        ({"conversation": "c", "answer": "a"}, "valid: one of them"),
    ],
)
def test_fields_that_contradict_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FieldsConfig(**fields)


PAIR = {"question": "What?", "answer": "A cat."}
ANSWER = {"role": "assistant", "content": "A cat."}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("empty", ["", [], None])
@pytest.mark.parametrize("name", ["messages", "conversations", "texts"])
def test_an_empty_conversation_beside_a_question_and_its_answer_is_none(
    name: str, empty: Any
) -> None:
    assert parse(PAIR | {name: empty}).turns == parse(PAIR).turns
    assert parse(PAIR | {name: empty}, question="question", answer="answer") == parse(PAIR)


@pytest.mark.parametrize("empty", ["", [], None])
def test_an_empty_history_is_none(empty: Any) -> None:
    record = {"query": "What?", "response": "A cat."}
    assert parse(record | {"history": empty}).turns == parse(record).turns


@pytest.mark.parametrize("blank", ["", " \n"])
@pytest.mark.parametrize(
    "record",
    [
        lambda blank: {"messages": [user(blank), ANSWER]},
        lambda blank: {"messages": [user([{"type": "text", "text": blank}]), ANSWER]},
        lambda blank: {"messages": [user([]), ANSWER]},
        lambda blank: {"messages": [user("What?"), ANSWER, user(blank), ANSWER]},
        lambda blank: {"conversations": [{"from": "human", "value": blank}, ANSWER]},
        lambda blank: {"texts": [{"user": blank, "assistant": "a"}]},
        lambda blank: {
            "texts": [{"user": "a", "assistant": "a"}, {"user": blank, "assistant": "b"}]
        },
        lambda blank: {"question": blank, "answer": "a"},
        lambda blank: {"query": "a", "response": "b", "history": [[blank, "c"]]},
    ],
)
def test_an_answer_to_nothing_is_told_in_every_form(record: Any, blank: str) -> None:
    message = "there is neither a question nor a medium|the question is empty; valid: a text"
    with pytest.raises(SampleError, match=message):
        parse(record(blank))


def test_a_medium_alone_is_a_question() -> None:
    shown = [{"type": "image", "image": "a.png"}]
    for record in (
        {"messages": [user(shown), ANSWER]},
        {"messages": [user("<image>"), ANSWER], "image": "a.png"},
        {"messages": [user("") | {"images": ["a.png"]}, ANSWER]},
        {"texts": [{"user": "", "assistant": "A cat."}], "images": ["a.png"]},
        {"question": "", "answer": "A cat.", "image": "a.png"},
    ):
        assert parse(record).turns[0].text.strip() == "<image>"


@pytest.mark.parametrize(
    ("role", "meant"),
    [
        ("developer", "system"),
        ("System", "system"),
        ("Human", "user|human"),
        ("USER ", "user"),
        ("model", "assistant"),
        ("bot", "assistant"),
        ("ChatGPT", "assistant"),
        ("prompter", "user"),
    ],
)
@pytest.mark.parametrize("form", ["role", "from"])
def test_a_role_by_another_name_is_told_with_the_one_that_is_meant(
    role: str, meant: str, form: str
) -> None:
    said = "content" if form == "role" else "value"
    message = f"messages.0.{form}: '{role}'; valid: human, .*, system; ({meant}) may be meant$"
    with pytest.raises(SampleError, match=message):
        parse({"messages": [{form: role, said: "x"}, ANSWER]})


@pytest.mark.parametrize(
    ("part", "valid"),
    [
        ("input_image", "image, image_url"),
        ("image_file", "image, image_url"),
        ("img", "image, image_url"),
        ("picture", "image, image_url"),
        ("wav", "audio, audio_url, input_audio"),
        ("input_video", "video, video_url"),
    ],
)
def test_a_medium_of_another_type_is_told_with_its_type(part: str, valid: str) -> None:
    with pytest.raises(SampleError, match=f"content.0.type: '{part}'; valid: {valid}$"):
        parse({"messages": [user([{"type": part, "image_url": "a.png"}]), ANSWER]})


@pytest.mark.parametrize("value", [True, False, [True]])
def test_a_flag_is_no_video(value: Any) -> None:
    with pytest.raises(SampleError, match=r"video.*(True|False) is no medium; valid: a path"):
        parse(PAIR | {"video": value})
    assert parse(PAIR | {"video": 7}).turns == parse(PAIR).turns


def test_a_mapping_is_told_as_several_answers_if_it_has_a_list() -> None:
    with pytest.raises(SampleError, match="answer: a dict, not a text"):
        parse(PAIR | {"answer": {"text": "A cat."}})
    with pytest.raises(SampleError, match="answer: several right answers"):
        parse(PAIR | {"answer": {"text": ["A cat.", "cat"]}})
