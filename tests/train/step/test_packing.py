"""Real samples packed into common rows give the loss and gradients that they give alone."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from data.batch import PackedBatch
from data.loading.assemble import BatchAssembler
from data.planning.layout import lay_out
from data.planning.packing import make_capacity
from data.sources.make import make_source
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.experiment import Experiment
from sharding.plan import ParallelPlan
from tests.train.step.gradients import CompiledOnce

ONE = {name: ParallelPlan() for name in ("decoder", "vision", "audio")}


def batch(config: ExperimentConfig, processor: Any, rows: Sequence[int]) -> PackedBatch:
    """The first samples of the source, sample i in row `rows[i]`; some rows may hold none."""
    specs = tuple(processor.specs.values())
    capacity = make_capacity(config.data.budgets, specs)
    source = make_source(config.data, "train")
    count = len(rows)
    data = config.data.model_copy(update={"rows": count})
    wanted = {name: list(range(count)) for name in ONE}
    samples = [(i, processor.measure(source[i, 0])) for i in range(len(rows))]
    placements = lay_out(samples, list(rows), specs)
    made, skipped = BatchAssembler(source, processor, data, wanted)(placements, capacity)
    assert not skipped
    return made


@pytest.mark.slow
def test_packed_equals_alone(small_config):
    """`test_evaluator.py` compares the losses of packed samples, too."""
    budgets = {"tokens": 192, "segments": 8, "vision": 96, "audio": 1024}
    config = small_config(data__budgets=budgets)
    processor = Experiment.build(config).processor
    params = initial_parameters(config.model, seed=0)
    gradients = CompiledOnce.under(config.model, ONE, params)
    packed, alone = (
        gradients([batch(config, processor, rows)]) for rows in ([0, 0, 1, 0, 1, 1, 0], range(7))
    )
    result = compare_gradients(packed, alone)
    assert result.loss_error < 1e-6
    assert max(result.worst.values()) < 2e-5, result
    assert dataclasses.replace(result, loss_error=1.0).ok is False
