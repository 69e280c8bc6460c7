"""Any plan computes what one device computes: the loss and every gradient leaf."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import (
    compare_gradients,
    initial_parameters,
    leaf_errors,
    loss_and_gradients,
)
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.batch_placement import place_microbatches, select_rows
from mllm_jax.train.step.build import build_step
from sharding.exchange_kinds import DEFAULT_EXCHANGES, EXCHANGES, Exchanges
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan, PlanError, list_factorizations
from tests.train.models import small_model

ROWS, TOKENS, BUDGETS = 8, 32, {"vision": 32, "audio": 64}


def plan(
    data: int = 1, fsdp: int = 1, tensor: int = 1, context: int = 1, expert: int = 1
) -> ParallelPlan:
    return ParallelPlan(data=data, fsdp=fsdp, tensor=tensor, context=context, expert=expert)


@cache
def small(decoder: str, vision: str) -> ModelConfig:
    """The small model with adapters; all of it trains."""
    return small_model(decoder, vision).with_adapters(["*", "*.lm_head"], rank=2, scale=2.0)


@cache
def parameters(decoder: str, vision: str) -> Any:
    return initial_parameters(small(decoder, vision), seed=0)


@cache
def reference(decoder: str, vision: str) -> tuple[np.ndarray, Any]:
    return run({name: plan() for name in ("decoder", "vision", "audio")}, decoder, vision)


def run(
    plans: dict[str, ParallelPlan],
    decoder: str,
    vision: str,
    seed: int | None = None,
    exchanges: Exchanges = DEFAULT_EXCHANGES,
) -> tuple[np.ndarray, Any]:
    """Loss and gradients, with encoder rows in an order of their own if it has a seed."""
    model = small(decoder, vision)
    whole = batch(model) if seed is None else scatter_rows(batch(model), model, seed)
    own = parameters(decoder, vision), [whole]
    return loss_and_gradients(model, plans, *own, exchanges=exchanges)


def batch(model: ModelConfig) -> PackedBatch:
    return synthetic_batch(model, ROWS, TOKENS, BUDGETS, seed=1)


@st.composite
def plan_sets(draw: st.DrawFn) -> dict[str, ParallelPlan]:
    devices = draw(st.sampled_from([1, 2, 4, 8]))
    choice = st.sampled_from([plan(*degrees) for degrees in list_factorizations(devices, 5)])
    plans = {name: draw(choice) for name in ("decoder", "vision", "audio")}
    try:
        JointGrid.build(plans)
    except PlanError:
        assume(False)
    return plans


FAMILIES = st.sampled_from(
    [("llama", "siglip"), ("qwen2", "clip"), ("qwen3", "siglip"), ("gpt", "vit22b")]
)


#: Of the order of encoder rows; none for rows where their samples are.
SEEDS = st.none() | st.integers(0, 9)
#: Where rows are those of samples, an all-to-all is a gather within blocks.
WAYS = st.fixed_dictionaries(dict.fromkeys(("vision", "audio"), st.sampled_from(EXCHANGES)))


@settings(phases=[Phase.explicit])
@given(plans=plan_sets(), families=FAMILIES, seed=SEEDS, exchanges=WAYS)
@example(
    plans={
        "decoder": plan(1, 2, 2, expert=2),
        "vision": plan(1, 1, 4, 1, expert=2),
        "audio": plan(1, 2, 2, 2),
    },
    families=("gpt", "vit22b"),
    seed=1,
    exchanges={"vision": "all_to_all", "audio": "reduce_scatter"},
)
def test_loss_and_gradients_equal_one_device(plans, families, seed, exchanges):
    check(plans, families, seed, exchanges)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans=plan_sets(), families=FAMILIES, seed=SEEDS, exchanges=WAYS)
@example(
    plans={"decoder": plan(2, 1, 1, 4), "vision": plan(8), "audio": plan(2, 1, 2, 2)},
    families=("llama", "siglip"),
    seed=None,
    exchanges={"vision": "gather", "audio": "reduce_scatter"},
)
@example(
    plans={"decoder": plan(2, 1, 2), "vision": plan(4), "audio": plan(2, 1, 2)},
    families=("llama", "siglip"),
    seed=None,
    exchanges={"vision": "gather", "audio": "reduce_scatter"},
)
@example(
    plans={"decoder": plan(2, 2, 2), "vision": plan(1, 8, 1), "audio": plan(1, 1, 8)},
    families=("gpt", "vit22b"),
    seed=2,
    exchanges={"vision": "all_to_all", "audio": "all_to_all"},
)
@example(
    plans={
        "decoder": plan(1, 2, 2, expert=2),
        "vision": plan(1, 1, 2, 2, expert=2),
        "audio": plan(1, 2, 2, 2),
    },
    families=("qwen3", "clip"),
    seed=4,
    exchanges={"vision": "all_to_all", "audio": "reduce_scatter"},
)
@example(
    plans={"decoder": plan(1, 1, 2, 2), "vision": plan(2, 1, 1, 2), "audio": plan(2, 2, 1)},
    families=("qwen3", "clip"),
    seed=3,
    exchanges={"vision": "gather", "audio": "reduce_scatter"},
)
def test_many_plans_equal_one_device(plans, families, seed, exchanges):
    check(plans, families, seed, exchanges)


def check(
    plans: dict[str, ParallelPlan],
    families: tuple[str, str],
    seed: int | None,
    exchanges: Exchanges,
) -> None:
    result = compare_gradients(run(plans, *families, seed, exchanges), reference(*families))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


#: Families of the tests below: those of a plan above.
OURS = ("gpt", "vit22b")


def test_gradients_are_not_trivial():
    loss, gradients = reference(*OURS)
    assert 2 < loss < 6
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradients):
        if "k_proj']['bias" not in jax.tree_util.keystr(path):
            assert np.abs(leaf).max() > 1e-6, path


def test_accumulation_equals_one_batch():
    model = small(*OURS)
    plans = {"decoder": plan(2), "vision": plan(2), "audio": plan(1, 1, 2)}
    step = build_step(model, plans)
    params = jax.device_put(
        step.form.to_stored(parameters(*OURS)),
        jax.tree.map(lambda x: x.sharding, step.abstract_state["params"]),
    )
    pieces = [microbatch(model, i, 2) for i in range(2)]
    gradients, loss = step.gradients(params, place_microbatches(pieces, step))
    expected_loss, expected = reference(*OURS)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
    errors = leaf_errors(jax.tree.map(np.asarray, gradients), expected)
    assert max(errors.values()) < 2e-5, errors


def microbatch(model: ModelConfig, number: int, parts: int) -> PackedBatch:
    """Part `number` of the batch, with indices counted from its own first row."""
    size = ROWS // parts
    rows = range(number * size, (number + 1) * size)
    piece = select_rows(batch(model), dict.fromkeys(("decoder", *model.encoders), rows))
    for name, index in piece.text_rows.merges.items():
        index[index >= 0] -= number * size * BUDGETS[name] // model.reduction(name)
    return piece
