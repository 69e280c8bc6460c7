"""A backbone with stages on devices of their own learns what one device learns."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import (
    compare_gradients,
    initial_parameters,
    leaf_errors,
    loss_and_gradients,
    relative_error,
)
from mllm_jax.config.load import LambConfig, TrainConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.mpmd.build import build_mpmd_step
from mllm_jax.train.step.step import Step
from sharding.plan import DeviceNumbers, ParallelPlan, PlanError
from tests.train.models import small_model

ROWS, TOKENS, MICROBATCHES = 4, 32, 3
TRAIN = TrainConfig(steps=4, learning_rate=1e-3, clip_norm=0.05)
TRAINS = {
    "adamw": TRAIN,
    "lamb": TRAIN.model_copy(update={"optimizer": LambConfig(kind="lamb")}),
}


@cache
def model(family: str, encoders: bool = True) -> ModelConfig:
    """A decoder of four layers, with an encoder of images or none."""
    values = small_model(family).model_dump(mode="json")
    values["decoder"]["layers"] = 4
    kept = {"vision": values["encoders"]["vision"]} if encoders else {}
    return ModelConfig.model_validate(values | {"encoders": kept})


#: Plans of modules and their devices, out of four; of a decoder of this family.
CASES: dict[str, tuple[str, dict[str, ParallelPlan], dict[str, DeviceNumbers]]] = {
    "two stages": (
        "llama",
        {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan()},
        {"decoder": (0, 1), "vision": (2,)},
    ),
    "stages of replicas": (
        "llama",
        {"decoder": ParallelPlan(data=2, stage=2), "vision": ParallelPlan(data=2)},
        {"decoder": (0, 1, 2, 3), "vision": (5, 4)},
    ),
    "stages of shards": (
        "gpt",
        {"decoder": ParallelPlan(fsdp=2, stage=2), "vision": ParallelPlan(tensor=2)},
        {"decoder": (0, 1, 2, 3), "vision": (5, 4)},
    ),
    "stages of tensor ranks": (
        "llama",
        {"decoder": ParallelPlan(stage=2, tensor=2), "vision": ParallelPlan(context=2)},
        {"decoder": (0, 1, 2, 3), "vision": (5, 4)},
    ),
    "stages of positions": (
        "llama",
        {"decoder": ParallelPlan(stage=2, context=2), "vision": ParallelPlan(data=2)},
        {"decoder": (0, 1, 2, 3), "vision": (5, 4)},
    ),
    "text alone on four": ("gpt", {"decoder": ParallelPlan(stage=4)}, {"decoder": (3, 1, 0, 2)}),
}


def batches(config: ModelConfig) -> list[PackedBatch]:
    budgets = dict.fromkeys(config.encoders, TOKENS)
    return [synthetic_batch(config, ROWS, TOKENS, budgets, seed) for seed in range(MICROBATCHES)]


def placed(step: Step, config: ModelConfig) -> Any:
    rows = local_rows(step, ROWS)
    return place_microbatches([select_rows(batch, rows) for batch in batches(config)], step)


@pytest.mark.parametrize(
    "name",
    [
        name if name == "two stages" else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
    ],
)
def test_gradients_are_those_of_one_device(name: str) -> None:
    family, plans, numbers = CASES[name]
    config = model(family, "vision" in plans)
    step = build_mpmd_step(config, plans, numbers)
    params = initial_parameters(config, seed=0)
    placed_params = jax.tree.map(
        lambda x, like: jax.device_put(x, like.sharding),
        step.form.to_stored(params),
        step.abstract_state["params"],
    )
    with jax.default_matmul_precision("highest"):
        gradients, loss = step.gradients(placed_params, placed(step, config))
    on_host = step.form.to_canonical(jax.tree.map(np.asarray, gradients))
    got = np.asarray(loss), jax.tree.map(np.asarray, on_host)
    alone = dict.fromkeys(plans, ParallelPlan())
    expected = loss_and_gradients(config, alone, params, batches(config))
    assert compare_gradients(got, expected).ok


@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("lamb", marks=pytest.mark.slow)])
def test_an_update_is_that_of_one_device(optimizer: str) -> None:
    """The state is on the devices of all stages; one norm of all gradients clips them."""
    family, plans, numbers = CASES["two stages"]
    config, train = model(family), TRAINS[optimizer]
    step = build_mpmd_step(config, plans, numbers, train=train)
    alone = build_step(
        config, dict.fromkeys(plans, ParallelPlan()), train=train, devices=jax.devices()[:1]
    )
    key, results = jax.random.key(0), []
    states = list[Any]()
    for each in (step, alone):
        state = each.init(key)
        for _ in range(2):
            state, result = each.update(state, placed(each, config))
        states.append(jax.tree.map(np.asarray, state))
        results.append(jax.tree.map(np.asarray, result))
    for name in ("loss", "grad_norm", "targets", "learning_rate"):
        assert relative_error(results[0][name], results[1][name]) < 1e-5, name
    ratios = [each["trust_ratios"] or {} for each in results]
    assert all(relative_error(ratios[0][n], ratios[1][n]) < 1e-5 for n in ratios[1]), ratios
    assert trust_ratios(states[0]["optimizer"]) == results[0]["trust_ratios"]
    if optimizer == "adamw":  # parameters whose gradients are rounding move by their signs
        moments = [state["optimizer"][1][0].mu for state in states]
        errors = leaf_errors(step.form.to_canonical(moments[0]), moments[1])
        assert max(errors.values()) < 2e-5, errors


def test_stages_are_columns_in_the_order_of_1f1b() -> None:
    """Stage s of S has at most S - s microbatches in flight, an encoder one more than the first."""
    _, plans, numbers = CASES["two stages"]
    schedule = build_mpmd_step(model("llama"), plans, numbers).program.make_schedule(4)
    assert str(schedule) == (
        "tick      0  1  2     3     4  5     6  7     8  9\n"
        "decoder.0 .  F0 F1    B0    F2 B1    F3 B2    B3 .\n"
        "decoder.1 .  .  F0+B0 F1+B1 .  F2+B2 .  F3+B3 .  .\n"
        "vision    F0 F1 F2    .     B0 F3    B1 .     B2 B3"
    )
    assert schedule.in_flight == (2, 1, 3)


REFUSED: dict[str, tuple[dict[str, ParallelPlan], dict[str, DeviceNumbers], str]] = {
    "layers": (
        {"decoder": ParallelPlan(stage=3), "vision": ParallelPlan()},
        {"decoder": (0, 1, 2), "vision": (3,)},
        "cannot divide 4 layers in runs of 1 evenly; choose fsdp 3",
    ),
    "a module beside": (
        {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)},
        {"decoder": (0, 1), "vision": (0, 1)},
        "have no place for vision beside them; choose fsdp 2",
    ),
    "stages of an encoder": (
        {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(stage=2)},
        {"decoder": (0, 1), "vision": (2, 3)},
        "vision: stage 2 is refused, as in groups decoder alone has stages; choose fsdp 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_stages_are_refused_by_name(name: str) -> None:
    plans, numbers, reason = REFUSED[name]
    with pytest.raises(PlanError, match=reason):
        build_mpmd_step(model("llama"), plans, numbers)
