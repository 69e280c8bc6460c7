"""Heads of objectives go out with the weights of a run, and come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.release.test_export import exported, read
from tests.release.test_import import PARITY, SHARDED, begun, imported, planned, tensors

CLASSIFIER = {"kind": "linear", "bias": False}
SCENE = {"scene": {"kind": "classification", "classes": 3, "weight": 0.5}}
TO_SCENE = {"source": "decoder", "target": "scene", "select": "last"}
#: The only head of a text model, as transformers has it; and heads of two modules.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "score": ("qwen2_5", {"objectives": SCENE, "edges": [TO_SCENE | {"connector": CLASSIFIER}]}),
    "stored": (
        "llava",
        {
            "objectives": SCENE
            | {"next_token": {"kind": "next_token"}, "colour": {"kind": "regression", "values": 2}},
            "edges": [
                TO_SCENE | {"norm": True},
                {"source": "vision", "target": "decoder"},
                {"source": "vision", "target": "colour", "select": "mean"},
            ],
        },
    ),
}


def heads(state: Any) -> dict[str, np.ndarray]:
    """The parameters of heads, by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(state["params"])
    named = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
    return {name: leaf for name, leaf in named.items() if "head_" in name and "lm_" not in name}


def begun_with_heads(tmp_path: Path, case: str) -> tuple[Any, Path]:
    """A run whose heads are random, and what is exported of it."""
    family, graph = CASES[case]
    values = imported(tmp_path / "run", PARITY / family)
    source, model = values["model"]["pretrained"], values["model"] | graph
    parts = ["decoder", *model["encoders"], *(f"{name}.connector" for name in model["encoders"])]
    names = [f"{edge['source']}.head_{edge['target']}" for edge in graph["edges"]]
    random = dict.fromkeys(name for name in names if "head_decoder" not in name)
    values["model"] = model | {"pretrained": dict.fromkeys(parts, source) | random}
    state, _ = begun(planned(values, **SHARDED))
    return state, exported(tmp_path / "run", tmp_path / "out", "--dtype", "float32")


@pytest.mark.parametrize("case", CASES)
def test_exported_heads_are_imported(case: str, tmp_path: Path) -> None:
    """With their objectives and edges, and every number bit by bit."""
    state, out = begun_with_heads(tmp_path, case)
    values = imported(tmp_path / "again", out)
    for key in ("objectives", "weight"):
        assert values["model"].get(key) == read(out)["mllm_jax"].get(key)
    assert {n for n in values["model"]["pretrained"] if "head_" in n}
    again, told = begun(planned(values, **SHARDED))
    assert "at random" not in told
    expected, found = heads(state), heads(again)
    assert expected.keys() == found.keys()
    assert len(found) == {"score": 1, "stored": 6}[case]
    for name, leaf in expected.items():
        np.testing.assert_array_equal(found[name], leaf, err_msg=name)
    twice = exported(tmp_path / "again", tmp_path / "twice", "--dtype", "float32")
    assert read(twice) == read(out)
    given = tensors(out)
    for name, tensor in tensors(twice).items():
        np.testing.assert_array_equal(tensor, given[name], err_msg=name)


def test_a_classifier_of_texts_is_that_of_transformers(tmp_path: Path) -> None:
    state, out = begun_with_heads(tmp_path, "score")
    (kernel,) = heads(state).values()
    np.testing.assert_array_equal(tensors(out)["score.weight"], kernel.T)
    assert "lm_head.weight" not in tensors(out)  # which nothing would have trained
    config = read(out)
    assert config["architectures"] == ["Qwen2ForSequenceClassification"]
    assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    # Without the key of this framework, the folder is one that others may have written.
    del config["mllm_jax"]
    (out / "config.json").write_text(json.dumps(config))
    values = imported(tmp_path / "again", out)
    own = values["model"] | CASES["score"][1]
    source = own["pretrained"]
    values["model"] = own | {"pretrained": {"decoder": source, "decoder.head_scene": source}}
    again, _ = begun(planned(values, **SHARDED))
    (found,) = heads(again).values()
    np.testing.assert_array_equal(found, kernel)
