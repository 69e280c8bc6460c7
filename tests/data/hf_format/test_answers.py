"""Every answer begins where a prompt ends, and is learnt with its end, whatever the template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data.config import AnswersBegin
from data.hf_format.chat import ReleasedChat
from data.hf_format.files import AddedToken
from data.sample import ConversationError, DataError, Turn
from data.text.chat import RenderedChat
from tests.data.hf_format.stored import DAY, ROOT, read_folder
from tests.data.hf_format.templates import TEMPLATES

ASK, ANSWER = Turn("user", "What is it?"), Turn("assistant", "A cat.")
MODES: tuple[AnswersBegin, ...] = ("text", "header")


@cache
def chat_of(name: str, begin: AnswersBegin = "text") -> ReleasedChat:
    template = TEMPLATES[name]
    files = read_folder(ROOT / template.text)
    extra = tuple(AddedToken(content=token) for token in template.added)
    tokens = files.settings.tokens
    if "<|return|>" in template.added:
        tokens = tokens | {"eos_token": AddedToken(content="<|return|>")}
    changed = files.settings.model_copy(update={"extra": extra, "tokens": tokens})
    files = replace(
        files, template=template.source, settings=changed, multimodal=False, placeholders={}
    )
    return ReleasedChat(files, {}, DAY, begin)


def runs(rendered: RenderedChat) -> list[tuple[int, int]]:
    """The first of the learnt tokens of each answer, and one after the last."""
    result = [
        [*group]
        for learnt, group in groupby(range(len(rendered.ids)), rendered.learnt.__getitem__)
        if learnt
    ]
    return [(group[0], group[-1] + 1) for group in result]


def prompts(chat: ReleasedChat, turns: Sequence[Turn]) -> list[list[int]]:
    """The prompt of every answer."""
    answers = [number for number, turn in enumerate(turns) if turn.role == "assistant"]
    return [list(chat.tokenize_turns(turns[:number], opened=True).ids) for number in answers]


def check(name: str, begin: AnswersBegin, turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """Check that prompts and learnt tokens of a conversation agree; the learnt tokens."""
    template, chat = TEMPLATES[name], chat_of(name, begin)
    rendered, asked = chat.tokenize_turns(turns), prompts(chat, turns)
    begins = {len(prompt) for prompt in asked if list(rendered.ids[: len(prompt)]) == prompt}
    result = runs(rendered)
    assert result, "nothing is learnt"
    assert {first for first, _ in result} <= begins
    ended = [rendered.ids[last - 1] in chat.end_ids for _, last in result]
    earlier = len(result) - 1
    expected = {
        "all": [True] * len(result),
        "last": [*[False] * earlier, True],
        "earlier": [*[True] * earlier, False],
        "none": [False] * len(result),
    }
    assert ended == expected[template.ends]
    everything = template.learnt == "all" or begin == "header"
    assert len(result) == (len(asked) if everything else 1)
    return result


LEARNT = [name for name, own in TEMPLATES.items() if not own.refused]
BOTH = [
    (name, begin)
    for name, begin in product(LEARNT, MODES)
    if begin == "text" or TEMPLATES[name].header
]
TALK = [ASK, ANSWER, Turn("user", "Where?"), Turn("assistant", "There."), ASK, ANSWER]


@pytest.mark.parametrize(("name", "begin"), BOTH)
def test_answers_of_one_and_of_three_turns_begin_where_prompts_end(
    name: str, begin: AnswersBegin
) -> None:
    chat = chat_of(name, begin)
    for length in (2, 4, 6):
        result = check(name, begin, TALK[:length])
        texts = [chat.decode(list(chat.tokenize_turns(TALK[:length]).ids[a:b])) for a, b in result]
        answers = [turn.text for turn in TALK[1:length:2]][-len(result) :]
        assert all(text.endswith(expected) for text, expected in zip(texts, answers, strict=True))
        if begin == "text":
            assert texts == answers


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_what_of_answers_is_not_learnt_is_told(name: str) -> None:
    template = TEMPLATES[name]
    if template.refused:
        with pytest.raises(
            DataError, match=rf"data.processor: chat template of .*{template.refused}"
        ):
            chat_of(name).check_training()
        return
    message = " ".join(chat_of(name).check_training())
    assert ("the end of answers is not learnt" in message) == (template.ends == "none")
    assert ("only the end of the others is learnt" in message) == (template.ends == "earlier")
    assert ("after the last answer of a conversation and not" in message) == (
        template.ends == "last"
    )
    assert ("only the last answer is learnt" in message) == (template.learnt == "last")


@pytest.mark.parametrize(
    ("name", "after"),
    [("words_and_end", "writes '### End<"), ("end_that_is_no_token", "writes '<|eom|>")],
)
def test_what_stands_after_answers_in_place_of_their_end_is_told(name: str, after: str) -> None:
    (message,) = chat_of(name).check_training()
    assert after in message
    assert "right after an answer, where its end would be a special token" in message
    (plain,) = chat_of("no_end").check_training()
    assert "writes no special token after an answer" in plain


@pytest.mark.parametrize("name", [name for name in LEARNT if not TEMPLATES[name].header])
def test_a_generation_prompt_that_no_answer_stands_after_is_refused(name: str) -> None:
    chat = chat_of(name, "header")
    assert chat.tokenize_turns([ASK], opened=True).ids  # as others ask
    with pytest.raises(
        DataError, match=r"no prompt leads to the answer; valid: data.answers_begin"
    ):
        chat.check_training()


def refused(chat: ReleasedChat, turns: Sequence[Turn]) -> str | None:
    """Why a conversation is refused, in so many words."""
    try:
        chat.tokenize_turns(turns)
    except ConversationError as error:
        return f"{error}"[:400]
    return None


PIECES = ("A cat", " ", "\n", "7", "é東", "<|im_end|>", "</s>", "<|im_start|>assistant\n",
          "[/INST]", "ASSISTANT:", "</think>", "<think>", "\t", "Probe 3.")  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
SAID = TEXTS.filter(lambda text: bool(text.strip()))


@pytest.mark.parametrize(("name", "begin"), BOTH)
@given(st.lists(st.tuples(SAID, SAID), min_size=1, max_size=3), st.one_of(st.none(), SAID))
@example([("x", "\n\nYes."), (" x ", " Yes. "), ("x\n", "7")], None)
@example([("x", "A\n"), ("x", "<|im_end|>\n"), ("A cat", "A cat")], "x")
@settings(deadline=None, max_examples=12)
def test_any_conversation_agrees_with_its_prompts_or_is_refused(
    name: str, begin: AnswersBegin, pairs: list[tuple[str, str]], system: str | None
) -> None:
    turns = [Turn("system", system)] if system else []
    for asked, answered in pairs:
        turns += [Turn("user", asked), Turn("assistant", answered)]
    if not refused(chat_of(name, begin), turns):
        check(name, begin, turns)


def test_plain_conversations_are_not_refused() -> None:
    for name in LEARNT:
        for text in ("Yes.", " Yes. ", "\nYes.\n", "7", "<|im_end|>", "a\n\nb"):
            turns = [ASK, Turn("assistant", text)]
            assert runs(chat_of(name).tokenize_turns(turns)), name


def test_thoughts_are_learnt_after_the_header() -> None:
    """Qwen3's template takes an answer apart, and writes an empty thought where there is none."""
    text, header = chat_of("qwen3"), chat_of("qwen3", "header")
    thought = [ASK, Turn("assistant", "<think>\nIt purrs.\n</think>\n\nA cat.")]
    with pytest.raises(ConversationError, match=r"valid: data\.answers_begin: header"):
        text.tokenize_turns(thought)
    for turns, expected in (
        (thought, thought[1].text),
        ([ASK, ANSWER], "<think>\n\n</think>\n\nA cat."),
    ):
        rendered = header.tokenize_turns(turns)
        ((first, last),) = runs(rendered)
        assert header.decode(list(rendered.ids[first:last])) == expected
        assert list(rendered.ids[:first]) == list(header.tokenize_turns([ASK], opened=True).ids)


def test_the_prompt_of_a_thinking_model_is_that_of_a_template_told_not_to_think() -> None:
    chat = chat_of("qwen3")
    prompt = chat.decode(list(chat.tokenize_turns([ASK], opened=True).ids))
    assert prompt.endswith("assistant\n<think>\n\n</think>")


def test_special_tokens_at_which_a_release_stops_are_learnt_as_ends(tmp_path: Path) -> None:
    """`<|im_start|>` after an answer is the next question's, unless the release stops there."""
    template = TEMPLATES["next_question_ends"]
    files = replace(read_folder(ROOT / template.text), template=template.source)
    start = ReleasedChat(files, {}, DAY)._tokenizer.id_of("<|im_start|>")
    assert start is not None
    chat = ReleasedChat(replace(files, stops=(start,)), {}, DAY)
    assert start in chat.end_ids
    rendered = chat.tokenize_turns(TALK)
    ended = [rendered.ids[last - 1] == start for _, last in runs(rendered)]
    assert ended == [True, True, False]


@pytest.mark.parametrize(
    ("said", "stops"), [(5, (5,)), ([5, 6], (5, 6)), (None, ()), ("x", None), ([1, True], None)]
)
def test_the_stops_of_a_release_are_read(
    said: object, stops: tuple[int, ...] | None, tmp_path: Path
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((ROOT / "qwen2_5" / name).read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": said}))
    if stops is None:
        with pytest.raises(DataError, match=r"eos_token_id: .* is no token, nor a list of tokens"):
            read_folder(tmp_path)
        return
    assert read_folder(tmp_path).stops == stops


@pytest.mark.parametrize("name", LEARNT)
def test_the_template_for_others_asks_as_training_does(name: str) -> None:
    """What it writes besides is as before."""
    template, chat = TEMPLATES[name], chat_of(name)
    source = chat.template_for_others()
    files, _, day, *_ = chat._arguments
    if source is None:
        theirs = chat_of(name, "header")
    else:
        theirs = ReleasedChat(replace(files, template=source), {}, day, "header")
    for turns in (TALK[:1], TALK[:3], TALK[:5]):
        assert (
            theirs.tokenize_turns(turns, opened=True).ids
            == chat.tokenize_turns(turns, opened=True).ids
        )
    if template.header and name not in ("chatml_never_asks", "qwen3", "oss", "empty_thought"):
        assert source is None, "it asks so by itself"
    else:
        assert source is not None
        assert runs(chat.tokenize_turns(TALK))
        assert theirs.tokenize_turns(TALK).ids == chat.tokenize_turns(TALK).ids


def joining(pieces: Sequence[tuple[str, str]]) -> ReleasedChat:
    """A chat whose tokenizer joins these pieces, also where an answer begins."""
    files = replace(read_folder(ROOT / "qwen2_5"), template=TEMPLATES["chatml"].source)
    tokenizer = json.loads(files.tokenizer)
    model = tokenizer["model"]
    for token in tokenizer["added_tokens"]:
        token["id"] += len(pieces)
    tokenizer["pre_tokenizer"]["pretokenizers"] = tokenizer["pre_tokenizer"]["pretokenizers"][-1:]
    for one, other in pieces:
        model["vocab"][one + other] = len(model["vocab"])
        model["merges"].append([one, other])
    return ReleasedChat(replace(files, tokenizer=json.dumps(tokenizer).encode()), {}, DAY)


def test_a_token_never_joins_an_answer_with_its_prompt() -> None:
    """Generation cannot write half of a token: a prompt ends where one does."""
    chat = joining([("Ċ", "Ċ"), ("Ċ", "7")])
    for text in ("\nYes.", "7", "\n\n7", "Yes."):
        turns = [ASK, Turn("assistant", text), ASK, Turn("assistant", text)]
        rendered = chat.tokenize_turns(turns)
        begins = [len(prompt) for prompt in prompts(chat, turns)]
        assert [first for first, _ in runs(rendered)] == begins
        assert list(rendered.ids[: begins[1]]) == list(
            chat.tokenize_turns(turns[:3], opened=True).ids
        )
        texts = [
            chat._tokenizer._tokenizer.decode(list(rendered.ids[a:b])) for a, b in runs(rendered)
        ]
        assert texts == [text, text]


@pytest.mark.parametrize("name", ["chatml", "blank_and_end", "line_and_end", "qwen3"])
def test_tokenizers_that_leave_white_space_out_of_places_are_no_other(name: str) -> None:
    """As Llama 3's and GPT-2's do (`trim_offsets`)."""
    template = TEMPLATES[name]
    files = replace(read_folder(ROOT / template.text), template=template.source)
    tokenizer = json.loads(files.tokenizer)
    tokenizer["post_processor"]["trim_offsets"] = True
    trimming = ReleasedChat(replace(files, tokenizer=json.dumps(tokenizer).encode()), {}, DAY)
    chat = ReleasedChat(files, {}, DAY)
    for text in ("A cat.", " Yes ", "\nYes.\n", "a \n b"):
        turns = [ASK, Turn("assistant", text), ASK, Turn("assistant", text)]
        assert trimming.tokenize_turns(turns) == chat.tokenize_turns(turns)
