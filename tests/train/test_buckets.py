"""A run of an encoder with two buckets: samples, gradients, figures and evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks.pipeline import with_section
from data.batch import PackedBatch
from data.loading.assemble import BatchAssembler
from data.loading.evaluation import example_batches, heldout_indices
from data.loading.loader import DataLoader
from data.planning.groups.group import make_groups
from data.planning.layout import lay_out
from data.planning.lengths import open_lengths
from data.planning.packing import make_capacity, pack
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand
from data.rows.spec import BucketCost
from data.sources.make import make_source
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.inputs import row_specs
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.components.evaluator import LossEvaluator
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepRecorder
from mllm_jax.train.loading.loader import open_loader, shared_source, training_demand
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import StepRunner
from sharding.plan import ParallelPlan
from tests.train.runs import initial_state, take_steps
from tests.train.step.gradients import CompiledOnce

#: Patches of an image of the short bucket; the demo's images have 3 to 19.
MOST = 10
BUDGETS = {"tokens": 64, "segments": 8, "audio": 320}


@pytest.fixture(scope="module")
def bucketed(small_config: Any) -> ExperimentConfig:
    own: ExperimentConfig = small_config(
        model__encoders__vision__buckets={"short": MOST, "long": None},
        parallel__encoders={
            "short": {"data": 4},
            "long": {"data": 2, "context": 2},
            "audio": {"data": 2, "tensor": 2},
        },
        parallel__decoder={"data": 4},
        data__budgets={**BUDGETS, "short": 32, "long": 40},
        train__steps=2,
        train__seed=4,  # with media of both buckets in the first step, wherever it is cut
    )
    return own


@pytest.fixture(scope="module")
def by_cost(bucketed: ExperimentConfig) -> ExperimentConfig:
    """The same buckets, of which every step chooses where it cuts."""
    encoder = bucketed.model.encoders["vision"]
    buckets = encoder.model_copy(update={"buckets": {"short": "auto", "long": None}})
    model = bucketed.model.model_copy(
        update={"encoders": {**bucketed.model.encoders, "vision": buckets}}
    )
    schedule = bucketed.schedule.model_copy(update={"hardware": "h100"})
    return bucketed.model_copy(update={"model": model, "schedule": schedule})


@pytest.fixture(scope="module")
def experiment(bucketed: ExperimentConfig) -> Experiment:
    return Experiment.build(bucketed)


def first_plan(experiment: Experiment, consumes: TrainingDemand) -> MicrobatchPlan:
    """The first step of a consumer, planned from lengths."""
    config, processor = experiment.config, experiment.processor
    source, buckets = shared_source(config.data), tuple(processor.specs.values())
    lengths, own = open_lengths(source, processor, config.data), config.data
    capacity, state = make_capacity(own.budgets, buckets), LoaderState(config.train.seed)
    return BatchPlanner(source, lengths, own, capacity, state, consumes).plan()


def on_one_device(
    experiment: Experiment, whole: ExperimentConfig, plans: Sequence[MicrobatchPlan]
) -> tuple[np.ndarray, Any]:
    """Loss and gradients of the samples of plans, by an encoder without buckets."""
    config, processor = experiment.config, experiment.processor
    source, encoders = shared_source(config.data), row_specs(whole.model)
    capacity = make_capacity(whole.data.budgets, encoders)
    placed = [placement for plan in plans for placement in plan.placements]
    samples = [(p.index, processor.measure(source[p.index, 0])) for p in placed]
    rows = pack([capacity.needs(n) for _, n in samples], whole.data.rows, capacity.limits)
    assert None not in rows
    towers = {name: range(whole.data.rows) for name in ("decoder", *whole.model.encoders)}
    whole_processor = type(processor)(whole.data, encoders)
    assemble = BatchAssembler(source, whole_processor, whole.data, towers)
    batch, _ = assemble(lay_out(samples, rows, capacity.specs), capacity)
    return gradients_of(whole.model, {name: ParallelPlan() for name in towers})([batch])


@cache
def _compiled(model: str, plans: str) -> CompiledOnce:
    """Of a model and plans as JSON, so that tests of the same ones share it."""
    own = ModelConfig.model_validate_json(model)
    degrees = {name: ParallelPlan(**plan) for name, plan in json.loads(plans).items()}
    return CompiledOnce.under(own, degrees, initial_parameters(own, 0))


def gradients_of(model: ModelConfig, plans: Mapping[str, ParallelPlan]) -> CompiledOnce:
    degrees = {name: plan.model_dump() for name, plan in plans.items()}
    return _compiled(model.model_dump_json(), json.dumps(degrees))


def half_dear(experiment: Experiment) -> Experiment:
    """Whole media are dear above `MOST` patches, so that steps cut there or near."""
    short, long = BucketCost(4, 0.0, 0.0, 1.0), BucketCost(2, 0.0, MOST / 2, 0.5)
    costs = {"short": short, "long": long}
    processor = experiment.processor
    buckets = [
        replace(m, bucket=replace(m.bucket, cost=costs[m.name])) if m.bucket else m
        for m in processor.specs.values()
    ]
    return replace(experiment, processor=type(processor)(experiment.config.data, buckets))


@pytest.mark.parametrize("balance", ["per_phase", pytest.param("none", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cut", [pytest.param("by a threshold", marks=pytest.mark.slow), "by cost"])
@pytest.mark.parametrize("measured", ["cached", pytest.param("on_read", marks=pytest.mark.slow)])
def test_samples_through_buckets_teach_the_same(
    request: pytest.FixtureRequest, small_config: Any, balance: str, cut: str, measured: str
) -> None:
    name = {"by a threshold": "bucketed", "by cost": "by_cost"}[cut]
    bucketed: ExperimentConfig = request.getfixturevalue(name)
    data = bucketed.data.model_copy(update={"balance": balance, "lengths": measured})
    own = Experiment.build(bucketed.model_copy(update={"data": data}))
    own = half_dear(own) if cut == "by cost" else own
    with open_loader(own, LoaderState(bucketed.train.seed)) as loader:
        microbatch = next(loader)
    assert microbatch.stats.used["short"]
    assert microbatch.stats.used["long"]
    most = microbatch.stats.lengths["short"].max()
    assert most < microbatch.stats.lengths["long"].min()
    assert most <= MOST or cut == "by cost"
    whole = small_config(data__rows=8, data__budgets={**BUDGETS, "tokens": 128, "vision": 96})
    expected = on_one_device(own, whole, [first_plan(own, training_demand(own))])
    found = gradients_of(bucketed.model, bucketed.parallel.plans)([microbatch.batch])
    result = compare_gradients(found, expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def in_groups(experiment: Experiment, count: int) -> list[TrainingDemand]:
    """Consumers of equal groups of hosts, each with its share of all rows."""
    rows, towers = experiment.config.data.rows, ("decoder", *experiment.config.model.buckets)
    share = rows // count
    held = [
        {tower: range(host * share, (host + 1) * share) for tower in towers}
        for host in range(count)
    ]
    groups = make_groups(experiment.config.data, held, 1)
    return [replace(training_demand(experiment), hosts={}, group=group) for group in groups]


@pytest.mark.slow
def test_groups_that_balance_alone_teach_the_same(
    by_cost: ExperimentConfig, small_config: Any
) -> None:
    """Each of two groups cuts and distributes its own samples; their rows are one batch."""
    own = half_dear(Experiment.build(with_section(by_cost, "data", balance="per_phase")))
    config, source = own.config, shared_source(own.config.data)
    consumers = in_groups(own, 2)
    plans = [first_plan(own, consumes) for consumes in consumers]
    parts = []
    for consumes in consumers:
        common = source, own.processor, config.data, config.train.seed, consumes.group.rows
        with DataLoader(*common, LoaderState(config.train.seed), consumes) as loader:
            parts.append(next(loader).batch)
    cuts = [[m.bucket.above for m in plan.capacity.specs if m.bucket] for plan in plans]
    assert cuts[0] != cuts[1]
    fields = ((part.rows, part.runs, part.places) for part in parts)
    batch = PackedBatch(*jax.tree.map(lambda *arrays: np.concatenate(arrays), *fields))
    whole = small_config(data__rows=8, data__budgets={**BUDGETS, "tokens": 128, "vision": 96})
    expected = on_one_device(own, whole, plans)
    found = gradients_of(config.model, config.parallel.plans)([batch])
    result = compare_gradients(found, expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_evaluation_cuts_its_batches_by_cost_too(by_cost: ExperimentConfig) -> None:
    own = half_dear(Experiment.build(by_cost))
    rows = {name: range(by_cost.data.rows) for name in ("decoder", *by_cost.model.buckets)}
    source = make_source(by_cost.data, "heldout")
    indices = heldout_indices(source, None)
    batches = example_batches(source, own.processor, by_cost.data, rows, indices)
    ids = [{name: rows.segment_ids for name, rows in batch.batch.rows.items()} for batch in batches]
    # At the highest cut all of them would be short.
    assert any(own_ids["long"].any() for own_ids in ids)
    for own_ids in ids:
        short, long = (
            [n for row in own_ids[name] for n in np.bincount(row)[1:] if n]
            for name in ("short", "long")
        )
        assert max(short, default=0) < min(long, default=99) <= 99


@pytest.mark.slow
def test_a_run_has_figures_of_buckets_and_evaluates_encoders(experiment: Experiment) -> None:
    state = initial_state(experiment.step)
    progress = Progress(0, LoaderState(experiment.config.train.seed))
    recorder = StepRecorder(experiment)
    trainer = StepRunner(experiment, state, progress, recorder)
    for ended in take_steps(trainer):
        record = recorder.make_record(ended)
        assert {"tokens", "short", "long", "audio"} == {*record.used} == {*record.capacity}
        assert {"decoder", "short", "long", "audio"} == {*record.loads}
        assert math.isfinite(record.loss)
    assert progress.step == 2
    params = trainer.state["params"]
    assert {*params} == {"decoder", "audio", "vision"}
    found = LossEvaluator(experiment)(params)
    assert {*found["exact_match"]} <= {"vision", "audio", "text"}
    assert found["heldout_tokens"] > 0
