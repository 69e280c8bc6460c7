"""The part of docs/reference/batch.md that is generated from the types of a batch.

Every type is a table of its fields, with the meaning that its docstring gives them; every kind of
rows is a table of its arrays, with the meaning that `RowSpec.arrays` of its class gives them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from data.batch import ModuleRows, NextTokenTargets, PackedBatch, SampleTargets
from data.media.audio.row_spec import AudioRowSpec
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import ImageTiling
from data.rows.spec import ArraySpec, RowSpec
from data.rows.tokens import SPAN_IDS, TokenSpec
from mllm_jax.config.keys import docstring_entry
from scheduling.executor.step_batch import StepBatch
from sharding.exchange import RouteArrays

#: The line of the page from which on it is made.
MADE_FROM = "## Types\n"

#: Types of a batch: on the host, and on the devices.
HOST_TYPES = (PackedBatch, ModuleRows, NextTokenTargets, SampleTargets)
DEVICE_TYPES = (StepBatch, RouteArrays)

_TILES = ImageTiling(((16, 16),), (16, 16), (1, 1), 1)
#: Specifications with every array that rows of their class may have, by what the rows hold.
ROWS_WITH_ALL = {
    "text": TokenSpec("text", ids=(SPAN_IDS,)),
    "images": ImageRowSpec("image", tiling=_TILES, newline=1),
    "clips": AudioRowSpec("audio"),
}

#: Entries of a row on each axis of `ArraySpec`.
_LENGTHS = {"position": "positions", "medium": "positions", "output": "outputs"}


def write_types(page: Path) -> list[Path]:
    """Replace the generated part of a page; the text before it stays.

    Returns:
        The page, if it has changed.

    Raises:
        FileNotFoundError: the page has no line `MADE_FROM`; nothing has been written.
    """
    text = page.read_text()
    if MADE_FROM not in text:
        raise FileNotFoundError(f"{page} has no types; valid: a line {MADE_FROM.strip()!r}")
    new = text[: text.index(MADE_FROM)] + format_types()
    if new == text:
        return []
    page.write_text(new)
    return [page]


def format_types() -> str:
    """The types of a batch, and the arrays of each kind of rows, as Markdown."""
    blocks = [MADE_FROM]
    blocks += [_format_type(kind) for kind in (*HOST_TYPES, *DEVICE_TYPES)]
    blocks += ["## Arrays of rows\n"]
    blocks += [_format_arrays(content, spec) for content, spec in ROWS_WITH_ALL.items()]
    return "\n".join(blocks)


def _format_type(kind: type) -> str:
    """A type as a heading, its first sentence and a table of its fields."""
    summary = (inspect.getdoc(kind) or "").split("\n")[0]
    rows = [f"| `{name}` | {meaning} |" for name, meaning in list_fields(kind)]
    head = ["| field | what it holds |", "|---|---|"]
    return "\n".join([f"### `{kind.__name__}`", "", summary, "", *head, *rows, ""])


def list_fields(kind: type) -> Iterator[tuple[str, str]]:
    """Names of the fields of a dataclass, with their descriptions in its docstring."""
    docstring = inspect.getdoc(kind) or ""
    for field in fields(kind):
        yield field.name, " ".join(docstring_entry(docstring, field.name).split())


def _format_arrays(content: str, spec: RowSpec) -> str:
    """The arrays of rows of one class as a heading, their meaning and a table."""
    docstring = " ".join((inspect.getdoc(type(spec).arrays) or "").split())
    rows = [
        f"| `{name}` | {np.dtype(array.dtype)} | `{_format_shape(name, array)}` |"
        for name, array in spec.arrays.items()
    ]
    title, head = f"### Rows of {content}", ["| array | type | shape |", "|---|---|---|"]
    return "\n".join([title, "", docstring, "", *head, *rows, ""])


def _format_shape(name: str, array: ArraySpec) -> str:
    """`[rows, positions, 2]`; the values of an input position are as many as a module takes."""
    values = ["features"] if name == "inputs" and array.shape else map(str, array.shape)
    return f"[{', '.join(['rows', _LENGTHS[array.axis], *values])}]"
