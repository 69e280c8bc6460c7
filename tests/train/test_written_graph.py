"""A graph whose backbone has any name is the model of the short form, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from mllm_jax.compile.target import training_batch
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config, read_values, resolve_config
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.generate.opened import open_model
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.report import write_planned
from mllm_jax.train.step.build import build_train_step
from mllm_jax.train.trainer import train
from tests.configs import CHANGES, values
from tests.golden.compared import programs_differ, state_of, without_names
from tests.release.adapted import ALPHA, RANK, STORED, TARGETS, draw_adapters
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


@pytest.mark.slow
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


#: Two virtual chunks on each of two stages, and stages of an encoder.
PIPELINE: dict[str, Any] = SMALL | {
    "model__decoder__layers": 4,
    "model__encoders__vision__layers": 2,
    "parallel": {
        "devices": 4,
        "decoder": {"data": 2, "stage": 2},
        "encoders": {"vision": {"data": 2, "stage": 2}, "audio": {"data": 4}},
    },
    "schedule": {"chunks": {"decoder": 2}},
    "train__accumulate": 4,
}


def renamed(short: dict[str, Any]) -> dict[str, Any]:
    """The values of `written`, whose schedule has chunks of the backbone."""
    graph = written(short, "language")
    chunks = graph["schedule"]["chunks"]
    chunks["language"] = chunks.pop("decoder")
    return graph


def test_a_pipeline_is_the_program_of_the_short_form() -> None:
    """The same program has the same loss and gradients, bit for bit."""
    short, graph = values(**PIPELINE), renamed(values(**PIPELINE))
    first, second = (lowered(resolve_config(own, "test")) for own in (short, graph))
    assert "while" in first
    assert [*programs_differ(first, second)] == []


def lowered(config: ExperimentConfig) -> str:
    """The update of a step, as it is lowered."""
    step = build_train_step(config)
    arguments = step.abstract_state, training_batch(config, step)
    return without_names(step.update.lower(*arguments).as_text())


def test_a_plan_that_is_found_is_that_of_the_short_form(tmp_path: Path) -> None:
    """It is read from its file, with its schedule."""
    outcomes = []
    for own in (values(**PIPELINE), renamed(values(**PIPELINE))):
        planner = PlanSearch(resolve_config(own, "test"), load_hardware("h100"), "h100")
        outcomes.append(planner.search_plans(1).best[0])
    short, graph = outcomes
    assert graph.seconds == short.seconds
    assert graph.schedule == (short.schedule and short.schedule.with_name("language"))
    write_planned(planner, graph, tmp_path / "plan.yaml")
    config = load_config(tmp_path / "plan.yaml")
    assert config.parallel.plans == dict(graph.strategy.plans)
    assert configure_step(config).schedule == graph.schedule


@pytest.mark.slow
def test_a_plan_that_is_found_trains(tmp_path: Path) -> None:
    """It has stages, by which the steps of the run are pipelined."""
    planner = PlanSearch(
        resolve_config(renamed(values(**PIPELINE)), "test"), load_hardware("h100"), "h100"
    )
    found = planner.search_plans(6).best
    outcome = next(own for own in found if own.strategy.backbone.stage > 1)
    write_planned(planner, outcome, tmp_path / "plan.yaml")
    assert state_after(read_values(tmp_path / "plan.yaml"), tmp_path / "runs", 1)


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


@pytest.mark.slow
def test_adapters_of_a_written_graph_are_those_of_the_short_form(tmp_path: Path) -> None:
    values = imported(tmp_path / "run", PARITY / "llava")
    targets = [target.replace("decoder", "language") for target in TARGETS]
    lora = {"targets": targets, "rank": RANK, "alpha": ALPHA}
    planned(values, **SHARDED)
    values["train"] |= {"lora": lora, "freeze": ["vision"]}

    def drawn(state: Any) -> Any:
        params = state["params"]
        short = {"decoder": params["language"], "vision": params["vision"]}
        changed = draw_adapters({"params": short})["params"]
        return {**state, "params": {"language": changed["decoder"], "vision": changed["vision"]}}

    begun(resolve_config(written(values, "language"), "test"), drawn)
    found = tensors(exported(tmp_path / "run", tmp_path / "adapters", "--adapters"))
    expected = tensors(STORED)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor, expected[name], err_msg=name)


@pytest.mark.slow
def test_a_written_graph_answers_as_the_release(tmp_path: Path) -> None:
    """Under its plans, and on one device."""
    values = imported(tmp_path / "run", PARITY / "llava")
    planned(values, **SHARDED)
    begun(resolve_config(written(values, "language"), "test"))
    run, wanted = str(tmp_path / "run"), AnswerOptions(new_tokens=6)
    answers = [
        [reply.tokens for reply in AnswerGenerator(opened, "step")(["What is it?"], wanted).replies]
        for opened in (
            open_model(run, None),
            open_model(run, None, one_device=True),
            open_model(None, str(PARITY / "llava")),
        )
    ]
    assert answers[0] == answers[1] == answers[2] != [()]


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
