"""A graph whose backbone has any name is the model of the short form, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from mllm_jax.config.load import resolve_config
from mllm_jax.train.trainer import train
from tests.configs import CHANGES, values
from tests.golden.compared import state_of
from tests.release.test_export import exported, read
from tests.release.test_import import PARITY, SHARDED, begun, imported, planned, tensors

SMALL: dict[str, Any] = CHANGES | {
    "data__source": {"kind": "demo", "train": 64, "heldout": 8, "clips": 16, "variants": 2},
    "evaluate__enabled": False,
}


def written(short: dict[str, Any], backbone: str) -> dict[str, Any]:
    """Values of an experiment with all modules written out, the backbone last."""
    model, parallel = short["model"], short["parallel"]
    for section in (model, parallel):
        own = section.pop("decoder")
        section["modules"] = {**section.pop("encoders"), backbone: own}
    model["backbone"] = backbone
    return short


def state_after(experiment: dict[str, Any], folder: Path, steps: int) -> dict[str, np.ndarray]:
    """Parameters and moments of a run after some steps, by their paths."""
    experiment["run"] |= {"directory": str(folder), "name": "run"}
    experiment["data"]["cache"] = str(folder.parent / "cache")
    experiment["train"]["steps"] = steps
    train(resolve_config(experiment, "test"), Console())
    return state_of(folder / "run", steps)


def test_a_backbone_of_any_name_trains_as_the_short_form(tmp_path: Path) -> None:
    """Moments after two steps are those of every gradient; a third step goes on from the files."""
    short = state_after(values(**SMALL), tmp_path / "short", 2)
    graph = written(values(**SMALL), "language")
    whole = state_after(graph, tmp_path / "written", 2)
    paths = {
        path.replace("['decoder']", "['modules']['language']").replace("encoders", "modules"): leaf
        for path, leaf in short.items()
    }
    assert paths.keys() == whole.keys()
    assert not [path for path, leaf in paths.items() if not np.array_equal(leaf, whole[path])]
    further = state_after(graph, tmp_path / "written", 3)
    assert further.keys() == whole.keys()


def doubled(state: Any) -> Any:
    """A state with other weights than the release that they came from."""
    return state | {"params": jax.tree.map(lambda leaf: 2 * leaf, state["params"])}


def test_a_release_goes_into_a_written_graph_and_out_of_it(tmp_path: Path) -> None:
    """Tensors of the export are twice those of the release, whole and in parts."""
    values, source = imported(tmp_path / "run", PARITY / "llava"), tensors(PARITY / "llava")
    planned(values, **SHARDED)
    graph = written(values, "language")
    del graph["model"]["modules"]  # those of the release
    begun(resolve_config(graph, "test"), doubled)
    prefixes = {"language": "language_model.", "vision": "vision_tower.", "": ""}
    for part, prefix in prefixes.items():
        options = ("--part", part) if part else ()
        found = tensors(out := exported(tmp_path / "run", tmp_path / f"out{part}", *options))
        assert found
        for name, tensor in found.items():
            idle = ".post_layernorm." in name or ".encoder.layers.2." in name
            times = 1 if idle else 2  # idle tensors are those of the release
            np.testing.assert_array_equal(tensor, times * source[prefix + name], err_msg=name)
    assert found.keys() == source.keys()
    assert read(out) == read(PARITY / "llava")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decoder": {}}, "parallel.decoder is refused, .*; valid: parallel.modules"),
        ({"modules": {"language": {"data": 2}}}, "parallel.modules.vision: required, as model.mod"),
        ({"modules": {"text": {"data": 4}}}, "parallel.modules.text: no such encoder"),
    ],
)
def test_plans_are_of_the_modules(change: dict[str, Any], reason: str) -> None:
    graph = written(values(**SMALL), "language")
    graph["parallel"] |= change
    with pytest.raises(ValueError, match=reason):
        resolve_config(graph, "test")


def test_adapters_are_those_of_the_backbone() -> None:
    config = resolve_config(written(values(train__lora={}), "language"), "test")
    assert config.train.lora is not None
    assert config.train.lora.targets == ("language.layers.*",)
    assert config.model.adapted == ("language",)
