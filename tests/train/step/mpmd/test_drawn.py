"""Loss and gradients of drawn graphs in drawn groups under drawn plans are those of one device."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.mpmd.build import build_mpmd_step
from sharding.plan import ParallelPlan
from tests.train.step.mpmd.drawn import ROWS, DrawnCase, draw_case

#: Seeds of cases, and those that are quick.
SEEDS, QUICK = 32, (0,)


def on_groups(case: DrawnCase, params: object) -> tuple[np.ndarray, object]:
    """Loss and gradients of the case, as of the model."""
    step = build_mpmd_step(case.model, case.plans, case.numbers)
    rows = local_rows(step, ROWS)
    batch = place_microbatches([select_rows(batch, rows) for batch in case.batches()], step)
    placed = jax.tree.map(
        lambda x, like: jax.device_put(x, like.sharding),
        step.form.to_stored(params),
        step.abstract_state["params"],
    )
    with jax.default_matmul_precision("highest"):
        gradients, loss = step.gradients(placed, batch)
    canonical = step.form.to_canonical(jax.tree.map(np.asarray, gradients))
    return np.asarray(loss), jax.tree.map(np.asarray, canonical)


def on_one_device(case: DrawnCase, params: object) -> tuple[np.ndarray, object]:
    plans = dict.fromkeys(case.plans, ParallelPlan())
    return loss_and_gradients(case.model, plans, params, case.batches())


@pytest.mark.parametrize(
    "seed",
    [
        seed if seed in QUICK else pytest.param(seed, marks=pytest.mark.slow)
        for seed in range(SEEDS)
    ],
)
def test_loss_and_gradients_are_those_of_one_device(seed: int) -> None:
    case = draw_case(seed)
    params = initial_parameters(case.model, seed)
    result = compare_gradients(on_groups(case, params), on_one_device(case, params))
    assert result.ok, f"{case}: {result}"


def test_drawn_cases_have_all_that_graphs_and_groups_may_have() -> None:
    cases = [draw_case(seed) for seed in range(SEEDS)]
    kinds = {o.kind for case in cases for o in case.model.graph.objectives.values()}
    assert kinds == {"next_token", "classification", "regression", "contrastive"}
    assert {len(case.model.encoders) for case in cases} == {1, 2, 3}
    assert {len({*case.numbers.values()}) for case in cases} == {2, 3}
    assert {is_merged(case.model, name) for case in cases for name in case.model.encoders} == {
        (True, False),
        (False, True),
        (True, True),
    }
    degrees = {degree for case in cases for plan in case.plans.values() for degree in used(plan)}
    assert degrees == {"data", "fsdp", "tensor", "context"}


def is_merged(model: ModelConfig, encoder: str) -> tuple[bool, bool]:
    """Whether outputs of an encoder are merged, and whether objectives read them."""
    return encoder in model.graph.merged, bool(model.graph.heads_of(encoder))


def used(plan: ParallelPlan) -> list[str]:
    return [name for name in ("data", "fsdp", "tensor", "context") if getattr(plan, name) > 1]
