"""Results of benchmarks that may fail; those of many unlike parts are a table for the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mllm_jax.cli.answer import CommandOutput, exit_code, table_of

#: `reference` is the value to compare with; the note says where it comes from.
COLUMNS = ("part", "what", "measured", "reference", "unit", "note")


@dataclass(frozen=True)
class BenchmarkVerdict:
    """Results for programs (`values`) and for people (`rows` of a table, and `lines` after it).

    `ok` says whether all is well.
    """

    values: Mapping[str, Any]
    rows: Sequence[dict[str, Any]] = field(default=())
    lines: Sequence[str] = field(default=())
    ok: bool = True

    @property
    def answer(self) -> CommandOutput:
        """The answer of the command."""
        tables = [table_of([*self.rows])] if self.rows else []
        return CommandOutput(self.values, tables, self.lines, exit_code(self.ok))


@dataclass(frozen=True)
class BenchmarkFindings:
    """Measured `rows` with `COLUMNS`, and whether they `failed`."""

    rows: Sequence[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not any(row["failed"] for row in self.rows)

    @property
    def answer(self) -> CommandOutput:
        """The answer of the command."""
        return CommandOutput(self.rows, lines=[self.markdown], code=exit_code(self.ok))

    @property
    def markdown(self) -> str:
        """A table for the log."""
        head = [_format_line(COLUMNS), _format_line(["---"] * len(COLUMNS))]
        return "\n".join([*head, *map(line_of, self.rows)])


def line_of(row: Mapping[str, Any]) -> str:
    """The line of a row in the table for the log."""
    return _format_line([_format_cell(row[name]) for name in COLUMNS])


def _format_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _format_cell(value: object) -> str:
    text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def make_row(
    part: str,
    what: str,
    measured: float | None,
    reference: float | None = None,
    unit: str = "s",
    note: str = "",
    *,
    failed: bool = False,
) -> dict[str, Any]:
    """A row of the table."""
    values = (part, what, measured, reference, unit, note)
    return dict(zip(COLUMNS, values, strict=True)) | {"failed": failed}
