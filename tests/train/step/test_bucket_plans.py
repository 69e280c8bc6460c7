"""An encoder with two buckets of different plans computes what it does with one, on one device."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.step.build import build_step
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import ModuleStages
from sharding.plan import ParallelPlan, PlanError
from tests.train.models import small_model
from tests.train.step.gradients import CompiledOnce

ROWS, TOKENS, MICROBATCHES = 4, 24, 3
#: Positions of a row of each bucket, and of the encoder without buckets.
BUDGETS = {"short": 8, "long": 16}
WHOLE = {"vision": sum(BUDGETS.values())}
SHORT, LONG = ParallelPlan(data=4), ParallelPlan(data=2, context=2)
APART = {"decoder": ParallelPlan(data=4), "short": SHORT, "long": LONG}
STAGED = {"decoder": ParallelPlan(data=2, stage=2), "short": SHORT, "long": LONG}


@cache
def model(buckets: bool) -> ModelConfig:
    values = small_model().model_dump(mode="json")
    vision = values["encoders"]["vision"] | {"layers": 4}
    vision["buckets"] = {"short": 8, "long": None} if buckets else {}
    return ModelConfig.model_validate(values | {"encoders": {"vision": vision}})


@cache
def parameters() -> Any:
    return initial_parameters(model(buckets=False), seed=0)


@cache
def microbatches() -> list[PackedBatch]:
    budgets = BUDGETS
    return [synthetic_batch(model(buckets=True), ROWS, TOKENS, budgets, i) for i in range(3)]


def merged(batch: PackedBatch) -> PackedBatch:
    """The batch of an encoder without buckets: rows of the one after those of the other."""
    short, long = (batch.rows[name] for name in ("short", "long"))
    after = replace(long, segment_ids=np.where(long.segment_ids, long.segment_ids + 99, 0))
    rows = jax.tree.map(lambda *own: np.concatenate(own, 1), short, after)
    reduction = model(buckets=False).reduction("vision")
    outputs = {name: budget // reduction for name, budget in BUDGETS.items()}
    places = {name: np.divmod(batch.text_rows.merges[name], n) for name, n in outputs.items()}
    starts = {"short": 0, "long": outputs["short"]}
    media = np.full(batch.text_rows.inputs.shape, -1, np.int32)
    for name, (row, offset) in places.items():
        merged = row * sum(outputs.values()) + starts[name] + offset
        media = np.where(batch.text_rows.merges[name] >= 0, merged, media).astype(np.int32)
    return PackedBatch(
        {BACKBONE: replace(batch.text_rows, merges={"vision": media}), "vision": rows}
    )


@cache
def reference() -> tuple[np.ndarray, Any]:
    """The result on one device, with the encoder without buckets."""
    return on_one_device(microbatches())


def on_one_device(batches: list[PackedBatch]) -> tuple[np.ndarray, Any]:
    return single()([merged(batch) for batch in batches])


@cache
def single() -> CompiledOnce:
    plans = {name: ParallelPlan() for name in ("decoder", "vision")}
    return CompiledOnce.under(model(buckets=False), plans, parameters())


@cache
def apart() -> CompiledOnce:
    return CompiledOnce.under(model(buckets=True), APART, parameters())


def emptied(batch: PackedBatch, bucket: str, rows: list[int], blank: float = 0.0) -> PackedBatch:
    """The batch without the media in some rows of a bucket, whose inputs are `blank`."""
    own, merged = jax.tree.map(np.copy, batch.rows[bucket]), batch.text_rows.merges[bucket]
    own.segment_ids[rows], own.inputs[rows] = 0, blank
    outputs = BUDGETS[bucket] // model(buckets=True).reduction(bucket)
    gone = np.isin(merged // outputs, rows) & (merged >= 0)
    merges = {**batch.text_rows.merges, bucket: np.where(gone, -1, merged).astype(np.int32)}
    decoder = replace(batch.text_rows, merges=merges)
    return replace(batch, rows={**batch.rows, BACKBONE: decoder, bucket: own})


def schedule(frozen: bool = False) -> Schedule:
    """A schedule with both buckets in the bubbles of two stages; the short one has more pieces."""
    cuts = tuple(
        ModuleStages(name, chunks=pieces, first_backward=pieces - 1 if frozen else 0)
        for name, pieces in (("short", 4), ("long", 2))
    )
    costs = {
        cut.name: ChunkCosts(
            (1.0,) * cut.chunks,
            tuple(2.0 * (chunk >= cut.first_backward) for chunk in range(cut.chunks)),
        )
        for cut in cuts
    }
    return place_modules(
        interleaved_schedule(2, 1, MICROBATCHES), cuts, TaskCosts(4.0, 8.0, 1.0, costs), "bubbles"
    )


def check(
    plans: dict[str, ParallelPlan],
    order: int | None = None,
    pipeline: PipelinePlan | None = None,
    frozen: FrozenParameters = NOTHING_FROZEN,
) -> None:
    own, batches = model(buckets=True), microbatches()
    if order is not None:
        batches = [scatter_rows(batch, own, order + i) for i, batch in enumerate(batches)]
    got = loss_and_gradients(own, plans, parameters(), batches, pipeline, frozen)
    loss, expected = reference()
    equal(got, (loss, frozen.partition(expected)[0]))


def equal(got: tuple[np.ndarray, Any], expected: tuple[np.ndarray, Any]) -> None:
    result = compare_gradients(got, expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_both_buckets_have_work() -> None:
    for batch in microbatches():
        for name in BUDGETS:
            assert (batch.text_rows.merges[name] >= 0).any()


def test_without_stages() -> None:
    equal(apart()(microbatches()), reference())


@pytest.mark.slow
def test_without_stages_by_routes() -> None:
    plans = {
        "decoder": ParallelPlan(fsdp=2, context=2, tensor=2),
        "short": ParallelPlan(data=4, tensor=2),
        "long": ParallelPlan(data=2, context=2, tensor=2),
    }
    check(plans, order=5)


def test_rows_without_media_are_not_computed() -> None:
    """What is not a number in them would be in the gradients, whose factors are zeros."""
    empty = [("long", [0, 1, 2, 3]), ("long", [1, 2]), ("short", [0, 3])]
    batches = [emptied(b, *what) for b, what in zip(microbatches(), empty, strict=True)]
    blank = [emptied(b, *what, np.nan) for b, what in zip(microbatches(), empty, strict=True)]
    equal(apart()(blank), on_one_device(batches))


@pytest.mark.parametrize(
    ("order", "still"),
    [
        pytest.param(None, (), id="in rows"),
        pytest.param(3, ("vision",), id="frozen, by routes", marks=pytest.mark.slow),
    ],
)
def test_under_stages(order: int | None, still: tuple[str, ...]) -> None:
    own = schedule(frozen=bool(still))
    check(STAGED, order, PipelinePlan(own), FrozenParameters(still))


def test_parameters_are_stored_once() -> None:
    step = build_step(model(buckets=True), APART)
    assert {*step.abstract_state["params"]} == {"decoder", "vision"}
    assert (
        step.form.regrouping
        == build_step(
            model(buckets=False), {"decoder": ParallelPlan(data=4), "vision": SHORT}
        ).form.regrouping
    )


def test_buckets_that_split_parameters_in_other_ways_are_refused() -> None:
    plans = {"decoder": ParallelPlan(data=4), "short": SHORT, "long": ParallelPlan(data=2, fsdp=2)}
    said = (
        r"^long: data 2 x fsdp 2 splits the parameters of vision in another way than data 4 of "
        r"short: fsdp is over other devices"
    )
    with pytest.raises(PlanError, match=said):
        build_step(model(buckets=True), plans)
