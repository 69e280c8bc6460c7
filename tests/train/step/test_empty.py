"""Encoders compute nothing of microbatches without media: not-a-number in those reaches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.pipeline import PipelineProgram
from scheduling.lowering import fused_kinds
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.tasks import ModuleStages
from sharding.plan import ParallelPlan
from tests.train.models import small_model, without_media
from tests.train.step.gradients import CompiledOnce

ROWS, TOKENS, MICROBATCHES = 2, 24, 4
MEDIA = {"vision": 16, "audio": 32}
#: Microbatches of each step in which an encoder has media.
HELD = {"none": {}, "some": {"vision": [1], "audio": [1, 2]}}
WHOLE = {
    "decoder": ParallelPlan(data=2),
    "vision": ParallelPlan(fsdp=2),
    "audio": ParallelPlan(data=2),
}
STAGED = {
    "decoder": ParallelPlan(stage=2, data=2),
    "vision": ParallelPlan(data=2, fsdp=2),
    "audio": ParallelPlan(stage=2, data=2),
}
CUTS = ModuleStages("vision", chunks=2), ModuleStages("audio", 2, 2)


#: Names of a model's encoders.
Names = tuple[str, ...]
ALL: Names = tuple(MEDIA)


@cache
def model(names: Names) -> ModelConfig:
    values = small_model(remat="layer").model_dump(mode="json")
    encoders = {name: values["encoders"][name] for name in names}
    return ModelConfig.model_validate(values | {"encoders": encoders})


def microbatches(names: Names, held: dict[str, list[int]], filler: float) -> list[PackedBatch]:
    """Microbatches of which some hold media; the inputs of all others are `filler`."""
    return [microbatch(names, m, held, filler) for m in range(MICROBATCHES)]


def microbatch(names: Names, m: int, held: dict[str, list[int]], filler: float) -> PackedBatch:
    empty = [name for name in names if m not in held.get(name, [])]
    budgets = {name: MEDIA[name] for name in names}
    batch = without_media(synthetic_batch(model(names), ROWS, TOKENS, budgets, m), empty)
    for name in empty:
        batch.rows[name].inputs[:] = filler
    return batch


@cache
def parameters(names: Names) -> Any:
    return initial_parameters(model(names), seed=0)


def under(names: Names, plans: Mapping[str, ParallelPlan]) -> CompiledOnce:
    """Gradients of the model under plans without stages."""
    own = {name: plans[name] for name in ("decoder", *names)}
    compiled: CompiledOnce = CompiledOnce.under(model(names), own, parameters(names))
    return compiled


@cache
def on_one_device(names: Names) -> CompiledOnce:
    return under(names, dict.fromkeys(WHOLE, ParallelPlan()))


Case = tuple[Names, CompiledOnce]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("whole", ALL), id="whole", marks=pytest.mark.slow),
        pytest.param(("staged", ALL), id="staged", marks=pytest.mark.slow),
        pytest.param(("staged", ALL[:1]), id="staged, one encoder"),
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    """Encoders of a model, and its gradients."""
    kind, names = request.param
    if kind == "whole":
        return names, under(names, WHOLE)
    cuts = [cut for cut in CUTS if cut.name in names]
    encoders = {cut.name: ChunkCosts((1.0,) * cut.chunks, (2.0,) * cut.chunks) for cut in cuts}
    costs = TaskCosts(4.0, 8.0, 1.0, encoders)
    schedule = place_modules(
        interleaved_schedule(2, 1, MICROBATCHES), cuts, costs, max_waiting=MICROBATCHES
    )
    plans = {name: STAGED[name] for name in ("decoder", *names)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fused_kinds, "RARE_SHARE", 0.0)
        step = build_step(model(names), plans, PipelinePlan(schedule))
    assert isinstance(step.program, PipelineProgram)
    kinds = set(map(str, step.program.bounds.without_sources))
    assert {"vision_F", "decoder_F+vision_F", "decoder_B+vision_B"} <= kinds
    return names, CompiledOnce(parameters(names), step)


@pytest.mark.parametrize("held", HELD)
def test_microbatches_without_media_are_not_computed(case: Case, held: str) -> None:
    names, gradients = case
    expected = on_one_device(names)(microbatches(names, HELD[held], 0.0))
    poisoned = enumerate(microbatches(names, HELD[held], np.nan))
    batches = [scatter_rows(batch, model(names), seed) for seed, batch in poisoned]
    result = compare_gradients(gradients(batches), expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
