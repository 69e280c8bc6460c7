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
from data.hf_format.files import AddedToken, read_folder
from data.sample import ConversationError, DataError, Turn
from data.text.chat import RenderedChat
from tests.data.hf_format.stored import DAY, ROOT
from tests.data.hf_format.templates import TEMPLATES

ASK, ANSWER = Turn("user", "What is it?"), Turn("assistant", "A cat.")
MODES: tuple[AnswersBegin, ...] = ("text", "header")


@cache
def chat_of(name: str, begin: AnswersBegin = "text") -> ReleasedChat:
    own = TEMPLATES[name]
    files = read_folder(ROOT / own.text)
    extra = tuple(AddedToken(content=token) for token in own.added)
    tokens = files.settings.tokens
    if "<|return|>" in own.added:
        tokens = tokens | {"eos_token": AddedToken(content="<|return|>")}
    changed = files.settings.model_copy(update={"extra": extra, "tokens": tokens})
    files = replace(files, template=own.source, settings=changed, multimodal=False, placeholders={})
    return ReleasedChat(files, {}, DAY, begin)


def runs(told: RenderedChat) -> list[tuple[int, int]]:
    """The first of the learnt tokens of each answer, and one behind the last."""
    found = [
        [*own] for learnt, own in groupby(range(len(told.ids)), told.learnt.__getitem__) if learnt
    ]
    return [(own[0], own[-1] + 1) for own in found]


def prompts(chat: ReleasedChat, turns: Sequence[Turn]) -> list[list[int]]:
    """The prompt of every answer."""
    answers = [number for number, turn in enumerate(turns) if turn.role == "assistant"]
    return [list(chat.tokenize_turns(turns[:number], opened=True).ids) for number in answers]


def check(name: str, begin: AnswersBegin, turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """See that prompts and learnt tokens of a conversation agree; the learnt tokens."""
    own, chat = TEMPLATES[name], chat_of(name, begin)
    told, asked = chat.tokenize_turns(turns), prompts(chat, turns)
    begins = {len(prompt) for prompt in asked if list(told.ids[: len(prompt)]) == prompt}
    found = runs(told)
    assert found, "nothing is learnt"
    assert {first for first, _ in found} <= begins
    ended = [told.ids[last - 1] in chat.end_ids for _, last in found]
    earlier = len(found) - 1
    wanted = {
        "all": [True] * len(found),
        "last": [*[False] * earlier, True],
        "earlier": [*[True] * earlier, False],
        "none": [False] * len(found),
    }
    assert ended == wanted[own.ends]
    everything = own.learnt == "all" or begin == "header"
    assert len(found) == (len(asked) if everything else 1)
    return found


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
        found = check(name, begin, TALK[:length])
        texts = [chat.decode(list(chat.tokenize_turns(TALK[:length]).ids[a:b])) for a, b in found]
        answers = [turn.text for turn in TALK[1:length:2]][-len(found) :]
        assert all(own.endswith(wanted) for own, wanted in zip(texts, answers, strict=True))
        if begin == "text":
            assert texts == answers


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_what_of_answers_is_not_learnt_is_told(name: str) -> None:
    own = TEMPLATES[name]
    if own.refused:
        with pytest.raises(DataError, match=rf"data.processor: chat template of .*{own.refused}"):
            chat_of(name).check_training()
        return
    told = " ".join(chat_of(name).check_training())
    assert ("the end of answers is not learnt" in told) == (own.ends == "none")
    assert ("only the end of the others is learnt" in told) == (own.ends == "earlier")
    assert ("after the last answer of a conversation and not" in told) == (own.ends == "last")
    assert ("only the last answer is learnt" in told) == (own.learnt == "last")


@pytest.mark.parametrize(
    ("name", "behind"),
    [("words_and_end", "writes '### End<"), ("end_that_is_no_token", "writes '<|eom|>")],
)
def test_what_stands_behind_answers_in_place_of_their_end_is_told(name: str, behind: str) -> None:
    (told,) = chat_of(name).check_training()
    assert behind in told
    assert "right after an answer, where its end would be a special token" in told
    (plain,) = chat_of("no_end").check_training()
    assert "writes no special token after an answer" in plain


@pytest.mark.parametrize("name", [name for name in LEARNT if not TEMPLATES[name].header])
def test_a_generation_prompt_that_no_answer_stands_behind_is_refused(name: str) -> None:
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


def test_thoughts_are_learnt_behind_the_header() -> None:
    """Qwen3's template takes an answer apart, and writes an empty thought where there is none."""
    text, header = chat_of("qwen3"), chat_of("qwen3", "header")
    thought = [ASK, Turn("assistant", "<think>\nIt purrs.\n</think>\n\nA cat.")]
    with pytest.raises(ConversationError, match=r"valid: data\.answers_begin: header"):
        text.tokenize_turns(thought)
    for turns, wanted in (
        (thought, thought[1].text),
        ([ASK, ANSWER], "<think>\n\n</think>\n\nA cat."),
    ):
        told = header.tokenize_turns(turns)
        ((first, last),) = runs(told)
        assert header.decode(list(told.ids[first:last])) == wanted
        assert list(told.ids[:first]) == list(header.tokenize_turns([ASK], opened=True).ids)


def test_the_prompt_of_a_thinking_model_is_that_of_a_template_told_not_to_think() -> None:
    chat = chat_of("qwen3")
    prompt = chat.decode(list(chat.tokenize_turns([ASK], opened=True).ids))
    assert prompt.endswith("assistant\n<think>\n\n</think>")


def test_special_tokens_at_which_a_release_stops_are_learnt_as_ends(tmp_path: Path) -> None:
    """`<|im_start|>` after an answer is the next question's, unless the release stops there."""
    own = TEMPLATES["next_question_ends"]
    files = replace(read_folder(ROOT / own.text), template=own.source)
    start = ReleasedChat(files, {}, DAY)._tokenizer.id_of("<|im_start|>")
    assert start is not None
    chat = ReleasedChat(replace(files, stops=(start,)), {}, DAY)
    assert start in chat.end_ids
    told = chat.tokenize_turns(TALK)
    ended = [told.ids[last - 1] == start for _, last in runs(told)]
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
    own, chat = TEMPLATES[name], chat_of(name)
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
    if own.header and name not in ("chatml_never_asks", "qwen3", "oss", "empty_thought"):
        assert source is None, "it asks so by itself"
    else:
        assert source is not None
        assert runs(chat.tokenize_turns(TALK))
        assert theirs.tokenize_turns(TALK).ids == chat.tokenize_turns(TALK).ids


def joining(pieces: Sequence[tuple[str, str]]) -> ReleasedChat:
    """A chat whose tokenizer joins these pieces, also where an answer begins."""
    files = replace(read_folder(ROOT / "qwen2_5"), template=TEMPLATES["chatml"].source)
    own = json.loads(files.tokenizer)
    model = own["model"]
    for token in own["added_tokens"]:
        token["id"] += len(pieces)
    own["pre_tokenizer"]["pretokenizers"] = own["pre_tokenizer"]["pretokenizers"][-1:]
    for one, other in pieces:
        model["vocab"][one + other] = len(model["vocab"])
        model["merges"].append([one, other])
    return ReleasedChat(replace(files, tokenizer=json.dumps(own).encode()), {}, DAY)


def test_a_token_never_joins_an_answer_with_its_prompt() -> None:
    """Generation cannot write half of a token: a prompt ends where one does."""
    chat = joining([("Ċ", "Ċ"), ("Ċ", "7")])
    for text in ("\nYes.", "7", "\n\n7", "Yes."):
        turns = [ASK, Turn("assistant", text), ASK, Turn("assistant", text)]
        told = chat.tokenize_turns(turns)
        begins = [len(prompt) for prompt in prompts(chat, turns)]
        assert [first for first, _ in runs(told)] == begins
        assert list(told.ids[: begins[1]]) == list(chat.tokenize_turns(turns[:3], opened=True).ids)
        texts = [chat._tokenizer._tokenizer.decode(list(told.ids[a:b])) for a, b in runs(told)]
        assert texts == [text, text]


@pytest.mark.parametrize("name", ["chatml", "blank_and_end", "line_and_end", "qwen3"])
def test_tokenizers_that_leave_white_space_out_of_places_are_no_other(name: str) -> None:
    """As Llama 3's and GPT-2's do (`trim_offsets`)."""
    own = TEMPLATES[name]
    files = replace(read_folder(ROOT / own.text), template=own.source)
    tokenizer = json.loads(files.tokenizer)
    tokenizer["post_processor"]["trim_offsets"] = True
    trimming = ReleasedChat(replace(files, tokenizer=json.dumps(tokenizer).encode()), {}, DAY)
    chat = ReleasedChat(files, {}, DAY)
    for text in ("A cat.", " Yes ", "\nYes.\n", "a \n b"):
        turns = [ASK, Turn("assistant", text), ASK, Turn("assistant", text)]
        assert trimming.tokenize_turns(turns) == chat.tokenize_turns(turns)
