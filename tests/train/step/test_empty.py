"""Encoders compute nothing of microbatches without media: not-a-number in those reaches nothing."""

from __future__ import annotations

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


def model() -> ModelConfig:
    return small_model(remat="layer")


def microbatches(held: dict[str, list[int]], filler: float) -> list[PackedBatch]:
    """Microbatches of which some hold media; the inputs of all others are `filler`."""
    return [microbatch(m, held, filler) for m in range(MICROBATCHES)]


def microbatch(m: int, held: dict[str, list[int]], filler: float) -> PackedBatch:
    empty = [name for name in MEDIA if m not in held.get(name, [])]
    batch = without_media(synthetic_batch(model(), ROWS, TOKENS, MEDIA, m), empty)
    for name in empty:
        batch.rows[name].inputs[:] = filler
    return batch


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


@cache
def on_one_device() -> CompiledOnce:
    return CompiledOnce.under(model(), dict.fromkeys(WHOLE, ParallelPlan()), parameters())


@pytest.fixture(scope="module", params=[pytest.param("whole", marks=pytest.mark.slow), "staged"])
def gradients(request: pytest.FixtureRequest) -> CompiledOnce:
    if request.param == "whole":
        return CompiledOnce.under(model(), WHOLE, parameters())
    encoders = {cut.name: ChunkCosts((1.0,) * cut.chunks, (2.0,) * cut.chunks) for cut in CUTS}
    costs = TaskCosts(4.0, 8.0, 1.0, encoders)
    schedule = place_modules(
        interleaved_schedule(2, 1, MICROBATCHES), CUTS, costs, max_waiting=MICROBATCHES
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fused_kinds, "RARE_SHARE", 0.0)
        step = build_step(model(), STAGED, PipelinePlan(schedule))
    assert isinstance(step.program, PipelineProgram)
    kinds = set(map(str, step.program.bounds.without_sources))
    assert {"vision_F", "decoder_F+vision_F", "decoder_B+vision_B"} <= kinds
    return CompiledOnce(parameters(), step)


@pytest.mark.parametrize("held", HELD)
def test_microbatches_without_media_are_not_computed(gradients: CompiledOnce, held: str) -> None:
    expected = on_one_device()(microbatches(HELD[held], 0.0))
    poisoned = enumerate(microbatches(HELD[held], np.nan))
    batches = [scatter_rows(batch, model(), seed) for seed, batch in poisoned]
    result = compare_gradients(gradients(batches), expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
