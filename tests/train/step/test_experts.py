"""Layers with a choice of experts under every kind of plan, their losses and their load."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import (
    GradientFunction,
    compare_gradients,
    initial_parameters,
    make_gradient_function,
)
from mllm_jax.config.load import TrainConfig
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.config.sections import GuardConfig
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import abstract_parameters, init_parameters
from mllm_jax.train.records.expert_loads import find_nonfinite_layer
from mllm_jax.train.state.loads import is_load
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_step
from scheduling.schedules.backbone_schedules import interleaved_schedule, zero_bubble_schedule
from scheduling.schedules.schedule import Schedule
from sharding.plan import ParallelPlan, divisors_of
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
#: A shared expert beside others, and less room for copies than an even share.
SHARED = SOFTMAX | {"count": 8, "d_ff": 8, "shared_d_ff": 16, "shared_gate": True, "buffer": 0.5}
ROUTERS = {
    "softmax": ("mixtral", SOFTMAX),
    "sigmoid": ("qwen2_moe", SIGMOID),
    "shared": ("qwen2_moe", SHARED),
    "unlike": ("qwen3_moe", UNLIKE),
}
#: What the biases of experts make of the choice: nothing that is known, all tokens to one expert
#: and to some others, all to half of the experts, which are those of one of two ranks.
ROUTES = ("random", "one", "half")


@cache
def model(router: str, remat: str = "layer") -> ModelConfig:
    family, experts = ROUTERS[router]
    values = small_model(family, remat=remat, experts=experts).model_dump(mode="json")
    values["decoder"] |= {"layers": 6} if router == "unlike" else {}
    return ModelConfig.model_validate(values | {"encoders": {}})


@cache
def initial(router: str) -> Any:
    return initial_parameters(model(router), seed=0)


@cache
def parameters(router: str, routes: str = "random") -> Any:
    """Initial ones, with biases that change the choice of experts."""
    params = jax.tree.map(lambda leaf: leaf, initial(router))
    own = params["decoder"]["layers"]["experts"]["router"]
    shape = own["load_bias"].shape
    bias = np.random.default_rng(1).normal(0, 0.2, shape).astype(np.float32)
    bias[:, : {"random": 0, "one": 1, "half": shape[1] // 2}[routes]] += 10
    own["load_bias"] = bias
    return params


@cache
def batches(router: str, rows: int = ROWS) -> list[Any]:
    return [synthetic_batch(model(router), rows, TOKENS, {}, n) for n in range(MICROBATCHES)]


@cache
def single(router: str, rows: int) -> GradientFunction:
    return make_gradient_function(model(router), {"decoder": ParallelPlan()}, batches(router, rows))


@cache
def on_one_device(router: str, routes: str = "random", rows: int = ROWS) -> tuple[np.ndarray, Any]:
    return single(router, rows)(parameters(router, routes))


def check(got: tuple[np.ndarray, Any], expected: tuple[np.ndarray, Any]) -> None:
    """Losses and gradients are equal but for the order of sums, and loads are the same."""
    result = compare_gradients(got, expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
    np.testing.assert_array_equal(load(got), load(expected))


@pytest.mark.parametrize(
    ("router", "plan", "schedule", "remat", "options"),
    [
        pytest.param(  # a quick one is in tests/check/test_verify.py
            *("softmax", ParallelPlan(fsdp=2, context=2, tensor=2), None, "none", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("sigmoid", ParallelPlan(data=2, tensor=2), None, "layer", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("sigmoid", ParallelPlan(expert=4), None, "layer", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("softmax", ParallelPlan(fsdp=2, expert=2, tensor=2), None, "none", {}),
            marks=pytest.mark.slow,
        ),
        (
            "softmax",
            ParallelPlan(stage=2, expert=2),
            interleaved_schedule(2, 1, MICROBATCHES),
            "none",
            {},
        ),
        pytest.param(
            *("softmax", ParallelPlan(stage=2, tensor=2), interleaved_schedule(2, 1, MICROBATCHES)),
            *("none", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("unlike", ParallelPlan(stage=2, context=2), interleaved_schedule(2, 1, MICROBATCHES)),
            *("layer", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("sigmoid", ParallelPlan(stage=2, fsdp=2), interleaved_schedule(2, 1, MICROBATCHES)),
            *("full", {"gather": "layer"}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("unlike", ParallelPlan(stage=2, expert=2), interleaved_schedule(2, 2, MICROBATCHES)),
            *("none", {}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("unlike", ParallelPlan(stage=2, tensor=2), zero_bubble_schedule(2, 2, MICROBATCHES)),
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
    run = make_gradient_function(model(router, remat), {"decoder": plan}, batches(router), pipeline)
    for routes in ROUTES if plan.expert > 1 else ROUTES[:1]:
        check(run(parameters(router, routes)), on_one_device(router, routes))


@st.composite
def plans(draw: st.DrawFn, rows: int) -> ParallelPlan:
    """Six degrees of eight devices, more than one of which share experts."""
    degrees, left = {"expert": draw(st.sampled_from([2, 4]))}, 8
    left //= degrees["expert"]
    for axis in draw(st.permutations(["data", "fsdp", "stage", "context", "tensor"])):
        most = 2 if axis == "stage" else left
        degrees[axis] = draw(st.sampled_from([n for n in divisors_of(left) if n <= most]))
        left //= degrees[axis]
    plan = ParallelPlan(**degrees)
    assume(left == 1 and rows % plan.batch == 0)
    return plan


@pytest.mark.slow
@settings(max_examples=12)
@given(st.data())
def test_any_plan_of_six_degrees_equals_one_device_wherever_tokens_go(data: st.DataObject) -> None:
    rows = 8
    router, plan = data.draw(st.sampled_from(list(ROUTERS))), data.draw(plans(rows))
    remat = data.draw(st.sampled_from(["none", "layer", "full"]))
    pipeline = None
    if plan.stage > 1:
        make = data.draw(st.sampled_from([interleaved_schedule, zero_bubble_schedule]))
        chunks = 2 if router == "unlike" and data.draw(st.booleans()) else 1
        gather = data.draw(st.sampled_from(["step", "layer"]))
        pipeline = PipelinePlan(make(plan.stage, chunks, MICROBATCHES), gather=gather)
    run = make_gradient_function(
        model(router, remat), {"decoder": plan}, batches(router, rows), pipeline
    )
    for routes in ROUTES:
        check(run(parameters(router, routes)), on_one_device(router, routes, rows))


@pytest.mark.parametrize("router", ROUTERS)
def test_shapes_are_those_of_what_is_made(router: str) -> None:
    made = jax.eval_shape(partial(init_parameters, model(router)), jax.random.key(0))
    assert abstract_parameters(model(router))[0] == made


@pytest.mark.slow
def test_an_update_is_left_out_if_a_router_has_no_finite_logits_though_the_loss_is_finite() -> None:
    params = jax.tree.map(np.array, parameters("sigmoid"))
    params["decoder"]["layers"]["experts"]["router"]["kernel"][1, 0, 0] = 3e38  # logits overflow
    own = model("sigmoid", "none"), {"decoder": ParallelPlan()}
    train = TrainConfig(steps=2, learning_rate=0.1, guard=GuardConfig(skip=1))
    step = build_step(*own, train=train, devices=jax.devices()[:1])
    stored = step.form.to_stored(jax.tree.map(jnp.array, params))
    state = {"step": jnp.int32(0), "params": stored, "optimizer": step.optimizer.init(stored)}
    before = jax.tree.map(np.array, state)
    after, results = step.update(state, place_microbatches(batches("sigmoid")[:1], step))
    assert np.isfinite([results["loss"], results["grad_norm"]]).all()
    assert np.isfinite(results["loads"][0]).all()
    assert find_nonfinite_layer((0, 1), results["loads"]) == 1
    jax.tree.map(np.testing.assert_array_equal, after, before)
    # It does not count for the learning rate, whenever the host comes to know of it.
    _, again = step.update(after, place_microbatches(batches("sigmoid")[:1], step))
    assert float(again["learning_rate"]) == float(results["learning_rate"]) == pytest.approx(0.1)
    assert again["part_norms"] == {"decoder": pytest.approx(again["grad_norm"])}


def test_loads_of_a_frozen_decoder_are_those_of_one_that_trains() -> None:
    own = model("softmax"), {"decoder": ParallelPlan()}, batches("softmax")
    frozen = make_gradient_function(*own, frozen=FrozenParameters(("decoder",)))(
        parameters("softmax")
    )
    np.testing.assert_array_equal(load(frozen), load(on_one_device("softmax")))
    leaves = jax.tree_util.tree_leaves_with_path(frozen[1])
    assert all(is_load(path) for path, _ in leaves)


def load(result: tuple[np.ndarray, Any]) -> np.ndarray:
    found: np.ndarray = result[1]["decoder"]["layers"]["experts"]["router"]["load_bias"]
    return found


@pytest.mark.parametrize("router", ["softmax", pytest.param("sigmoid", marks=pytest.mark.slow)])
def test_the_load_counts_every_token_and_no_padding(router: str) -> None:
    top_k = ROUTERS[router][1]["top_k"]
    shares = load(on_one_device(router))
    np.testing.assert_allclose(shares.sum(-1), top_k, rtol=1e-6)
    assert (shares <= 1 + 1e-6).all()
