"""Tiled images and tokens after the vocabulary: any plan computes what one device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check import verify
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN
from mllm_jax.models.work.profile import module_profiles
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.schedule import Schedule
from sharding.plan import ParallelPlan
from tests.train.models import small_model
from tests.train.step.gradients import CompiledOnce
from tests.train.step.test_pipeline import AUDIO, VISION, all_before, placed

ROWS, TOKENS, BUDGETS = 8, 32, {"vision": 32, "audio": 64}
#: Microbatches of the steps with most of them.
MOST = 3
TILES = {"pixels": [4, 4], "pinpoints": [[4, 4], [4, 8], [8, 4]], "most": 1}


@cache
def model() -> ModelConfig:
    values = small_model().model_dump(mode="json")
    values["decoder"] |= {"extra_tokens": 2, "layers": 4, "vocab": 47}
    values["encoders"]["vision"] |= {"tiles": TILES}
    return ModelConfig.model_validate(values)


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


def batches(count: int, order: int | None = None) -> list[PackedBatch]:
    found = [synthetic_batch(model(), ROWS, TOKENS, BUDGETS, seed=i) for i in range(count)]
    return found if order is None else [scatter_rows(batch, model(), order) for batch in found]


@cache
def reference(count: int) -> tuple[np.ndarray, Any]:
    """One device's loss and gradients of `count` microbatches.

    The others are there without targets, so that one program serves all counts.
    """
    found = batches(MOST)
    for batch in found[count:]:
        batch.text_rows.targets[NEXT_TOKEN].weights[:] = 0
    result: tuple[np.ndarray, Any] = single()(found)
    return result


@cache
def single() -> CompiledOnce:
    plans = {name: ParallelPlan() for name in ("decoder", "vision", "audio")}
    return CompiledOnce.under(model(), plans, parameters())


def check(got: tuple[np.ndarray, Any], count: int) -> None:
    result = compare_gradients(got, reference(count))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_synthetic_batches_have_all_that_is_new() -> None:
    batch = batches(1)[0]
    assert (batch.text_rows.inputs >= 47).any()
    vision = batch.rows["vision"]
    assert (
        vision.array("resize_indices").shape
        == vision.array("resize_weights").shape
        == (ROWS, 16, 4)
    )
    gradients = reference(1)[1]["decoder"]["extra_embedding"]["embedding"]
    assert (np.abs(gradients).max(axis=1) > 1e-4).all()


@pytest.mark.parametrize(
    ("decoder", "vision", "audio", "order"),
    [
        pytest.param(
            *({"fsdp": 2, "tensor": 2}, {"tensor": 4}, {"data": 2, "fsdp": 2}, 1),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *({"data": 2, "context": 2}, {"data": 2, "context": 2}, {"data": 4}, None),
            marks=pytest.mark.slow,
        ),
        (
            {"data": 2, "context": 2, "tensor": 2},
            {"data": 2, "context": 2, "tensor": 2},
            {"fsdp": 8},
            3,
        ),
    ],
    ids=("tensor", "context", "both"),
)
def test_loss_and_gradients_equal_one_device(
    decoder: dict[str, int], vision: dict[str, int], audio: dict[str, int], order: int | None
) -> None:
    plans = {"decoder": decoder, "vision": vision, "audio": audio}
    own = {name: ParallelPlan(**degrees) for name, degrees in plans.items()}
    check(loss_and_gradients(model(), own, parameters(), batches(1, order)), 1)


PIPELINE = interleaved_schedule(2, 1, MOST)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "vision", "order"),
    [
        (all_before(placed(PIPELINE, (AUDIO, VISION), "bubbles")), {"data": 2, "tensor": 2}, 1),
        (placed(PIPELINE, (AUDIO, VISION), "random"), {"data": 4}, None),
    ],
    ids=("bubbles", "random"),
)
def test_pipelines_equal_one_device(
    schedule: Schedule, vision: dict[str, int], order: int | None
) -> None:
    plans = {
        "decoder": ParallelPlan(stage=2, tensor=2),
        "vision": ParallelPlan(**vision),
        "audio": ParallelPlan(stage=2, tensor=2),
    }
    pipeline = PipelinePlan(schedule)
    check(loss_and_gradients(model(), plans, parameters(), batches(MOST, order), pipeline), MOST)


@pytest.mark.slow
def test_verify_shrinks_tiles(small_config: Any) -> None:
    values = small_config().model_dump(mode="json")
    values["model"]["decoder"]["extra_tokens"] = 1
    values["model"]["encoders"]["vision"]["tiles"] = {"pixels": [16, 16], "pinpoints": [[16, 32]]}
    config = type(small_config()).model_validate(values)
    result = verify.verify_plans(config)
    assert result.ok, result


def test_the_state_holds_what_is_predicted() -> None:
    found = sum(leaf.size for leaf in jax.tree.leaves(parameters()["decoder"]))
    profile = module_profiles(model())["decoder"]
    layers = sum(profile.layer_parameters.values()) * profile.layers
    assert layers + sum(profile.rest_parameters.values()) == found
