"""Answers of commands, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mllm_jax.runtime.exits import ExitCode

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console


def exit_code(success: bool) -> ExitCode:
    """The exit code of a command whose checks have passed, or have not."""
    return ExitCode.OK if success else ExitCode.FAILED


@dataclass(frozen=True)
class CommandOutput:
    """The answer of a command.

    Attributes:
        value: the whole answer as JSON, for programs (`--json`).
        tables: tables for people: columns and rows of each.
        lines: lines for people, printed after the tables.
        code: exit code.
        answered: whether another process has answered already.
    """

    value: object
    tables: Sequence[tuple[Sequence[str], Sequence[Sequence[object]]]] = ()
    lines: Sequence[str] = ()
    code: int = 0
    answered: bool = False


def table_of(rows: list[dict[str, object]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns and rows of a table whose rows name their columns."""
    return tuple(rows[0]), [tuple(row.values()) for row in rows]


def show_answer(console: Console, answer: CommandOutput, *, as_json: bool) -> None:
    """Write an answer where its reader expects it."""
    from mllm_jax.console import print_json, print_table

    if answer.answered:
        return
    if as_json:
        print_json(answer.value)
        return
    for columns, rows in answer.tables:
        print_table(console, columns, rows)
    for line in answer.lines:
        console.out(line, highlight=False)
