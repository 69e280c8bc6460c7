"""A backbone of several outputs under stages: every schedule computes what one device computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import work_parts
from mllm_jax.models.work.profile import module_parameters
from mllm_jax.train.step.build import build_step
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
    zero_bubble_schedule,
)
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import ModuleStages
from sharding.plan import ParallelPlan
from tests.scheduling.placing import naive
from tests.train.models import VISION, small_model
from tests.train.step.gradients import CompiledOnce

ROWS, TOKENS, MICROBATCHES = 2, 24, 3
#: Heads of the last token and of the mean, beside that of the vocabulary.
OBJECTIVES = {
    "next_token": {"kind": "next_token"},
    "scene": {"kind": "classification", "classes": 3, "weight": 0.5},
    "place": {"kind": "regression", "values": 2},
}
EDGES = [
    {"source": "decoder", "target": "scene", "select": "last", "norm": True},
    {"source": "decoder", "target": "place", "select": "mean", "connector": {"hidden": 5}},
]


@cache
def model(with_text: bool = True) -> ModelConfig:
    values = small_model().model_dump(mode="json")
    values["decoder"] |= {"layers": 4, "kv_heads": 1}
    objectives = {n: own for n, own in OBJECTIVES.items() if with_text or n != "next_token"}
    return ModelConfig.model_validate(
        values | {"encoders": {}, "objectives": objectives, "edges": EDGES}
    )


@cache
def parameters(with_text: bool) -> Any:
    return initial_parameters(model(with_text), seed=0)


def microbatches(with_text: bool) -> list[Any]:
    return [
        synthetic_batch(model(with_text), ROWS, TOKENS, {}, seed) for seed in range(MICROBATCHES)
    ]


@cache
def on_one_device(with_text: bool) -> tuple[np.ndarray, Any]:
    plans = {"decoder": ParallelPlan()}
    single = CompiledOnce.under(model(with_text), plans, parameters(with_text))
    found: tuple[np.ndarray, Any] = single(microbatches(with_text))
    return found


def test_a_model_that_does_not_write_has_no_head_of_the_vocabulary() -> None:
    """All else begins as beside one, and costs are counted without it."""
    usual, without = (parameters(with_text)["decoder"] for with_text in (True, False))
    assert usual.keys() - without.keys() == {"lm_head"}
    same = {name: usual[name] for name in without}
    jax.tree.map(np.testing.assert_array_equal, same, without)
    config, sizes = model(with_text=False), [leaf.size for leaf in jax.tree.leaves(without)]
    assert module_parameters(config) == {"decoder": sum(sizes)}
    assert work_parts(config, "decoder").end.linear == 0
    assert not any(layer.head for layer in config.linear_layers)


@pytest.mark.parametrize(
    ("schedule", "plan", "with_text"),
    [
        (interleaved_schedule(2, 2, MICROBATCHES), {"fsdp": 2, "tensor": 2}, True),
        (zero_bubble_schedule(2, 1, MICROBATCHES), {"context": 2}, False),
        pytest.param(
            one_forward_one_backward(2, MICROBATCHES), {"data": 2}, True, marks=pytest.mark.slow
        ),
        pytest.param(
            zero_bubble_schedule(2, 2, MICROBATCHES), {"tensor": 2}, True, marks=pytest.mark.slow
        ),
        pytest.param(gpipe_schedule(4, 1, MICROBATCHES), {"fsdp": 2}, True, marks=pytest.mark.slow),
    ],
    ids=("interleaved", "zero_bubble", "1f1b", "zero_bubble_interleaved", "gpipe"),
)
def test_heads_beside_stages_equal_one_device(
    schedule: Schedule, plan: dict[str, int], with_text: bool
) -> None:
    plans = {"decoder": ParallelPlan(stage=schedule.stages, **plan)}
    step = build_step(model(with_text), plans, PipelinePlan(schedule))
    pipeline = CompiledOnce(parameters(with_text), step)
    result = compare_gradients(pipeline(microbatches(with_text)), on_one_device(with_text))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


IMAGE = {**VISION, "grid": [2, 4], "heads": 8, "head_dim": 4, "family": "clip"}
#: An encoder whose outputs are merged and feed an objective, and one that feeds objectives alone.
FED = {
    "shape": {"kind": "classification", "classes": 2},
    "size": {"kind": "regression", "values": 2},
    "colour": {"kind": "regression", "values": 3, "weight": 2.0},
}
FEEDS = [
    {"source": "image", "target": "shape", "select": "class_token", "norm": True},
    {"source": "image", "target": "size", "select": "mean", "connector": {"hidden": 5}},
    {"source": "vision", "target": "decoder"},
    {"source": "vision", "target": "colour", "select": "mean"},
]
BUDGETS = {"image": 32, "vision": 32}


@cache
def model_of_encoders() -> ModelConfig:
    values = small_model("gpt").model_dump(mode="json")
    values["decoder"] |= {"layers": 4}
    encoders = {
        "image": IMAGE | {"class_token": "kept"},
        "vision": values["encoders"]["vision"],
    }
    graph = {"encoders": encoders, "objectives": OBJECTIVES | FED, "edges": EDGES + FEEDS}
    return ModelConfig.model_validate(values | graph)


def batches_of_encoders(order: int | None = None) -> list[PackedBatch]:
    model = model_of_encoders()
    found = [synthetic_batch(model, 4, TOKENS, BUDGETS, seed) for seed in range(MICROBATCHES)]
    return found if order is None else [scatter_rows(batch, model, order) for batch in found]


@cache
def parameters_of_encoders() -> Any:
    return initial_parameters(model_of_encoders(), seed=0)


@cache
def encoders_on_one_device() -> tuple[np.ndarray, Any]:
    plans = dict.fromkeys(("decoder", *BUDGETS), ParallelPlan())
    single = CompiledOnce.under(model_of_encoders(), plans, parameters_of_encoders())
    found: tuple[np.ndarray, Any] = single(batches_of_encoders())
    return found


def in_bubbles(backbone: Schedule, sources: Sequence[ModuleStages]) -> Schedule:
    chunks = {n: ChunkCosts((1.0,) * 2, (2.0,) * 2) for n in BUDGETS}
    return place_modules(backbone, sources, TaskCosts(4.0, 8.0, 1.0, chunks, more={"weights": 4.0}))


#: Before and after the backbone, where few kinds of tasks are compiled; and in its bubbles.
BEFORE = naive(interleaved_schedule(2, 1, MICROBATCHES), [ModuleStages(name) for name in BUDGETS])
FROZEN = [
    ModuleStages("image", 1, 2, first_backward=2),
    ModuleStages("vision", 2, 2, first_backward=1),
]
BUBBLES = in_bubbles(zero_bubble_schedule(2, 2, MICROBATCHES), FROZEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "plans", "frozen"),
    [
        (
            BEFORE,
            {"decoder": {"tensor": 2}, "image": {"data": 4}, "vision": {"data": 2, "tensor": 2}},
            (),
        ),
        (
            BUBBLES,
            {"decoder": {"fsdp": 2}, "image": {"fsdp": 4}, "vision": {"fsdp": 2, "stage": 2}},
            ("image", "vision"),
        ),
    ],
    ids=("before", "bubbles"),
)
def test_encoders_feed_objectives_beside_stages(
    schedule: Schedule, plans: dict[str, dict[str, int]], frozen: tuple[str, ...]
) -> None:
    """Their outputs are merged where a microbatch enters, and learnt where it leaves."""
    decoder = ParallelPlan(stage=2, **plans["decoder"])
    every = {"decoder": decoder} | {n: ParallelPlan(**plans[n]) for n in BUDGETS}
    still = FrozenParameters.from_config(frozen)
    step = build_step(model_of_encoders(), every, PipelinePlan(schedule), still)
    pipeline = CompiledOnce(parameters_of_encoders(), step)
    loss, gradients = encoders_on_one_device()
    expected = loss, still.partition(gradients)[0]
    result = compare_gradients(pipeline(batches_of_encoders(order=1)), expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
