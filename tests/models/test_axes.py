"""A decoder with positions on three axes and spans: packed as alone, and in a pipeline."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.inputs import token_spec
from mllm_jax.config.pipeline_plan import PipelinePlan, check_layers
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.tasks import ModuleStages
from sharding.plan import ParallelPlan
from tests.models.layer_kinds import SAMPLES, WindowedConfig, three_axes
from tests.scheduling.placing import naive
from tests.train.models import small_model
from tests.train.step.gradients import CompiledOnce

TOKENS, MICROBATCHES = 24, 2


@cache
def model() -> ModelConfig:
    return three_axes()


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


@cache
def on_one_device() -> CompiledOnce:
    found: CompiledOnce = CompiledOnce.under(model(), {"decoder": ParallelPlan()}, parameters())
    return found


def batch(places: list[tuple[int, int]]) -> PackedBatch:
    """The samples, each at a row and a place in it."""
    spec, rng = token_spec(model()), np.random.default_rng(0)
    rows = spec.empty_rows((2, TOKENS), [])
    learnt = rows.next_token
    for segment, ((row, start), (length, spans)) in enumerate(zip(places, SAMPLES, strict=True), 1):
        here = row, slice(start, start + length)
        spec.write(rows, row, start, segment, length, spans)
        for array in (rows.inputs, learnt.labels):
            array[here] = rng.integers(0, 32, length)
        learnt.weights[here] = 1
    return PackedBatch({BACKBONE: rows})


def test_packed_equals_alone() -> None:
    packed, alone = (
        on_one_device()([batch(own)] * 2) for own in ([(0, 0), (0, 13)], [(0, 3), (1, 9)])
    )
    result = compare_gradients(packed, alone)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_what_masks_and_rotations_read_decides_the_loss() -> None:
    """Else the comparisons above would compare models without them."""
    whole = batch([(0, 0), (0, 13)])
    rows = whole.text_rows
    assert rows.index is not None
    loss, _ = on_one_device()([whole] * 2)
    for changed in (
        replace(rows, positions=rows.positions[..., ::-1]),
        replace(rows, index=np.minimum(rows.index, 5)),
        replace(rows, arrays={"span_ids": np.zeros_like(rows.index)}),
    ):
        other, _ = on_one_device()([replace(whole, rows={BACKBONE: changed})] * 2)
        assert abs(float(other) - float(loss)) > 1e-5


@pytest.mark.slow
def test_a_pipeline_with_context_ranks_is_one_device() -> None:
    batches = [synthetic_batch(model(), 2, TOKENS, {}, seed) for seed in range(MICROBATCHES)]
    assert all(own.text_rows.array("span_ids").any() for own in batches)
    plan = {"decoder": ParallelPlan(stage=2, context=2)}
    pipeline = PipelinePlan(interleaved_schedule(2, 1, MICROBATCHES))
    found = loss_and_gradients(model(), plan, parameters(), batches, pipeline)
    result = compare_gradients(found, on_one_device()(batches))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


@cache
def with_windows() -> ModelConfig:
    """A small model whose encoder of images has four layers, of two kinds in turn."""
    plain = small_model().model_dump(mode="json")
    connector = {"connector", "deepstack"}
    encoder = {k: v for k, v in plain["encoders"]["vision"].items() if k not in connector}
    vision = WindowedConfig.model_validate(encoder | {"layers": 4})
    model = ModelConfig.model_validate(
        plain | {"encoders": {"vision": plain["encoders"]["vision"]}}
    )
    return model.model_copy(update={"encoders": {"vision": vision}})


def media_batch(seed: int) -> PackedBatch:
    """Random rows, whose media have windows of four positions."""
    made = synthetic_batch(with_windows(), 2, TOKENS, {"vision": 16}, seed)
    rows = made.rows["vision"]
    place = np.arange(16)
    starts = np.pad(rows.segment_ids[:, 1:] != rows.segment_ids[:, :-1], ((0, 0), (1, 0)))
    index = place - np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    windows = np.where(rows.segment_ids > 0, 1 + place - index % 4, 0).astype(np.int32)
    rows = replace(rows, arrays={**rows.arrays, "window_ids": windows})
    return replace(made, rows={**made.rows, "vision": rows})


def test_chunks_of_an_encoder_of_two_kinds_of_layers_are_one_device() -> None:
    model, batches = with_windows(), [media_batch(seed) for seed in range(MICROBATCHES)]
    params = initial_parameters(model, seed=0)
    alone = dict.fromkeys(("decoder", "vision"), ParallelPlan())
    expected = loss_and_gradients(model, alone, params, batches)
    cuts = (ModuleStages("vision", chunks=2),)
    pipeline = PipelinePlan(naive(interleaved_schedule(2, 1, MICROBATCHES), cuts))
    plans = {
        "decoder": ParallelPlan(stage=2, context=2),
        "vision": ParallelPlan(data=2, context=2),
    }
    result = compare_gradients(
        loss_and_gradients(model, plans, params, batches, pipeline), expected
    )
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_chunks_of_an_encoder_are_whole_periods() -> None:
    schedule = naive(interleaved_schedule(2, 1, MICROBATCHES), (ModuleStages("vision", chunks=4),))
    with pytest.raises(ScheduleError, match=r"vision\.layers: 4 cannot be cut into 4 chunks"):
        check_layers(with_windows(), schedule, pad=False)
    with pytest.raises(ValueError, match="layers 3 are not a multiple of the 2 layers of a period"):
        WindowedConfig.model_validate(
            with_windows().encoders["vision"].model_dump() | {"layers": 3}
        )
