"""Objectives besides the next token: any plan computes what one device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.build import build_step
from sharding.plan import ParallelPlan
from tests.train.models import VISION, small_model

ROWS, TOKENS, BUDGETS = 8, 32, {"image": 32, "vision": 32}
IMAGE = {**VISION, "grid": [2, 4], "heads": 8, "head_dim": 4, "class_token": "kept"}
LINEAR = {"kind": "linear", "bias": False}
#: Every kind of objective: of the decoder, of an encoder whose outputs are not merged, of both, and
#: of an encoder whose outputs are merged, too.
OBJECTIVES = {
    "next_token": {"kind": "next_token"},
    "scene": {"kind": "classification", "classes": 3, "weight": 0.5},
    "place": {"kind": "regression", "values": 2},
    "pairs": {"kind": "contrastive", "dimensions": 6},
    "shape": {"kind": "classification", "classes": 2},
    "colour": {"kind": "regression", "values": 3},
}
EDGES = [
    {"source": "decoder", "target": "scene", "select": "last"},
    {"source": "decoder", "target": "place", "select": "mean", "connector": {"hidden": 5}},
    {"source": "decoder", "target": "pairs", "select": "last", "connector": LINEAR},
    {
        "source": "image",
        "target": "pairs",
        "select": "class_token",
        "norm": True,
        "connector": LINEAR,
    },
    {"source": "image", "target": "shape", "select": "mean"},
    {"source": "vision", "target": "decoder"},
    {"source": "vision", "target": "colour", "select": "mean", "norm": True},
]
PLANS = {
    "rows": {
        "decoder": ParallelPlan(data=2, fsdp=2),
        "image": ParallelPlan(data=4),
        "vision": ParallelPlan(fsdp=4),
    },
    "positions": {
        "decoder": ParallelPlan(fsdp=2, tensor=2),
        "image": ParallelPlan(data=2, tensor=2),
        "vision": ParallelPlan(data=2, context=2),
    },
}


@cache
def model() -> ModelConfig:
    values = small_model("gpt").model_dump(mode="json")
    encoders = {"image": IMAGE | {"family": "clip"}, "vision": values["encoders"]["vision"]}
    graph = {"encoders": encoders, "objectives": OBJECTIVES, "edges": EDGES}
    return ModelConfig.model_validate(values | graph)


def batches(order: int | None = None) -> list[PackedBatch]:
    found = [synthetic_batch(model(), ROWS, TOKENS, BUDGETS, seed) for seed in range(2)]
    return found if order is None else [scatter_rows(batch, model(), order) for batch in found]


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


@cache
def on_one_device() -> tuple[np.ndarray, Any]:
    plans = dict.fromkeys(("decoder", "image", "vision"), ParallelPlan())
    return loss_and_gradients(model(), plans, parameters(), batches())


def test_samples_of_all_objectives_are_learnt() -> None:
    """Several edges of a module add to its gradients."""
    weights = dict.fromkeys(OBJECTIVES, 0.0)
    for batch in batches():
        for name, targets in batch.text_rows.targets.items():
            weights[name] += targets.weights.sum()
    assert min(weights.values()) > 4, weights
    gradients = on_one_device()[1]
    for source, target in (("image", "shape"), ("image", "pairs"), ("vision", "colour")):
        assert np.abs(gradients[source][f"head_{target}"]["linear"]["kernel"]).max() > 0
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradients["vision"]["connector"]))


@pytest.mark.parametrize("name", [pytest.param("rows", marks=pytest.mark.slow), "positions"])
def test_every_plan_computes_what_one_device_computes(name: str) -> None:
    """Texts and images of a pair lie on different ranks, and pairs in two microbatches."""
    result = compare_gradients(
        loss_and_gradients(model(), PLANS[name], parameters(), batches(order=1)), on_one_device()
    )
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_gradients_are_the_same_without_gradient_caching() -> None:
    """All microbatches go back at once, on ranks that divide rows and positions."""
    parts = model(), PLANS["positions"], parameters(), batches(order=1)
    result = compare_gradients(loss_and_gradients(*parts, gradient_caching=False), on_one_device())
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_no_forward_runs_twice_without_gradient_caching() -> None:
    products = []
    for cached in (True, False):
        step = build_step(model(), PLANS["positions"], gradient_caching=cached)
        rows = local_rows(step, ROWS)
        batch = place_microbatches([select_rows(each, rows) for each in batches()], step)
        params = step.abstract_state["params"]
        text = step.gradients.lower(params, batch).as_text()
        products.append(text.count("stablehlo.dot_general"))
    assert products[1] < 0.8 * products[0]
