"""Answers are kept batch by batch, and gone on from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data.sample import DataError
from data.sources.formats.prompts import program_questions
from mllm_jax.generate.answer_file import AnswerFile
from mllm_jax.generate.answers import AnswerReply, AnswerTiming
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from tests.configs import config

OF = {"model": "step 3 of a", "prompts": "x"}
REPLIES = [
    AnswerReply(f"a[{n}]", f"line\u2028 {n}", (n, 7), 5, "end", id=f"q{n}" if n % 2 else None)
    for n in range(4)
]


@pytest.mark.parametrize(
    "cut", [b"", b'{"index": 2, "na', '{"index": 2, "text": "\u2028'.encode()[:-1]]
)
def test_a_second_start_has_what_was_written_whole(cut: bytes, tmp_path: Path) -> None:
    file = AnswerFile(tmp_path / "answers.jsonl", OF)
    assert file.read_replies() == {}
    file.add({3: REPLIES[3], 1: REPLIES[1], 2: AnswerReply("a[2]", None, error="gone")})
    with file.part.open("ab") as stream:
        stream.write(cut)
    assert file.read_replies() == {3: REPLIES[3], 1: REPLIES[1]}
    file.add({0: REPLIES[0], 2: REPLIES[2]})
    assert file.read_replies() == dict(enumerate(REPLIES))
    file.finish(REPLIES)
    assert not file.part.exists()
    lines = file.path.read_text().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [own.to_json() for own in REPLIES]


def test_answers_of_something_else_are_refused_by_name(tmp_path: Path) -> None:
    AnswerFile(tmp_path / "a", OF).read_replies()
    other = AnswerFile(tmp_path / "a", OF | {"model": "step 5 of a"})
    with pytest.raises(
        DataError, match=r"a\.part holds answers of model 'step 3 of a', not 'step 5"
    ):
        other.read_replies()
    other.part.write_text("no JSON\n")
    with pytest.raises(DataError, match="is no file of answers"):
        other.read_replies()


class Answering(AnswerGenerator):
    """A generator whose model answers with the number of the prompt, two prompts at a time."""

    def __init__(self) -> None:
        self._notify = self.told = list[str]().append
        self.batches: list[list[int]] = []
        self.processor: Any = SimpleNamespace(text=SimpleNamespace(module="decoder"))

    def _choose_rows(self, prompts: int) -> int:
        return 2

    def _measure_prompt(self, source: Any, index: int, miss: Any) -> Any:
        lengths = SimpleNamespace(total=lambda module: 10 - index)
        return SimpleNamespace(index=index, lengths=lengths)

    def _answer_batch(self, source: Any, chosen: Sequence[Any], *rest: Any) -> AnswerTiming:
        replies: dict[int, AnswerReply] = rest[2]
        self.batches.append([own.index for own in chosen])
        replies |= {
            own.index: AnswerReply(source.name(own.index), str(own.index)) for own in chosen
        }
        return AnswerTiming()


def test_prompts_that_have_answers_are_not_answered_again(tmp_path: Path) -> None:
    records = [{"prompt": "x", "id": 10 + n} for n in range(5)]
    source, own = program_questions(config().data, records, tmp_path), Answering()
    heard: list[Mapping[int, AnswerReply]] = []
    kept = {1: AnswerReply("prompt 1", "one"), 4: AnswerReply("prompt 4", "four")}
    found = own.answers(source, AnswerOptions(), known_replies=kept, on_answered=heard.append)
    assert own.batches == [[3, 2], [0]]
    assert [[*batch] for batch in heard] == own.batches
    assert [reply.text for reply in found.replies] == ["0", "one", "2", "3", "four"]
    assert [reply.id for reply in found.replies] == [10, 11, 12, 13, 14]
