"""Held-out samples find their partners as often as each of them alone does, compared with all."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from data.loading.evaluation import example_batches
from data.sources.make import make_source
from data.sources.shapes import HELDOUT, write_example
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.models.model import Model
from mllm_jax.train.components.evaluator import LossEvaluator
from mllm_jax.train.components.retrieval import PairOutputs
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.records.evaluation_figures import figures_of
from sharding.grid import MeshView
from tests.configs import ROOT

Pairs = dict[str, list[np.ndarray]]
#: The edges of every objective of pairs of configs/slices/bound.yaml, in their order.
SOURCES = {"captions": ("image", "decoder"), "sounds": ("image", "audio")}


def test_recall_counts_the_samples_whose_own_partner_is_the_nearest() -> None:
    first = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    second = np.array([[1.0, 0.1], [5.0, 0.0], [0.0, 1.0]])
    # Sample 0 is nearer to partner 1; sample 1 to partner 0; partner 0 is nearest to sample 0.
    assert PairOutputs(first, second).recall_at_1() == (1 / 3, 2 / 3)


def test_a_partner_as_near_as_another_one_counts() -> None:
    alike = np.array([[1.0, 0.0], [1.0 + 1e-9, 1e-8]])
    assert PairOutputs(alike, alike[::-1]).recall_at_1() == (1.0, 1.0)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    """Three modules on two slices, on samples of images, sounds and captions."""
    folder = tmp_path_factory.mktemp("retrieval")
    made = write_example(folder / "shapes", 2, seed=0).folder
    widths = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16}
    modules = "decoder", "encoders.image", "encoders.audio"
    changes = [
        *(f"model.{name}.{key}={value}" for name in modules for key, value in widths.items()),
        "model.objectives.captions.dimensions=4",
        "model.objectives.sounds.dimensions=4",
        f"data.source.path={made / 'train_triples.json'}",
        f"data.source.media={made / 'media'}",
        f"data.source.heldout={made / 'heldout_triples.json'}",
        f"data.cache={folder / 'cache'}",
        "data.workers=0",
        "data.rows=2",
        "data.budgets={tokens: 160, segments: 8, image: 68, audio: 160}",
        f"run.directory={folder / 'runs'}",
    ]
    return load_config(ROOT / "configs" / "slices" / "bound.yaml", changes)


@pytest.fixture(scope="module")
def experiment(loaded: ExperimentConfig) -> Experiment:
    return Experiment.build(loaded)


@pytest.fixture(scope="module")
def params(experiment: Experiment) -> Any:
    """Parameters on the host, larger than at the start, so that outputs depend on their inputs."""
    state = experiment.step.init(jax.random.key(0))
    canonical = experiment.step.form.to_canonical(jax.tree.map(np.asarray, state["params"]))
    return jax.tree.map(lambda x: np.asarray(x) * 2, canonical)


def outputs_alone(experiment: Experiment, params: Any) -> dict[str, Pairs]:
    """What edges bring of every sample in a row of its own, on one device."""
    config = experiment.config
    data = config.data.model_copy(update={"rows": 1})
    names = config.model.backbone, *config.model.buckets
    source, rows = make_source(data, "heldout"), {name: [0] for name in names}
    modules = Model(config.model, dict.fromkeys(names, MeshView()))
    forward = jax.jit(lambda params, rows: modules.forward(params, rows, {})[0])
    found: dict[str, Pairs] = {name: {n: [] for n in ends} for name, ends in SOURCES.items()}
    for index in range(HELDOUT):
        (example,) = example_batches(source, experiment.processor, data, rows, [index])
        for name, brought in forward(params, example.batch.rows).items():
            for end, values in brought.items():
                found[name][end].append(np.asarray(values).reshape(-1, values.shape[-1])[0])
    return found


def share_of_own(queries: list[np.ndarray], partners: list[np.ndarray]) -> float:
    """Share of queries of which no other partner has a larger cosine."""
    right = 0
    for number, query in enumerate(queries):
        near = [query @ p / np.linalg.norm(query) / np.linalg.norm(p) for p in partners]
        right += near[number] >= max(near) - 1e-6
    return right / len(queries)


def test_all_held_out_samples_are_compared_with_all(experiment: Experiment, params: Any) -> None:
    """Those of several batches, modules on devices of their own."""
    layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract_state["params"])
    placed = jax.device_put(experiment.step.form.to_stored(params), layout)
    result = LossEvaluator(experiment)(placed)
    alone, expected = outputs_alone(experiment, params), {}
    for name, (first, second) in SOURCES.items():
        for a, b in ((first, second), (second, first)):
            expected[f"{name}/{a}_to_{b}"] = share_of_own(alone[name][a], alone[name][b])
    assert result["recall_at_1"] == expected
    assert result["retrieved"] == dict.fromkeys(SOURCES, HELDOUT)
    assert figures_of(result) == {f"recall_at_1/{name}": x for name, x in expected.items()}
    assert len({*expected.values()}) > 1, "all shares are equal, whatever the samples are"


def test_retrieval_needs_an_objective_of_pairs() -> None:
    path = ROOT / "configs" / "slices" / "heads.yaml"
    with pytest.raises(ConfigError, match=r"evaluate.retrieval: true needs a contrastive"):
        load_config(path, ["evaluate.retrieval=true"])


def test_an_evaluation_without_retrieval_of_pairs_alone_measures_nothing() -> None:
    path = ROOT / "configs" / "pairs.yaml"
    with pytest.raises(ConfigError, match=r"evaluate.enabled: true measures nothing"):
        load_config(path, ["evaluate.retrieval=false"])
