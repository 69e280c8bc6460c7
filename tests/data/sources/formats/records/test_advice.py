"""Advice about records can be followed: the configuration takes it, and the record goes on."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from data.config import DataConfig, FieldsConfig, LlavaSource
from data.sample import DataError, SampleError
from data.sources.formats.conversations import form_of
from data.sources.formats.prompts import QuestionForm, open_questions, program_questions
from data.sources.formats.records.fields import ANSWERS, CONVERSATIONS, QUESTIONS
from data.sources.formats.records.forms import CHATS
from data.sources.formats.records.keys import HARMLESS, REFUSED_OF_RECORDS, TURNS, WEIGHTS
from data.sources.formats.records.record import RecordForm
from tests.configs import config

MARKS: Any = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
MOST = 12  # pieces of advice that are followed one after the other
ADVISED = re.compile(r"data\.source\.(fields|ignore): ")

STORED = {"bytes": b"a", "path": None}
RECORDS: list[dict[str, Any]] = [
    {
        "conversations": [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "b"}],
        "image": STORED,
    },
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "image": STORED},
                    {"type": "image_url", "image_url": {"url": "a.png"}},
                    {"type": "text", "text": "a"},
                ],
            },
            {"role": "assistant", "content": "b"},
        ]
    },
    {"texts": [{"user": "a", "assistant": "b"}], "images": ["a.png", STORED]},
    {"question": "a", "answer": "b", "image": "a.png"},
    {"query": "a", "response": "b", "history": [["c", "d"]]},
    {"prompt": "a", "completion": "b", "audio": "a.wav"},
    {"instruction": "a", "input": "c", "output": "b"},
]
NAMES = [
    *("question", "answer", "answers", "prompt", "query", "response", "completion", "instruction"),
    *(
        "input",
        "output",
        "history",
        "messages",
        "conversations",
        "texts",
        "system",
        "system_prompt",
    ),
    *("sys", "mesages", "Image", "photo", "photos", "image", "images", "image_path", "image_0"),
    *("input_image", "img", "audios", "wav", "video", "image_encoder", "encoder", "context"),
    *("media", "attachment", "type", "text", "index", "url", "path", "bytes", "content", "id"),
    *("0", "12", "1.5", "yes", "null", "a.b", "a.content", "a.0", ".npy", ".", "", "a b", "x: y"),
    *("it's", "a]b", "a}, b", '"', "#", "[", "é", "a\nb", "x" * 95, "x" * 150),
    *TURNS,
    *WEIGHTS,
    *sorted(REFUSED_OF_RECORDS),
    *sorted(HARMLESS)[:5],
    *("image_id", "video_id", "source", "meta", "metadata", "info"),
]
KEYS = st.sampled_from(NAMES) | st.text(max_size=6)
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["x", "a.png", 1, 0.5, True, ["x"], [{"role": "user", "content": "x"}], {"0": "x"}, b"a"]
) | st.sampled_from(
    [{"image": "a.png"}, {"images": ["a.png"]}, {"weight": 0}, {"image_id": 4}, "{}"]
)


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """All mappings in a record: itself, its turns, their parts, and media."""
    if isinstance(value, dict):
        yield value
    for nested in (
        value.values() if isinstance(value, dict) else value if type(value) is list else ()
    ):
        yield from mappings(nested)


@st.composite
def with_unread_keys(draw: st.DrawFn, records: Sequence[Any] = RECORDS) -> dict[str, Any]:
    """A record that is read, with one or two more keys anywhere."""
    record: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(records)))
    for _ in range(draw(st.integers(1, 2))):
        mapping = draw(st.sampled_from([*mappings(record)]))
        mapping.setdefault(draw(KEYS), copy.deepcopy(draw(VALUES)))
    return record


@cache
def data_config() -> DataConfig:
    return config().data


def form(fields: dict[str, str], ignore: tuple[str, ...]) -> RecordForm:
    """The form of a source; the configuration must take what is set."""
    options = LlavaSource(kind="llava", path="a.json", fields=FieldsConfig(**fields), ignore=ignore)
    return form_of(options, data_config())


def refusal(record_form: RecordForm, record: object) -> str | None:
    """Why a record is not read; None if it is."""
    try:
        record_form.parse_record("r", record)
    except SampleError as error:
        return error.fault.text
    return None


def advised(text: str) -> Iterator[dict[str, Any]]:
    """The settings that a message advises, each by itself; those joined by `with` together."""
    settings: dict[str, Any] = {}
    at = 0
    while (match := ADVISED.search(text, at)) is not None:
        if settings and text[at : match.start()] != " with ":
            yield settings
            settings = {}
        value, at = setting(text, match.end())
        settings[match[1]] = value
    if settings:
        yield settings


def setting(text: str, begin: int) -> tuple[Any, int]:
    """The value of a setting that is written in a message, and its end."""
    closing = {"{": "}", "[": "]"}[text[begin]]
    for end in range(begin + 1, len(text)):
        if text[end] == closing:
            try:
                return yaml.safe_load(text[begin : end + 1]), end + 1
            except yaml.YAMLError:
                continue
    raise AssertionError(text)


def without(value: Any, place: str) -> Any:
    """A record without the key at a place of a message; None if there is no such key."""
    for key in value if isinstance(value, dict) else range(len(value)):
        if place == f"{key}":
            return {nested: value[nested] for nested in value if nested != key}
        if place.startswith(f"{key}.") and isinstance(value[key], dict | list):
            inner = without(value[key], place.removeprefix(f"{key}."))
            if inner is not None:
                other = copy.copy(value)
                other[key] = inner
                return other
    return None


def check_without(record_form: RecordForm, record: dict[str, Any], message: str) -> None:
    """Leaving a key out, where that is advised, has an effect."""
    place = message.removeprefix("record of wrong shape: ").partition(": it is not read")[0]
    other = without(record, place) if "leave it out" in message else None
    assert other is None or refusal(record_form, other) != message


def follow(
    record: dict[str, Any], fields: dict[str, str], ignore: tuple[str, ...], seen: tuple[str, ...]
) -> None:
    """Follow whatever is advised, and what is advised then, to the end."""
    record_form = form(fields, ignore)
    message = refusal(record_form, record)
    if message is None:
        return
    assert message not in seen
    assert len(seen) < MOST
    check_without(record_form, record, message)
    for more in advised(message):
        options, ignored = more.get("fields", fields), more.get("ignore", ignore)
        follow(record, options, tuple(ignored), (*seen, message))


SETTINGS = st.sampled_from(
    [
        {},
        {"image": "photo"},
        {"system": "sys", "video": "x" * 95},
        {"image": "image"},
        {"conversation": "messages"},
        {"question": "question", "answer": "answer", "image": "picture of it"},
    ]
)
IGNORED = st.sampled_from([(), ("seen",), ("seen", "messages.seen"), ("y" * 60, "z" * 60)])


@given(with_unread_keys(), SETTINGS, IGNORED)
def test_whatever_is_advised_can_be_followed(
    record: dict[str, Any], fields: dict[str, str], ignore: tuple[str, ...]
) -> None:
    follow(record, fields, ignore, ())


TWO_PAIRS = {"question": "a", "answer": "b", "query": "c", "response": "d"}


@pytest.mark.parametrize(
    ("record", "settings"),
    [
        (TWO_PAIRS, [{"question": "question", "answer": "answer"}, {"question": "query"}]),
        (
            TWO_PAIRS | {"instruction": "e", "output": "f", "input": "g"},
            [{"answer": "answer"}, {"answer": "response"}],
        ),
        (
            TWO_PAIRS | {"history": [["e", "f"]]},  # which would be lost of the other pair
            [{"question": "question", "answer": "answer"}],
        ),
        (
            {"conversations": RECORDS[0]["conversations"], "messages": RECORDS[1]["messages"]},
            [{"conversation": "conversations"}, {"conversation": "messages"}],
        ),
        (RECORDS[1] | {"image": "a.png", "images": ["b.png"]}, [{"image": "image"}, {}]),
        (RECORDS[1] | {"image": "a", "images": ["b"], "seen": 1}, [{"image": "image"}, {}]),
        (RECORDS[1] | {"audio": "a.wav", "audios": ["b.wav"]}, [{"audio": "audio"}, {}]),
        (
            {"question": "a", "answer": "b", "image": "a.png"}
            | {"image_encoder": "a", "image_encoders": ["b"]},
            [{"image_encoder": "image_encoder"}, {"image_encoder": "image_encoders"}],
        ),
    ],
)
def test_which_of_two_is_meant_is_settled_in_one_step(
    record: dict[str, Any], settings: list[dict[str, str]]
) -> None:
    ignored = ("seen",)
    record_form = form({}, ignored)
    message = refusal(record_form, record) or ""
    every = [*advised(message)]
    for more, expected in zip(every, settings, strict=True):
        assert more["fields"] | expected == more["fields"]
        assert refusal(form(more["fields"], tuple(more["ignore"])), record) is None
    follow(record, {}, ignored, ())


SORTS: st.SearchStrategy[Any] = st.sampled_from(
    ["x", "", None, 3, ["x", "y"], {"text": ["x"]}, [], [{"role": "assistant", "content": "x"}]]
)
LIKELY = (*QUESTIONS, *ANSWERS, *CHATS, *CONVERSATIONS, "file_name", "image", "images", "content")


@given(st.dictionaries(st.sampled_from(LIKELY), SORTS, max_size=4), SETTINGS)
def test_names_that_are_proposed_are_those_of_a_form_that_is_read(
    record: dict[str, Any], fields: dict[str, str]
) -> None:
    """So that a list of answers, or a text alone, is not proposed as an answer."""
    follow(record, fields, (), ())
    message = refusal(form(fields, ()), record) or ""
    for proposal in advised(message) if "or others by" in message else ():
        then = refusal(form(proposal["fields"], ()), record) or ""
        assert not re.search("neither a question|not a text|several right|not JSON", then)


@given(with_unread_keys() | st.dictionaries(st.sampled_from(LIKELY), SORTS, max_size=4))
def test_every_key_of_a_record_that_is_read_was_met(record: dict[str, Any]) -> None:
    for record_form in (form({}, ()), QUESTION_FORM):
        if refusal(record_form, record) is None:
            met = record_form.parse_record("r", record).met
            assert {*met.read, *met.passed} >= {key for key, value in record.items() if value}


# ---- questions for a model -----------------------------------------------------------------------

QUESTION_FORM = QuestionForm(FieldsConfig(), MARKS)
ASKED: list[dict[str, Any]] = [
    *RECORDS,
    {"prompt": "a", "image": "a.png", "answers": ["b", "c"], "source": "s", "id": 7},
    {"question": "a", "choices": ["b", "c"], "answer": "A"},
]


@given(with_unread_keys(ASKED) | st.dictionaries(st.sampled_from(LIKELY), SORTS, max_size=4))
def test_questions_are_read_as_strictly_and_told_what_has_an_effect(record: dict[str, Any]) -> None:
    """No command that answers questions reads `data.source`, and none learns."""
    message = refusal(QUESTION_FORM, record)
    if message is None:
        return
    assert "data.source" not in message
    assert "learnt" not in message
    # Training reads nothing more, but for a conversation without turns, which is refused later.
    assert refusal(form({}, ()), record) is not None or message.endswith("a text or with media")
    check_without(QUESTION_FORM, record, message)


@given(with_unread_keys(ASKED))
def test_what_is_written_below_metadata_is_accepted_where_that_is_advised(
    record: dict[str, Any],
) -> None:
    message = refusal(QUESTION_FORM, record) or ""
    key = message.removeprefix("record of wrong shape: ").partition(": ")[0]
    if "write it below metadata" in message and key in record and "metadata" not in record:
        other = {name: value for name, value in record.items() if name != key}
        then = refusal(QUESTION_FORM, other | {"metadata": {key: record[key]}}) or ""
        assert then == (refusal(QUESTION_FORM, other) or "")


@pytest.mark.parametrize("key", ["media", "attachment", "context", "seen", "input_image", "img"])
@pytest.mark.parametrize("value", ["x", "a.png"])
def test_a_key_of_a_question_that_nobody_reads_is_told(key: str, value: str) -> None:
    records = {"prompt": "What?", key: value}, {"prompt": "What?", "metadata": {key: value}}
    source = program_questions(data_config(), records, Path())
    with pytest.raises(SampleError, match=f"record of wrong shape: {key}: .* not read") as caught:
        source[0, 0]
    if value == "a.png" or key in ("input_image", "img"):
        assert str(caught.value).endswith("if it decides nothing, leave it out")
        with pytest.raises(SampleError, match=rf"metadata\.{key}: it names image media, and the"):
            source[1, 0]
        return
    assert str(caught.value).endswith(
        "if it decides nothing, write it below metadata, or leave it out"
    )
    assert source[1, 0].turns[0].text == "What?"


@pytest.mark.parametrize(
    "begin", [b"PAR1", b"ARROW1", b"\x1f\x8b", b"\0" * 257 + b"ustar\0", b"[\n"]
)
def test_a_file_of_no_questions_is_told_without_keys_of_a_configuration(
    begin: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_bytes(begin)
    with pytest.raises(DataError, match=r"jsonl (is|begins with) ") as caught:
        open_questions(data_config(), str(file))
    assert not re.search(r"kind|data\.source", str(caught.value).partition("jsonl")[2])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"problem": "a"}, "it has problem; problem may be meant as prompt"),
        ({"text": "a"}, "it has text; text may be meant as prompt"),
        ({"prompt": None, "image": "a"}, "prompt: Field required; it has image, null in prompt"),
        ({"prompt": "a", "question": "b"}, "it has question and prompt; valid: one of them"),
        ({"prompt": "a", "image": "b", "images": ["c"]}, "it has image and images; valid: one of"),
        ({"prompt": "a", "image": None}, "image holds no medium, and the texts would be asked"),
        ({"prompt": "a", "response": "b"}, "response: it is not read, and like answer, which is"),
        ({"prompt": "a", "options": ["b"]}, "options: it is not read, and like choices, which is"),
        ({"prompt": "a", "weight": 1}, "weight: questions have no weights; valid: without"),
        ({"prompt": "a", "sys": "b"}, "sys: valid: system$"),
        ({"prompt": [{"role": "user", "content": "a"}]}, "prompt: a list of messages; valid: this"),
        ({"prompt": ""}, "neither a question nor a medium; valid: one of them, or messages$"),
        (
            {"prompt": "a", "completion": ["b"]},
            "completion: several right answers; valid: answers$",
        ),
        ({"tools": [{}], "messages": []}, "tools: tools and calls of tools are not read yet"),
    ],
)
def test_what_is_wrong_with_a_question_is_told(record: dict[str, Any], message: str) -> None:
    assert re.search(message, refusal(QUESTION_FORM, record) or "")


@pytest.mark.parametrize("name", ["prompt", "question", "query", "instruction"])
@pytest.mark.parametrize("answer", [None, "b", ["b", "c"], 7])
def test_a_question_has_any_of_its_names_and_answers_beside(name: str, answer: Any) -> None:
    turns = QUESTION_FORM.parse_record("r", {name: "a", "answer": answer, "image": "a.png"}).turns
    assert [(turn.role, turn.text) for turn in turns] == [("user", "<image>\na")]


def test_weights_of_answers_decide_nothing_in_a_question() -> None:
    turns = [{"role": "user", "content": "a", "weight": 1}]
    assert refusal(QUESTION_FORM, {"messages": turns}) is None
