"""Pages of the reference say what the code does: exit codes, batches, checkpoints, terms."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import jax
import numpy as np

from benchmarks.registry import BENCHMARKS
from data.batch import ModuleRows, NextTokenTargets, PackedBatch, SampleTargets
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import ImageTiling
from data.planning.layout import media_of_plan, runs_of_plan
from data.rows.pack import empty_rows
from data.rows.tokens import SPAN_IDS, TokenSpec
from data.targets import LabelSpec
from mllm_jax.cli.table import COMMANDS
from mllm_jax.config.inputs import media_specs
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.runtime.exits import MEANINGS
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.stored_names import StoredNames
from scheduling.executor.step_batch import StepBatch
from tests.configs import ROOT, config
from tests.data.samples import arrays

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


def test_the_page_of_the_batch_has_its_arrays_and_types() -> None:
    image, audio = (replace(own, name="<bucket>") for own in media_specs(MODEL))
    assert isinstance(image, ImageRowSpec)
    tiled = replace(image, tiling=ImageTiling(((16, 16),), (16, 16), (1, 1), 1), newline=1)
    types: dict[str, np.dtype] = {}
    for own in (tiled, audio):
        decoder = TokenSpec(BACKBONE, ids=(SPAN_IDS,)).empty_rows((1, 1), [own.name])
        label = {"<objective>": LabelSpec("<objective>", 2).empty(1, 1, 1)}
        decoder = replace(decoder, targets={**decoder.targets, **label})
        modules = {BACKBONE: decoder, own.name: empty_rows(own, 1, own.reduction)}
        batch = PackedBatch(modules, runs_of_plan([], (own,)), media_of_plan([], (own,)))
        types |= {name: array.dtype for name, array in arrays(batch)}
    page = (FOLDER / "batch.md").read_text()
    rows = re.findall(r"(?m)^\| `([^`]+)` \| (\w+) \|", page)
    assert {name: np.dtype(dtype) for name, dtype in rows} == types


def test_the_page_of_the_batch_names_every_field() -> None:
    named = {part for name in first_cells("batch.md") for part in name.split(".")}
    for kind in (PackedBatch, ModuleRows, NextTokenTargets, SampleTargets):
        assert {field.name for field in fields(kind)} <= named
    page = (FOLDER / "batch.md").read_text()
    assert all(f"`{field.name}`" in page for field in fields(StepBatch))


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
