"""Pages of the reference say what the code does: exit codes, batches, checkpoints, terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import launch
from benchmarks.registry import BENCHMARKS
from data.batch import PackedBatch
from data.planning.layout import media_of_plan, runs_of_plan
from data.rows.pack import empty_rows
from data.rows.spec import MediaRowSpec
from data.rows.tokens import TokenSpec
from data.targets import LabelSpec
from mllm_jax.cli.table import COMMANDS
from mllm_jax.models.module import abstract_parameters
from mllm_jax.pages.batch_page import (
    DEVICE_TYPES,
    HOST_TYPES,
    MADE_FROM,
    ROWS_WITH_ALL,
    format_types,
    list_fields,
    write_types,
)
from mllm_jax.runtime.exits import MEANINGS, ExitCode
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.stored_names import StoredNames
from tests.configs import ROOT, config

FOLDER = ROOT / "docs" / "reference"
MODEL = config(model__decoder__vocab=320).model


def test_the_page_of_commands_names_all_of_them() -> None:
    page = (FOLDER / "commands.md").read_text()
    named = set(re.findall(r"launch\.py ([a-z]+)", page))
    assert named >= {*COMMANDS}
    assert set(re.findall(r"launch\.py bench (\w+)", page)) == {*BENCHMARKS}


def test_one_page_has_a_figure_of_every_benchmark() -> None:
    page = (ROOT / "docs" / "measurements" / "index.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.M)[1:]) == sorted(BENCHMARKS)


def test_exit_codes_are_those_of_the_code() -> None:
    page = (FOLDER / "exit-codes.md").read_text()
    rows = re.findall(r"(?m)^\| (\d+) \| (.*) \|$", page)
    assert rows == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def first_cells(page: str) -> list[str]:
    """Code in the first cells of the tables of a page of the reference."""
    return re.findall(r"(?m)^\| `([^`]+)`", (FOLDER / page).read_text())


def test_the_page_of_the_batch_is_made_from_its_types() -> None:
    page = (FOLDER / "batch.md").read_text()
    stale = "refresh: launch.py config --write-batch docs/reference/batch.md"
    assert page[page.index(MADE_FROM) :] == format_types(), stale


def test_the_types_of_a_batch_are_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "batch.md"
    page.write_text("# Mine\n")
    with pytest.raises(FileNotFoundError, match="has no types; valid: a line '## Types'"):
        write_types(page)
    page.write_text(f"# Mine\n\n{MADE_FROM}\nof before\n")
    assert launch.main(["config", "--write-batch", str(page)]) == ExitCode.OK
    assert page.read_text() == f"# Mine\n\n{format_types()}"
    assert write_types(page) == []


def test_fields_of_a_batch_hold_arrays_of_the_types_that_they_name() -> None:
    for kind in (*HOST_TYPES, *DEVICE_TYPES):
        assert all(meaning for _, meaning in list_fields(kind)), kind
    held = {dtype for name in ROWS_WITH_ALL for dtype in array_types(batch_of(name))}
    assert len(held) == 12
    for owner, name, dtype in held:
        assert str(dtype) in dict(list_fields(owner))[name], (owner, name)


def batch_of(content: str) -> PackedBatch:
    """Rows of text with all targets, and rows of a medium if `content` is one."""
    text, spec = ROWS_WITH_ALL["text"], ROWS_WITH_ALL[content]
    assert isinstance(text, TokenSpec)
    rows = text.empty_rows((1, 1), [spec.name])
    labels = LabelSpec("label", 2).empty(1, 1, 1)
    rows = replace(rows, targets={**rows.targets, "label": labels})
    if not isinstance(spec, MediaRowSpec):
        return PackedBatch({text.name: rows})
    media = empty_rows(spec, 1, spec.reduction)
    modules = {text.name: rows, spec.name: media}
    return PackedBatch(modules, runs_of_plan([], (spec,)), media_of_plan([], (spec,)))


def array_types(tree: Any) -> Iterator[tuple[type, str, np.dtype]]:
    """Classes, fields and types of the arrays in a batch; those by name are in other tables."""
    for field in fields(tree):
        value = getattr(tree, field.name)
        for part in value.values() if isinstance(value, dict) else [value]:
            if is_dataclass(part):
                yield from array_types(part)
            elif part is not None and field.name != "arrays":
                yield type(tree), field.name, part.dtype


def test_the_page_of_checkpoints_names_arrays_that_there_are() -> None:
    shapes, _ = abstract_parameters(MODEL)
    state = StoredNames.from_model(MODEL).to_stored({"params": shapes, "step": 0, "optimizer": 0})
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    names = [leaf_name(path) for path, _ in leaves]
    for name in first_cells("checkpoints.md"):
        pattern = re.escape(name).replace("<name>", r"\w+").replace(r"\.\.\.", r"(\..+)?")
        assert any(re.fullmatch(pattern, own) for own in names), name


def test_terms_are_in_alphabetical_order() -> None:
    page = (FOLDER / "glossary.md").read_text()
    terms = re.findall(r"(?m)^### (.*)$", page)
    assert len(terms) > 40
    assert terms == sorted(set(terms), key=str.lower)
