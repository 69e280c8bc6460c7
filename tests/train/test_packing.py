"""Real samples packed into common rows give the loss and gradients that they give alone."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

from data.assemble import Assembler
from data.config import Balance
from data.dealing import Dealer, Dealt
from data.ladder import Ladder
from data.packing import make_capacity
from data.plan import lay_out, runs_of_plan
from data.sources import make_source
from mllm_jax.config import ExperimentConfig
from mllm_jax.models.work import tower_works
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.verify import compare, initial_parameters, loss_and_gradients
from sharding.plan import ParallelPlan

ONE = {name: ParallelPlan() for name in ("decoder", "vision", "audio")}


def batch(config: ExperimentConfig, processor: Any, rows: Sequence[int]) -> dict[str, Any]:
    """The first samples of the source, sample i in row `rows[i]`."""
    modalities = tuple(processor.modalities.values())
    capacity = make_capacity(config.data.budgets, modalities)
    source = make_source(config.data, "train")
    count = max(rows) + 1
    data = config.data.model_copy(update={"rows": count})
    wanted = {name: list(range(count)) for name in ONE}
    samples = [(i, processor.measure(source[i])) for i in range(len(rows))]
    placements = lay_out(samples, list(rows), modalities)
    made, skipped = Assembler(source, processor, data, wanted)(placements, capacity)
    assert not skipped
    return made


def test_packed_equals_alone(small_config):
    budgets = {"tokens": 192, "segments": 8, "vision": 96, "audio": 1024}
    config = small_config(data__budgets=budgets)
    processor = Experiment.build(config).processor
    params = initial_parameters(config.model, seed=0)
    packed, alone = (
        loss_and_gradients(config.model, ONE, params, [batch(config, processor, rows)])
        for rows in ([0, 0, 1, 0, 1, 1, 0], range(7))
    )
    result = compare(packed, alone)
    assert result.loss_error < 1e-6
    assert max(result.worst.values()) < 2e-5, result
    assert dataclasses.replace(result, loss_error=1.0).ok is False


def test_balanced_equals_unbalanced(small_config):
    """The same samples on two ranks, dealt in every way."""
    budgets = {"tokens": 192, "segments": 8, "vision": 96, "audio": 1024}
    config = small_config(data__budgets=budgets)
    processor = Experiment.build(config).processor
    params = initial_parameters(config.model, seed=0)
    plans = {"decoder": ParallelPlan(data=2), "vision": ParallelPlan(data=2)}
    plans["audio"] = ParallelPlan(tensor=2)
    results, rows = [], set()
    for balance in get_args(Balance):
        dealt, made = dealt_batch(config, processor, balance, count=7)
        rows.add((dealt.rows, str(dealt.media)))
        own = ONE if balance == "none" else plans
        results.append(loss_and_gradients(config.model, own, params, [made]))
    assert len(rows) == 3, "two of the deals are the same: the test shows less"
    for result in (compare(got, results[0]) for got in results[1:]):
        assert result.loss_error < 1e-6
        assert max(result.worst.values()) < 2e-5, result


def dealt_batch(
    config: ExperimentConfig, processor: Any, balance: Balance, count: int
) -> tuple[Dealt, dict[str, Any]]:
    """The first samples of the source on two rows."""
    modalities = tuple(processor.modalities.values())
    capacity = make_capacity(config.data.budgets, modalities)
    source = make_source(config.data, "train")
    samples = [(i, processor.measure(source[i])) for i in range(count)]
    data = config.data.model_copy(update={"rows": 2, "balance": balance})
    ladder = Ladder.build(data, config.budget_units)
    dealer = Dealer(data, capacity, ladder, tower_works(config.model), {})
    dealt = dealer([n for _, n in samples])
    assert None not in dealt.rows
    placements = lay_out(samples, dealt.rows, modalities, dealt.media)
    wanted, apart = {name: [0, 1] for name in ONE}, balance == "per_phase"
    made, skipped = Assembler(source, processor, data, wanted, apart)(placements, capacity)
    assert not skipped
    return dealt, made | ({"runs": runs_of_plan(placements, modalities)} if apart else {})
