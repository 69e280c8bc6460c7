from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data.config import AnswersBegin
from data.hf_format.chat import ReleasedChat
from data.hf_format.files import AddedToken, ReleasedFiles
from data.rows.spec import Kind
from data.sample import ConversationError, DataError, Turn
from data.text.chat import RenderedChat
from tests.data.hf_format.stored import (
    CHATTING,
    DAY,
    ROOT,
    arrays,
    changed,
    composed,
    read_folder,
    read_json,
)

MARKS: dict[Kind, str] = {"image": "<image>", "audio": "<audio>"}
KINDS: dict[str, tuple[Kind, ...]] = {
    "llava": ("image",),
    "llava_onevision": ("image",),
    "qwen2_audio": ("audio",),
}


@cache
def chat_of(family: str, begin: AnswersBegin = "text") -> ReleasedChat:
    marks = {kind: MARKS[kind] for kind in KINDS.get(family, ())}
    return ReleasedChat(read_folder(ROOT / family), marks, DAY, begin)


def with_template(template: str, text: str = "qwen2_5", **changes: Any) -> ReleasedChat:
    files = replace(read_folder(ROOT / text), template=template, **changes)
    return ReleasedChat(files, {}, DAY)


def turns_of(messages: list[dict[str, Any]]) -> list[Turn]:
    """Stored messages as samples have them."""
    return [Turn(message["role"], text_of(message["content"])) for message in messages]


def text_of(content: str | list[dict[str, str]]) -> str:
    if isinstance(content, str):
        return content
    marks = {f"{kind}": mark + "\n" for kind, mark in MARKS.items()}
    return "".join(marks.get(part["type"]) or part["text"] for part in content)


ASK, ANSWER = Turn("user", "What is it?"), Turn("assistant", "A cat.")


def learnt_text(chat: ReleasedChat, rendered: RenderedChat) -> str:
    return chat.decode(np.array(rendered.ids)[np.array(rendered.learnt)].tolist())


# ---- as released ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CHATTING)
def test_ids_and_masks_are_as_released(family: str) -> None:
    """Prompts are those of the template; LLaVA-OneVision's has no blank that answers have."""
    chat, asking = chat_of(family), chat_of(family, "header")
    stored = arrays(family, "inputs.npz" if family in KINDS else "processed.npz")
    media = [chat.placeholder_id(kind) for kind in KINDS.get(family, ())]
    for name, messages in read_json(family, "chats.json").items():
        turns = turns_of(messages["messages"])
        prompt = asking.tokenize_turns(turns[:-1], opened=True)
        both = {"input_ids": chat.tokenize_turns(turns), "prompt_ids": prompt}
        for key, message in both.items():
            ids, expected = np.array(message.ids), stored[f"{name}.{key}"].reshape(-1)
            # Here a placeholder stands alone, there as often as there are outputs.
            text, other = ~np.isin(ids, media), ~np.isin(expected, media)
            assert ids[text].tolist() == expected[other].tolist()
            assert [message.ids[at] for at, _ in message.media] == ids[~text].tolist()
        complete, (ids, mask) = (
            both["input_ids"],
            (stored[f"{name}.{key}"].reshape(-1) for key in ("input_ids", "answer_mask")),
        )
        result = np.array(complete.learnt)[~np.isin(complete.ids, media)]
        target = mask[~np.isin(ids, media)].astype(bool)
        if family == "llava":  # a blank before an answer that is a token of its own
            target[:-1] |= target[1:] & (ids[~np.isin(ids, media)][:-1] == 293)
        assert result.tolist() == target.tolist()


@pytest.mark.parametrize(
    ("family", "end"),
    [("llama3", "<|eot_id|>"), ("qwen2_audio", "<|im_end|>"), ("llava", "</s>")],
)
def test_generation_ends_where_answers_do(family: str, end: str) -> None:
    """LLaVA-1.5's template writes no end, and Qwen2-Audio's tokenizer has another one."""
    tokenizer = chat_of(family)._tokenizer
    ends = dict.fromkeys([tokenizer.id_of(end), tokenizer.id_of(tokenizer.tokens["eos_token"])])
    assert chat_of(family).end_ids == tuple(ends)
    assert chat_of(family).learns_end == (family != "llava")


def test_what_the_tokenizer_adds_is_added_to_processors_alone() -> None:
    """Llama 3's template writes the first token; LLaVA-1.5's leaves that to the tokenizer."""
    plain = (ROOT / "qwen2_5/chat_template.jinja").read_text()
    for multimodal, begins in ((True, 1), (False, 0)):
        chat = with_template(plain, "llama3", multimodal=multimodal)
        assert list(chat.tokenize_turns([ASK, ANSWER]).ids).count(280) == begins
        files = replace(read_folder(ROOT / "llama3"), multimodal=multimodal)
        assert list(ReleasedChat(files, {}, DAY).tokenize_turns([ASK, ANSWER]).ids).count(280) == 1


# ---- answers -------------------------------------------------------------------------------------

WORDS = ("user", "assistant", "a", "cat.", " ", "\n", "é東", "<|im_end|>", "</s>", "<s>")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map("".join)
ANSWERS = TEXTS.filter(lambda text: bool(text.strip()))


@pytest.mark.parametrize("family", CHATTING)
@given(ANSWERS, ANSWERS, TEXTS)
@example("assistant", "user", "assistant\nuser")
@example("<|im_end|>", "<|eot_id|>", "<|begin_of_text|>")
@settings(deadline=None, max_examples=30)
def test_answers_alone_are_learnt_and_text_is_no_token(
    family: str, first: str, second: str, asked: str
) -> None:
    chat, quiet = chat_of(family), [Turn("user", "x"), Turn("assistant", "y")] * 2
    ask = Turn("user", asked)
    rendered = chat.tokenize_turns([ask, Turn("assistant", first), ask, Turn("assistant", second)])
    assert squeezed(learnt_text(chat, rendered)) == squeezed(first + second)
    special = set(np.flatnonzero(chat._tokenizer.is_special).tolist())
    assert [i for i in rendered.ids if i in special] == [
        i for i in chat.tokenize_turns(quiet).ids if i in special
    ]


SPACES = st.text(" \n\t\r\u3000", max_size=4)
TRIMMING = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' %}{{ m.content.rstrip('\n') }}{% else %}{{ m.content }}{% endif %}
{{- '\n<|im_end|>\n' }}{% endfor %}"""


def learnt_pieces(chat: ReleasedChat, rendered: RenderedChat) -> list[str]:
    """Learnt texts, each with the special token that ends it."""
    pieces: list[list[int]] = []
    done = False
    for number, learnt in zip(rendered.ids, rendered.learnt, strict=True):
        if learnt:
            pieces += [] if done else [[]]
            pieces[-1].append(number)
        done = learnt
    return [chat._tokenizer._tokenizer.decode(ids, skip_special_tokens=False) for ids in pieces]


@pytest.mark.parametrize("family", [*CHATTING, "trimming"])
@given(SPACES, ANSWERS, SPACES, TEXTS)
@example("", "Yes.", " ", "x")
@example("\n ", "Yes.", "\n", "x \n")
@settings(deadline=None, max_examples=30)
def test_the_white_space_of_an_answer_is_learnt_as_it_is_written(
    family: str, front: str, answer: str, after: str, asked: str
) -> None:
    """The token that ends the turn is learnt, too, if it is right after the answer."""
    chat = with_template(TRIMMING) if family == "trimming" else chat_of(family)
    text = front + answer + after
    rendered = chat.tokenize_turns(
        [Turn("user", asked), Turn("assistant", text), ASK, Turn("assistant", text)]
    )
    for piece in learnt_pieces(chat, rendered):
        match family:
            case "llama3":
                assert piece == text.strip() + "<|eot_id|>"
            case "trimming":
                assert piece == text.rstrip("\n") + "\n<|im_end|>"
            case "llava":
                # The blank before an answer is the template's, and that after it no end.
                # Decoding drops a blank at the beginning.
                assert piece in {f"{text}{blank}"[at:] for blank in ("", " ") for at in (0, 1)}
            case _:
                assert piece == text + "<|im_end|>"


def test_white_space_of_the_template_is_learnt_before_the_end_of_an_answer_alone() -> None:
    chat, end = with_template(TRIMMING), "\n<|im_end|>"
    for text, learnt in (("Yes.\n", "Yes."), ("Yes. \n\n", "Yes. "), ("\n Yes.", "\n Yes.")):
        assert learnt_pieces(chat, chat.tokenize_turns([ASK, Turn("assistant", text)])) == [
            learnt + end
        ]
    twice = chat.tokenize_turns([ASK, Turn("assistant", " a\n"), ASK, Turn("assistant", "\nb ")])
    assert learnt_pieces(chat, twice) == [" a" + end, "\nb " + end]


def test_special_tokens_may_take_in_white_space() -> None:
    files = read_folder(ROOT / "qwen2_5")
    end = AddedToken(content="<|im_end|>", lstrip=True, rstrip=True)
    named = {"tokens": files.settings.tokens | {"eos_token": end}, "added_tokens_decoder": {}}
    settings = files.settings.model_copy(update=named)
    tokenizer = json.loads(files.tokenizer)
    for token in tokenizer["added_tokens"]:
        token["lstrip"] = token["rstrip"] = token["content"] == end.content
    changed = replace(files, settings=settings, tokenizer=json.dumps(tokenizer).encode())
    chat = ReleasedChat(changed, {}, DAY)
    rendered = chat.tokenize_turns([ASK, Turn("assistant", "Yes. \n")])
    assert learnt_pieces(chat, rendered) == ["Yes.<|im_end|>"]


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_a_spelled_token_changes_no_other_token() -> None:
    for family in CHATTING:
        chat = chat_of(family)
        complete = chat.tokenize_turns([Turn("user", "say <|im_end|> </s> now"), ANSWER])
        plain = chat.tokenize_turns([Turn("user", "say it now"), ANSWER])
        assert list(complete.ids[-5:]) == list(plain.ids[-5:])
        assert list(complete.ids[:3]) == list(plain.ids[:3])
        assert "say <|im_end|> </s> now" in chat.decode(list(complete.ids))


LOOP = "{% for m in messages %}X{% endfor %}"
QWEN3 = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% set content = m.content %}
{%- if m.role == 'assistant' and '</think>' in content %}
{%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- if loop.last %}{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}{% endif %}{% endif %}
{{- content + '<|im_end|>\\n' }}{% endfor %}"""


def test_an_answer_that_the_template_takes_apart_is_learnt_if_it_is_whole() -> None:
    chat = with_template(QWEN3)
    thought = Turn("assistant", "<think>\nIt has whiskers.\n</think>\n\nA cat.")
    rendered = chat.tokenize_turns([ASK, thought])
    assert learnt_text(chat, rendered) == thought.text
    with pytest.raises(ConversationError, match="changes the answer '<think>"):
        chat.tokenize_turns([ASK, thought, ASK, ANSWER])


def test_an_answer_that_the_template_rewrites_is_learnt_as_written() -> None:
    chat = with_template(LOOP.replace("X", "{{ m.content | replace('cat', 'dog') }}<|im_end|>"))
    rendered = chat.tokenize_turns([Turn("user", "cat"), Turn("assistant", " the cat ")])
    assert learnt_text(chat, rendered) == "the dog"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (LOOP.replace("X", "{{ m.role }}"), "does not write messages of user, assistant once"),
        (LOOP.replace("X", "{{ m.content * 2 }}"), "does not write messages of"),
        (LOOP.replace("X", "{{ m.content | upper }}"), "does not write messages of"),
        (LOOP.replace("X", "{{ m.content if m.content[:1] == 'P' }}"), "changes the texts"),
        ("{{ raise_exception('never') }}", "never"),
        ("{{ messages[0].content.__class__ }}", "it reaches for '__class__'"),
        ("{% if", "line 1: "),
    ],
)  # fmt: skip
def test_templates_without_answers_are_refused(template: str, reason: str) -> None:
    with pytest.raises(DataError, match=f"data.processor: chat template of .*llama3.*{reason}"):
        with_template(template, "llama3")


LONG = [ASK, ANSWER] * 2
REFUSING = "{{ raise_exception('no system') if m.role == 'system' else m.content }}"
CUTTING = "{{ m.content if m.role != 'user' else m.content.split('/')[0] }}"


@pytest.mark.parametrize(
    ("template", "turns", "reason"),
    [
        ("{{ m.content if m.content != 'A cat.' else '' }}", [ASK, ANSWER], "changes the texts"),
        ("{{ m.content if m.role == 'user' or loop.length < 4 }}", LONG, "not write the answer"),
        ("{{ m.content * (1 if loop.length < 4 else 2) }}", LONG, "repeats the answer"),
        (REFUSING, [Turn("system", "x"), ASK, ANSWER], "chat template: no system"),
        ("{{ m.content }}", [Turn("user", "a\ufdd1b"), ANSWER], r"U\+FDD1, which is no character"),
        (CUTTING, [Turn("user", "</s>/a"), ANSWER], "spells a special token, and cannot be found"),
    ],
)  # fmt: skip
def test_conversations_that_cannot_be_told(template: str, turns: list[Turn], reason: str) -> None:
    chat = with_template(LOOP.replace("X", template) + "</s>", "llava", media={})
    with pytest.raises(ConversationError, match=reason):
        chat.tokenize_turns(turns)


# ---- forms of messages ---------------------------------------------------------------------------

PARTS = "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}"
EITHER = "{% if m.content is string %}{{ m.content }}{% else %}" + PARTS + "{% endif %}"
BY_ROLE = "{% if m.role == 'system' %}{{ m.content.strip() }}{% else %}" + PARTS + "{% endif %}"


@pytest.mark.parametrize(
    ("template", "parts"),
    [
        ("{{ m.content }}", ""),
        ("{{ m.content | trim }}", ""),
        (PARTS, "system user assistant"),
        (BY_ROLE, "user assistant"),
        (BY_ROLE.replace("'system'", "'assistant'"), "system user"),
        (EITHER, "system user assistant"),
        (REFUSING, ""),
        ("{{ m.content | tojson }}", ""),
    ],
)  # fmt: skip
def test_messages_have_the_form_that_the_template_reads(template: str, parts: str) -> None:
    chat = with_template(LOOP.replace("X", template + "<|im_end|>"))
    assert set(chat._form.roles) == set(parts.split())
    assert "What is it?" in chat.decode(list(chat.tokenize_turns([ASK, ANSWER]).ids))


@pytest.mark.parametrize("family", ["llava", "llava_onevision", "qwen2_audio"])
def test_a_line_break_beside_a_medium_is_the_templates(family: str) -> None:
    chat, mark = chat_of(family), MARKS[KINDS[family][0]]
    expected = chat.tokenize_turns([Turn("user", f"{mark}What?"), ANSWER]).ids
    for text in (f"{mark}\nWhat?", f"{mark}\n\nWhat?", f"\n{mark}\nWhat?", f" {mark}\nWhat?"):
        same = chat.tokenize_turns([Turn("user", text), ANSWER]).ids
        assert (list(same) == list(expected)) == ("\n\n" not in text)


def test_media_of_a_template_that_knows_none_are_in_the_text(tmp_path: Path) -> None:
    files = read_folder(composed(tmp_path, "siglip"))
    chat = ReleasedChat(files, {"image": "<image>"}, DAY)
    assert chat.placeholder_id("image") == 0
    assert chat.vocab_size == 283
    rendered = chat.tokenize_turns([Turn("user", "<image>\nWhat, <image>?"), ANSWER])
    assert [(kind, rendered.ids[at]) for at, kind in rendered.media] == [("image", 0), ("image", 0)]
    assert "user\n\nWhat, ?" in chat.decode([i for i in rendered.ids if i])
    assert learnt_text(chat, rendered) == "A cat."
    rendered = chat.tokenize_turns([ASK, Turn("assistant", "A<image>cat.")])
    assert learnt_text(chat, rendered) == "Acat."
    assert not any(rendered.learnt[at] for at, _ in rendered.media)


def test_answers_may_have_media() -> None:
    chat = chat_of("qwen2_audio")
    rendered = chat.tokenize_turns([ASK, Turn("assistant", "so <audio>\nor <audio>\n it is")])
    assert len(rendered.media) == 2
    assert not any(rendered.learnt[at] for at, _ in rendered.media)
    assert squeezed(learnt_text(chat, rendered)) == "sooritis"


@pytest.mark.parametrize("family", ["llava", "llava_onevision", "qwen2_5"])
def test_a_placeholder_may_be_a_word_and_an_answer_without_a_weight(family: str) -> None:
    chat, mark = chat_of(family), re.compile("<image>")
    ask = Turn("user", "Which tag, <image> or <img>?").with_words(mark)
    wrong = Turn("assistant", "Neither.", learnt=False)
    right = Turn("assistant", "That is <image>.").with_words(mark)
    rendered = chat.tokenize_turns([ask, wrong, ask, right])
    assert not rendered.media
    assert "<image> or <img>?" in chat.decode([*rendered.ids])
    assert learnt_text(chat, rendered) == "That is <image>."


def test_media_that_the_template_drops_are_told() -> None:
    part = "{{ p.text if p.text else '<image>' if loop.first }}"
    source = LOOP.replace("X", "{% for p in m.content %}X{% endfor %}").replace("X", part)
    files = replace(read_folder(ROOT / "llava"), template=source)
    chat = ReleasedChat(files, {"image": "<image>"}, DAY)
    with pytest.raises(ConversationError, match="writes 1 placeholders '<image>' for 2 media"):
        chat.tokenize_turns([Turn("user", "<image> or <image> so"), ANSWER])


# ---- tokenizers ----------------------------------------------------------------------------------


def files_with(folder: Path, **changes: Any) -> ReleasedFiles:
    changed(composed(folder, "siglip", "llava"), "tokenizer_config.json", **changes)
    return read_folder(folder)


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, (1, 0)),
        ({"add_bos_token": False}, (0, 0)),
        ({"add_bos_token": None, "add_eos_token": None}, (1, 0)),
        ({"add_eos_token": True}, (1, 1)),
        ({"add_bos_token": True, "bos_token": None, "add_eos_token": True}, (0, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["x", "x </s> y"])
def test_ends_are_added_as_configured(
    changes: Mapping[str, Any], ends: tuple[int, int], text: str, tmp_path: Path
) -> None:
    chat = ReleasedChat(files_with(tmp_path, **changes), {}, DAY)
    ids = list(chat.tokenize_turns([Turn("user", text), ANSWER]).ids)
    assert (ids.count(1), ids.count(2)) == ends
    assert (ids[0] == 1, ids[-1] == 2) == tuple(map(bool, ends))


def test_tokens_of_the_configuration_are_added(tmp_path: Path) -> None:
    more = {"317": {"content": "<new>", "special": True}}
    files = files_with(tmp_path, added_tokens_decoder=more, additional_special_tokens=["<x>"])
    chat = ReleasedChat(files, {}, DAY)
    assert chat.vocab_size == 319
    assert [chat._tokenizer.id_of(token) for token in ("<new>", "<x>", "no")] == [317, 318, None]
    with pytest.raises(DataError, match=r"'<new>' as token 400, tokenizer.json as 317"):
        ReleasedChat(files_with(tmp_path, added_tokens_decoder={"400": more["317"]}), {}, DAY)


def test_tokens_of_a_file_of_their_own_are_added(tmp_path: Path) -> None:
    folder = composed(tmp_path, "siglip", "llava")
    changed(folder, "tokenizer_config.json", added_tokens_decoder=None)
    text = "<new>"
    (folder / "added_tokens.json").write_text(json.dumps({text: 317, "</s>": 2}))
    chat = ReleasedChat(read_folder(folder), {}, DAY)
    assert [*chat._tokenizer.encode(f"x {text}", begins=False, text_spans=()).ids].count(317) == 1
    (folder / "added_tokens.json").write_text(json.dumps({text: 400}))
    with pytest.raises(DataError, match=r"added_tokens.json has '<new>' as token 400, .* as 317"):
        ReleasedChat(read_folder(folder), {}, DAY)
    changed(folder, "tokenizer_config.json", added_tokens_decoder={})
    assert ReleasedChat(read_folder(folder), {}, DAY).vocab_size == 317


def test_bad_tokenizers(tmp_path: Path) -> None:
    files = files_with(tmp_path)
    with pytest.raises(
        DataError, match=r"data.processor: .*tokenizer.json is not a tokenizer.json"
    ):
        ReleasedChat(replace(files, tokenizer=b"{}"), {}, DAY)
    with pytest.raises(DataError, match="placeholder '<picture>' is no special token"):
        ReleasedChat(replace(files, placeholders={"image": "<picture>"}), {"image": "<image>"}, DAY)
    with pytest.raises(DataError, match="nothing ends an answer, and there is no eos_token"):
        ReleasedChat(files_with(tmp_path, eos_token=None), {}, DAY)


def test_truncation_and_padding_of_the_file_are_ignored(tmp_path: Path) -> None:
    files = files_with(tmp_path)
    tokenizer = json.loads(files.tokenizer)
    how = {"strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    tokenizer["truncation"] = {"max_length": 4, **how}
    cut = ReleasedChat(replace(files, tokenizer=json.dumps(tokenizer).encode()), {}, DAY)
    assert cut.tokenize_turns([ASK, ANSWER]) == ReleasedChat(files, {}, DAY).tokenize_turns(
        [ASK, ANSWER]
    )


def test_a_worker_has_the_same_chat() -> None:
    chat = chat_of("llava_onevision")
    pickled = pickle.dumps(chat)
    assert len(pickled) < 1000
    other = pickle.loads(pickled)
    turns = [Turn("user", "<image>\nWhat?"), ANSWER]
    assert other.tokenize_turns(turns) == chat.tokenize_turns(turns)
    assert other.fingerprint == chat.fingerprint


def test_fingerprints_differ_with_what_decides_tokens() -> None:
    files = read_folder(ROOT / "llava")
    seen = {ReleasedChat(files, {"image": mark}, DAY).fingerprint for mark in ("<image>", "<i>")}
    seen.add(ReleasedChat(files, {"image": "<i>"}, DAY.replace(year=2030)).fingerprint)
    seen.add(ReleasedChat(replace(files, fingerprint="x"), {"image": "<i>"}, DAY).fingerprint)
    assert len(seen) == 4
