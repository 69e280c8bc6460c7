"""A comparison sees one bit of a figure and one operation of a program, and no name of a source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests.golden import compared


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    """A run with lines of metrics."""
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_one_bit_of_a_figure_is_seen(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"step": n, "loss": 0.1 * n, "mfu": 0.5, "exact_match/vision": 0.25} for n in (1, 2)
    ]
    before = compared.figures(written(tmp_path / "before", *rows))
    assert [*compared.figures_differ(before, before)] == []
    changed = rows[1] | {"loss": float(np.nextafter(0.2, 1)), "mfu": 0.1}
    after = compared.figures(written(tmp_path / "after", rows[0], changed))
    (told,) = compared.figures_differ(before, after)
    assert told.startswith("step 2, loss: 0x")
    shorter = compared.figures(written(tmp_path / "shorter", rows[0]))
    assert [line[:7] for line in compared.figures_differ(before, shorter)] == ["step 2,"] * 2
    second = compared.figures(tmp_path / "before", after=1)
    assert {step for step, _ in second} == {2}
    (told,) = compared.figures_differ({}, {})
    assert "no figures" in told


def test_one_bit_of_a_parameter_is_seen(tmp_path: Path) -> None:
    state = {"params": {"w": np.ones(3, np.float32), "v": np.zeros(2, np.int32)}}
    changed = {"params": state["params"] | {"w": np.nextafter(state["params"]["w"], 2)}}
    found = []
    for name, tree in (("before", state), ("after", changed)):
        folder = tmp_path / name / "checkpoints" / "5" / "state"
        with ocp.PyTreeCheckpointer() as writer:
            writer.save(folder, tree)
        found.append(compared.state_of(tmp_path / name, 5))
    assert [*compared.states_differ(found[0], found[0])] == []
    (told,) = compared.states_differ(*found)
    assert told.startswith("['params']['w']: apart by up to 1.19e-07")
    (told,) = compared.states_differ(found[0], {"['params']['w']": found[0]["['params']['w']"]})
    assert told == "['params']['v']: not now"


def lowered(folder: Path, function: Callable[..., Any], name: str) -> str:
    """The text of a program that is lowered under some name."""
    folder.mkdir(exist_ok=True)
    function.__name__ = name
    text = jax.jit(function).lower({name: jnp.ones(3)}).as_text(debug_info=True)
    (folder / "module.mlir").write_text(text)
    (folder / "smaller.mlir").write_text("module {}")
    return compared.program_of(folder)


def test_one_operation_of_a_program_is_seen_and_no_name(tmp_path: Path) -> None:
    sines = [
        lowered(tmp_path / name, lambda tree: jax.tree.map(jnp.sin, tree), name)
        for name in ("before", "renamed")
    ]
    assert [*compared.programs_differ(*sines)] == []
    cosine = lowered(tmp_path / "after", lambda tree: jax.tree.map(jnp.cos, tree), "before")
    (told,) = compared.programs_differ(sines[0], cosine)
    assert told.endswith("operations: stablehlo.cosine +1, stablehlo.sine -1")
    with pytest.raises(FileNotFoundError, match="no program"):
        compared.program_of(tmp_path)
