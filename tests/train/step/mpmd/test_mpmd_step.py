"""Modules on devices of their own learn what one device learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import compare_gradients, leaf_errors, relative_error
from mllm_jax.config.load import LambConfig, TrainConfig
from mllm_jax.config.sections import GuardConfig
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.mpmd.build import build_mpmd_step
from mllm_jax.train.step.mpmd.step import MpmdStep
from mllm_jax.train.step.step import Step
from sharding.plan import DeviceNumbers, ParallelPlan, PlanError
from tests.models.test_objectives import (
    IMAGE,
    LINEAR,
    ROWS,
    batches,
    model,
    on_one_device,
    parameters,
)
from tests.train.models import small_model

#: Plans of modules and their devices, out of four.
CASES: dict[str, tuple[dict[str, ParallelPlan], dict[str, DeviceNumbers]]] = {
    "each its own": (
        {
            "decoder": ParallelPlan(data=2),
            "image": ParallelPlan(),
            "vision": ParallelPlan(),
        },
        {"decoder": (0, 1), "image": (2,), "vision": (3,)},
    ),
    "encoders together": (
        {
            "decoder": ParallelPlan(tensor=2),
            "image": ParallelPlan(context=2),
            "vision": ParallelPlan(data=2),
        },
        {"decoder": (0, 1), "image": (3, 2), "vision": (3, 2)},
    ),
    "one beside the decoder": (
        {
            "decoder": ParallelPlan(fsdp=2),
            "image": ParallelPlan(fsdp=2),
            "vision": ParallelPlan(data=2),
        },
        {"decoder": (1, 0), "image": (2, 3), "vision": (1, 0)},
    ),
}
TOWERS = {"decoder": ParallelPlan(), "image": ParallelPlan()}
TRAIN = TrainConfig(steps=4, learning_rate=1e-3, clip_norm=0.05)


TRAINS = {
    "adamw": TRAIN,
    "lamb": TRAIN.model_copy(update={"optimizer": LambConfig(kind="lamb")}),
}


@cache
def built(name: str, optimizer: str) -> MpmdStep:
    return build_mpmd_step(model(), *CASES[name], train=TRAINS[optimizer])


@cache
def towers(objective: str) -> ModelConfig:
    """Texts and images under a contrastive loss, or images that are merged into texts."""
    values = small_model("gpt").model_dump(mode="json")
    edge = {"target": "pairs", "connector": LINEAR}
    pairs = {
        "objectives": {"pairs": {"kind": "contrastive", "dimensions": 6}},
        "edges": [
            {**edge, "source": "decoder", "select": "last"},
            {**edge, "source": "image", "select": "class_token", "norm": True},
        ],
    }
    graph = {"pairs": pairs, "next_token": {}}[objective]
    encoders = {"image": {**IMAGE, "family": "clip"}}
    return ModelConfig.model_validate(values | {"encoders": encoders} | graph)


def placed(step: Step, order: int | None = None) -> Any:
    rows = local_rows(step, ROWS)
    return place_microbatches([select_rows(batch, rows) for batch in batches(order)], step)


@pytest.mark.parametrize(
    "name",
    [
        "each its own",
        pytest.param("encoders together", marks=pytest.mark.slow),
        pytest.param("one beside the decoder", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("order", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_gradients_are_those_of_one_device(name: str, order: int | None) -> None:
    step = built(name, "adamw")
    params = jax.tree.map(
        lambda x, like: jax.device_put(x, like.sharding),
        step.form.to_stored(parameters()),
        step.abstract_state["params"],
    )
    with jax.default_matmul_precision("highest"):
        gradients, loss = step.gradients(params, placed(step, order))
    on_host = step.form.to_canonical(jax.tree.map(np.asarray, gradients))
    got = np.asarray(loss), jax.tree.map(np.asarray, on_host)
    assert compare_gradients(got, on_one_device()).ok


@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("lamb", marks=pytest.mark.slow)])
def test_an_update_is_that_of_one_device(optimizer: str) -> None:
    """One norm of all gradients clips them on all devices."""
    step = built("each its own", optimizer)
    alone = build_step(
        model(),
        dict.fromkeys(step.program.grid.plans, ParallelPlan()),
        train=TRAINS[optimizer],
        devices=jax.devices()[:1],
    )
    key, states, results = jax.random.key(0), [], []
    for each in (step, alone):
        state = each.init(key)
        for _ in range(2):
            state, result = each.update(state, placed(each))
        states.append(jax.tree.map(np.asarray, state))
        results.append(jax.tree.map(np.asarray, result))
    for name in ("loss", "grad_norm", "targets", "learning_rate"):
        assert relative_error(results[0][name], results[1][name]) < 1e-5, name
    moments = [state["optimizer"] for state in states]
    assert str(jax.tree.structure(moments[0])) == str(jax.tree.structure(moments[1]))
    assert trust_ratios(moments[0]) == results[0]["trust_ratios"]
    ratios = [each["trust_ratios"] or {} for each in results]
    assert all(relative_error(ratios[0][n], ratios[1][n]) < 1e-5 for n in ratios[1]), ratios
    if optimizer == "adamw":
        errors = leaf_errors(*(moment[1][0].mu for moment in moments))
        assert max(errors.values()) < 2e-5, errors


@pytest.mark.parametrize(
    ("objective", "frozen", "count"), [("pairs", False, 7), ("next_token", True, 3)]
)
def test_a_step_is_few_programs(objective: str, frozen: bool, count: int) -> None:
    """Of both towers forward, backward and update, of the text the losses; nothing else.

    A frozen encoder has its forward alone, and the decoder one program beside its update.
    """
    own = towers(objective)
    images = tuple(part for part in own.parts if part.startswith("image"))
    parts = FrozenParameters(images if frozen else ())
    devices = {"decoder": (0,), "image": (1,)}
    train = TRAIN.model_copy(update={"guard": GuardConfig(skip=1)})
    step = build_mpmd_step(own, TOWERS, devices, parts, train=train)
    rows = local_rows(step, 2)
    read = synthetic_batch(own, 2, 16, {"image": 16}, seed=0)
    batch = place_microbatches([select_rows(read, rows)], step)
    before = step.init(jax.random.key(0))
    kept = jax.tree.map(np.asarray, before["params"]["image"])
    with compiled_programs() as programs:
        after, _ = jax.block_until_ready(step.update(before, batch))
    assert len(programs) == count
    with compiled_programs() as programs:
        after, _ = jax.block_until_ready(step.update(after, batch))
    assert not programs
    assert int(after["step"]) == 2
    images = jax.tree.map(np.asarray, after["params"]["image"])
    assert (max(leaf_errors(kept, images).values()) == 0) == frozen
    # What one group cannot learn from is left out by all.
    bad = jax.tree.map(lambda x: x * jnp.nan, after["params"]["decoder"])
    skipped, _ = step.update(after | {"params": after["params"] | {"decoder": bad}}, batch)
    assert int(skipped["step"]) == 2
    left = jax.tree.map(np.asarray, skipped["params"]["image"])
    assert max(leaf_errors(images, left).values()) == 0


@contextmanager
def compiled_programs() -> Iterator[list[str]]:
    """The programs that are compiled meanwhile."""
    programs = list[str]()

    def note(event: str, duration_secs: float, **kwargs: str | int) -> None:
        del duration_secs, kwargs
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_groups_with_a_device_in_common_are_refused() -> None:
    plans = dict.fromkeys(("decoder", "image", "vision"), ParallelPlan(data=2))
    numbers = {"decoder": (0, 1), "image": (1, 2), "vision": (2, 3)}
    with pytest.raises(PlanError, match="image and decoder have device 1 in common"):
        build_mpmd_step(model(), plans, numbers)


def test_plans_cover_the_devices_of_their_group() -> None:
    plans = dict.fromkeys(("decoder", "image", "vision"), ParallelPlan())
    numbers = {"decoder": (0, 1), "image": (2,), "vision": (3,)}
    with pytest.raises(PlanError, match="decoder: one device covers 1 devices but decoder has 2"):
        build_mpmd_step(model(), plans, numbers)
