"""Output for people: lines and tables, coloured on a terminal and plain elsewhere.

With `--json` the standard output carries one JSON value and nothing else; all other text goes to
standard error.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.logging import RichHandler


def open_console(as_json: bool = False) -> Console:
    """Console of a command; on standard error where standard output is for JSON."""
    return Console(stderr=as_json, highlight=False, soft_wrap=True)


#: Packages whose progress messages are shown.
OWN_PACKAGES = ("data", "mllm_jax")


def log_to(console: Console, level: int = logging.WARNING) -> None:
    """Send Python's log records, warnings included, to `console`.

    Args:
        console: console to write to.
        level: lowest level that is shown; of our own packages progress is shown, too.
    """
    logging.captureWarnings(capture=True)
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for package in OWN_PACKAGES:
        logging.getLogger(package).setLevel(logging.INFO)


def print_json(value: object) -> None:
    """`value` as the one JSON line on standard output; not-a-number becomes null."""
    sys.stdout.write(json.dumps(replace_non_finite(value), allow_nan=False) + "\n")
    sys.stdout.flush()


def replace_non_finite(value: object) -> object:
    """`value` with every infinite or undefined number as None: JSON has no word for them."""
    if isinstance(value, Mapping):
        return {str(key): replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table as wide as it needs, never cut; floats have four significant digits.

    Columns of numbers are right-aligned.
    """
    cells = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    for line, style in ((columns, "bold"), *((row, "") for row in cells)):
        padded = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ]
        console.print("  ".join(padded).rstrip(), style=style, soft_wrap=True, markup=False)
