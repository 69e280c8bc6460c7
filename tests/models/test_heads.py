"""A backbone of several outputs under stages: every schedule computes what one device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.graph import ModelConfig
from mllm_jax.train.step.build import build_step
from scheduling.schedules.schedule import (
    Schedule,
    gpipe_schedule,
    interleaved_schedule,
    one_forward_one_backward,
    zero_bubble_schedule,
)
from sharding.plan import ParallelPlan
from tests.train.models import small_model
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
