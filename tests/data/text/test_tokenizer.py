"""Tokenizers and chat templates."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import ChatConfig
from data.processing.processor import Processor
from data.sample import DataError
from data.sources.demo import HEAR, LOOK, LOOK_TWICE, PAIR_SEPARATOR
from data.text.tokenizer import ChatTokenizer
from tests.data.samples import make_sample

MARKS = ("<image>", "<audio>")


@given(st.text())
def test_bytes_give_back_any_text(text: str) -> None:
    tokenizer = ChatTokenizer("bytes", None, MARKS)
    assert tokenizer.decode(list(tokenizer.encode(text))) == text.strip()


@pytest.mark.parametrize("kind", ["demo", "bytes"])
def test_text_of_a_sample_makes_no_special_token(kind: str) -> None:
    tokenizer = ChatTokenizer(kind, None, MARKS)
    special = {
        tokenizer.end_id,
        *tokenizer.placeholder_ids.values(),
        *tokenizer.template_ids("user"),
    }
    assert not special & set(tokenizer.encode("1 <end><user> <image> 2"))


def test_the_demo_tokenizer_knows_every_word_of_the_demo() -> None:
    tokenizer = ChatTokenizer("demo", None, MARKS)
    (unknown,) = tokenizer.encode("unheardof")
    for text in (*LOOK, *LOOK_TWICE, *HEAR, PAIR_SEPARATOR, "0 1 2 3 4 5 6 7 8 9"):
        assert unknown not in tokenizer.encode(text.replace("{}", ""))
    assert len(tokenizer.encode("31")) == 2


def test_a_tokenizer_travels_by_its_arguments() -> None:
    tokenizer = ChatTokenizer("demo", None, MARKS)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode("read 1 2") == tokenizer.encode("read 1 2")
    assert copy.vocab_size == tokenizer.vocab_size


def test_a_tokenizer_file_takes_placeholders_and_chat(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    ChatTokenizer("bytes", None, MARKS)._tokenizer.save(str(path))
    chat = ChatConfig(user="U:", assistant="A:", end="<end>", separator="\n")
    tokenizer = ChatTokenizer(str(path), chat, ("<image>", "<video>"))
    assert tokenizer.placeholder_ids["<video>"] == tokenizer.vocab_size - 1
    assert len(tokenizer.template_ids("user")) == 2
    with pytest.raises(DataError, match=r"'<\|im_end\|>' must be one token .* but is \d+"):
        ChatTokenizer(str(path), None, MARKS)


def test_an_unusable_tokenizer_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'missing\.json is not a file; valid: "demo"'):
        ChatTokenizer(str(tmp_path / "missing.json"), None, MARKS)
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(DataError, match=r"broken.json is not a tokenizer.json"):
        ChatTokenizer(str(tmp_path / "broken.json"), None, MARKS)


def test_answers_that_spell_special_tokens_stay_text(processor: Processor) -> None:
    example = processor.process(make_sample("s", answer="1 <end> <user> 2"))
    learnt = example.targets[example.loss_weight > 0].tolist()
    assert learnt.count(processor.end_ids[0]) == 1
    assert learnt[-1] == processor.end_ids[0]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")))
def test_pieces_of_bytes_are_whole_characters(text: str) -> None:
    tokenizer = ChatTokenizer("bytes", None, MARKS)
    result = tokenizer.token_texts(tokenizer.encode(text))
    assert "".join(result) == text
    assert all(len(piece) <= 1 for piece in result)


def test_special_tokens_are_pieces_by_their_names() -> None:
    tokenizer = ChatTokenizer("bytes", None, MARKS)
    ids = [
        *tokenizer.template_ids("user"),
        *tokenizer.encode("h\N{LATIN SMALL LETTER E WITH ACUTE}"),
    ]
    ids = [*ids, tokenizer.placeholder_ids["<image>"], tokenizer.end_id]
    accent = "\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert tokenizer.token_texts(ids) == ["<user>", "h", "", accent, "<image>", "<end>"]
