"""A file of answers, in which the answers of every batch are stored at once.

Beside `answers.jsonl` lies `answers.jsonl.part` until all prompts are answered: a record that says
of what the answers are, then a record of each answer, batch by batch. The same command goes on from
it; an answer whose record is damaged is written again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.sample import DataError
from mllm_jax.generate.answers import AnswerReply
from mllm_jax.runtime.records import (
    INT,
    LIST,
    TEXT,
    RecordSchema,
    read_record_lines,
    records_text,
    write_atomically,
)

_INDEX = "index"
_ANSWER = RecordSchema(
    {_INDEX: INT, "name": TEXT, "text": TEXT, "tokens": LIST, "prompt_tokens": INT},
    {"stopped": (str, type(None)), "id": (object,)},
)


@dataclass(frozen=True)
class AnswerFile:
    """A file of answers that is being written.

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

    def read_replies(self) -> dict[int, AnswerReply]:
        """Answers of an earlier start, by the indices of their prompts; begins a new file if none.

        Raises:
            DataError: they are of something else, or the file is something else.
            OSError: the file cannot be written.
        """
        answers_read = read_record_lines(self.part, _record_form)
        if why := answers_read.damage.get(1):
            raise DataError(
                f"{self.part} is no file of answers: {why}; valid: another --output, or none of "
                "that file"
            )
        answers_read.log_problems()
        lines = list(answers_read.values)
        if lines:
            self._check_stored(lines[0])
        write_atomically(self.part, records_text([self.of, *lines[1:]], ascii_only=False))
        return {record.pop(_INDEX): AnswerReply.from_json(record) for record in lines[1:]}

    def add(self, replies: Mapping[int, AnswerReply]) -> None:
        """Store answers to prompts; prompts without one are tried again at the next start."""
        good = [
            {_INDEX: index, **reply.to_json()}
            for index, reply in replies.items()
            if reply.error is None
        ]
        with self.part.open("a", encoding="utf-8") as file:
            file.write(records_text(good, ascii_only=False))

    def finish(self, replies: Sequence[AnswerReply]) -> None:
        """Write the complete file, in the order of the prompts."""
        lines = [json.dumps(reply.to_json(), ensure_ascii=False) + "\n" for reply in replies]
        write_atomically(self.path, "".join(lines))
        self.part.unlink()

    def _check_stored(self, stored: Mapping[str, Any]) -> None:
        """Raise DataError if the answers so far are of something else."""
        others = [
            f"{name} {stored.get(name)!r:.80}, not {value!r:.80}"
            for name, value in self.of.items()
            if stored.get(name) != value
        ]
        if others:
            raise DataError(
                f"{self.part} holds answers of {'; '.join(others)}; valid: the same again, another "
                "--output, or none of that file"
            )


def _record_form(values: Mapping[str, Any]) -> RecordSchema:
    """The form of a line: of an answer, or of the first one."""
    return _ANSWER if _INDEX in values else RecordSchema({})
