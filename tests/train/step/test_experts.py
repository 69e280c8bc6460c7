"""Layers with a choice of experts under every kind of plan, their losses and their load."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import compare, initial_parameters, loss_and_gradients
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.records.expert_loads import insane_layer
from mllm_jax.train.state.freeze import Frozen
from mllm_jax.train.state.loads import is_load
from mllm_jax.train.step.batch import place
from mllm_jax.train.step.build import build_step
from scheduling.schedules.schedule import Schedule, interleaved, zero_bubble
from sharding.plan import ParallelPlan
from tests.train.models import small_model

ROWS, TOKENS, MICROBATCHES = 4, 24, 3
SOFTMAX: dict[str, Any] = {
    "count": 4,
    "top_k": 2,
    "d_ff": 16,
    "balance_weight": 0.1,
    "z_weight": 0.01,
}
SIGMOID: dict[str, Any] = {
    "count": 8,
    "top_k": 3,
    "d_ff": 8,
    "router": "sigmoid",
    "groups": 4,
    "top_groups": 2,
    "shared_d_ff": 8,
    "shared_gate": True,
    "scale": 2.5,
    "bias_rate": 0.1,
}
#: Every second layer has experts, the others an MLP, in three periods: where there are two or four
#: runs of layers, a period of one is padding.
UNLIKE = SOFTMAX | {"every": 2}
ROUTERS = {
    "softmax": ("mixtral", SOFTMAX),
    "sigmoid": ("qwen2_moe", SIGMOID),
    "unlike": ("qwen3_moe", UNLIKE),
}


@cache
def model(router: str, remat: str = "layer") -> ModelConfig:
    family, experts = ROUTERS[router]
    values = small_model(family, remat=remat, experts=experts).model_dump(mode="json")
    values["decoder"] |= {"layers": 6} if router == "unlike" else {}
    return ModelConfig.model_validate(values | {"encoders": {}})


@cache
def parameters(router: str) -> Any:
    """Initial ones, with biases that change the choice of experts."""
    params = initial_parameters(model(router), seed=0)
    own = params["decoder"]["layers"]["experts"]["router"]
    shape = own["load_bias"].shape
    own["load_bias"] = np.random.default_rng(1).normal(0, 0.2, shape).astype(np.float32)
    return params


@cache
def batches(router: str) -> list[Any]:
    return [synthetic_batch(model(router), ROWS, TOKENS, {}, n) for n in range(MICROBATCHES)]


@cache
def on_one_device(router: str) -> tuple[np.ndarray, Any]:
    own = model(router), {"decoder": ParallelPlan()}, parameters(router), batches(router)
    return loss_and_gradients(*own)


@pytest.mark.parametrize(
    ("router", "plan", "schedule", "remat", "options"),
    [
        ("softmax", ParallelPlan(fsdp=2, context=2, tensor=2), None, "none", {}),
        ("sigmoid", ParallelPlan(data=2, tensor=2), None, "layer", {}),
        ("sigmoid", ParallelPlan(expert=4), None, "layer", {}),
        ("softmax", ParallelPlan(fsdp=2, expert=2, tensor=2), None, "none", {}),
        ("softmax", ParallelPlan(stage=2, expert=2), interleaved(2, 1, MICROBATCHES), "none", {}),
        ("softmax", ParallelPlan(stage=2, tensor=2), interleaved(2, 1, MICROBATCHES), "none", {}),
        ("unlike", ParallelPlan(stage=2, context=2), interleaved(2, 1, MICROBATCHES), "layer", {}),
        pytest.param(
            *("sigmoid", ParallelPlan(stage=2, fsdp=2), interleaved(2, 1, MICROBATCHES)),
            *("full", {"gather": "layer"}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("unlike", ParallelPlan(stage=2, expert=2), interleaved(2, 2, MICROBATCHES)),
            *("none", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("unlike", ParallelPlan(stage=2, tensor=2), zero_bubble(2, 2, MICROBATCHES)),
            *("none", {}),
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "shards",
        "sigmoid",
        "expert ranks",
        "experts and shards",
        "experts and stages",
        "stages",
        "unlike layers",
        "gathered by layer",
        "unlike layers and experts",
        "zero bubble",
    ],
)
def test_experts_losses_and_loads_are_those_of_one_device(
    router: str,
    plan: ParallelPlan,
    schedule: Schedule | None,
    remat: str,
    options: dict[str, Any],
) -> None:
    pipeline = PipelinePlan(schedule, **options) if schedule else None
    plans, params = {"decoder": plan}, parameters(router)
    got = loss_and_gradients(model(router, remat), plans, params, batches(router), pipeline)
    expected = on_one_device(router)
    result = compare(got, expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
    np.testing.assert_array_equal(load(got), load(expected))


def test_a_router_without_finite_logits_is_told_apart_from_those_before_it() -> None:
    params = jax.tree.map(np.array, parameters("softmax"))
    params["decoder"]["layers"]["experts"]["router"]["kernel"][1, 0, 0] = np.inf
    step = build_step(model("softmax"), {"decoder": ParallelPlan()}, devices=jax.devices()[:1])
    stored = step.form.stored(jax.tree.map(jnp.array, params))
    state = {"step": jnp.int32(0), "params": stored, "optimizer": step.optimizer.init(stored)}
    _, results = step.update(state, place(batches("softmax"), step))
    assert np.isfinite(results["loads"][0]).all()
    assert insane_layer((0, 1), results["loads"]) == 1


def test_loads_of_a_frozen_decoder_are_those_of_one_that_trains() -> None:
    own = model("softmax"), {"decoder": ParallelPlan()}, parameters("softmax"), batches("softmax")
    frozen = loss_and_gradients(*own, frozen=Frozen(("decoder",)))
    np.testing.assert_array_equal(load(frozen), load(on_one_device("softmax")))
    leaves = jax.tree_util.tree_leaves_with_path(frozen[1])
    assert not any(leaf.any() for path, leaf in leaves if not is_load(path))


def load(result: tuple[np.ndarray, Any]) -> np.ndarray:
    found: np.ndarray = result[1]["decoder"]["layers"]["experts"]["router"]["load_bias"]
    return found


@pytest.mark.parametrize("router", ["softmax", "sigmoid"])
def test_the_load_counts_every_token_and_no_padding(router: str) -> None:
    top_k = ROUTERS[router][1]["top_k"]
    shares = load(on_one_device(router))
    np.testing.assert_allclose(shares.sum(-1), top_k, rtol=1e-6)
    assert (shares <= 1 + 1e-6).all()
