"""Answers on their way into a file: those of every batch are kept as soon as they are there.

Beside `answers.jsonl` lies `answers.jsonl.part` until all prompts are answered: a line that says of
what the answers are, then a line for each answer, batch by batch. The same command goes on from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.sample import DataError
from mllm_jax.generate.answers import Reply
from mllm_jax.train.records.sinks import write_atomically

_INDEX = "index"


@dataclass(frozen=True)
class AnswerFile:
    """A file of answers that is being made.

    Attributes:
        path: the file.
        of: what decides the answers, such as the model, by name; JSON.
    """

    path: Path
    of: Mapping[str, Any]

    @property
    def part(self) -> Path:
        """Answers so far."""
        return self.path.with_name(f"{self.path.name}.part")

    def kept(self) -> dict[int, Reply]:
        """Answers of an earlier start, by the indices of their prompts; the file is begun if none.

        Raises:
            DataError: they are of something else, or the file is something else.
            OSError: the file cannot be written.
        """
        try:
            lines = list(_whole(self.part))
        except ValueError as error:
            raise DataError(
                f"{self.part} is no file of answers: {error}; valid: another --output, or none of "
                "that file"
            ) from error
        if lines:
            self._check(lines[0])
        write_atomically(self.part, _text([self.of, *lines[1:]]))
        return {own.pop(_INDEX): Reply.from_json(own) for own in lines[1:]}

    def add(self, replies: Mapping[int, Reply]) -> None:
        """Keep the answers to some prompts; those that have none are looked at again next time."""
        good = [
            {_INDEX: index, **reply.to_json()}
            for index, reply in replies.items()
            if reply.error is None
        ]
        with self.part.open("a", encoding="utf-8") as file:
            file.write(_text(good))

    def finish(self, replies: Sequence[Reply]) -> None:
        """Write the file whole, in the order of the prompts."""
        write_atomically(self.path, _text(own.to_json() for own in replies))
        self.part.unlink()

    def _check(self, found: Mapping[str, Any]) -> None:
        """Raise DataError if the answers so far are of something else."""
        others = [
            f"{name} {found.get(name)!r:.80}, not {own!r:.80}"
            for name, own in self.of.items()
            if found.get(name) != own
        ]
        if others:
            raise DataError(
                f"{self.part} holds answers of {'; '.join(others)}; valid: the same again, another "
                "--output, or none of that file"
            )


def _whole(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a file but for a last one that was not written whole; none without a file."""
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    yield from map(json.loads, lines)


def _text(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(own, ensure_ascii=False) + "\n" for own in lines)
