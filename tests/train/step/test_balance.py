"""However samples are assigned, the loss and every gradient leaf are those of one device."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from data.batch import PackedBatch
from data.config import Balance
from data.loading.assemble import BatchAssembler
from data.planning.ladder import Ladder
from data.planning.layout import lay_out, runs_of_plan
from data.planning.packing import make_capacity
from data.planning.problem import BalanceProblem
from data.planning.row_assignment import RowAssigner, RowAssignment
from data.planning.steps import StepPacker
from data.processing.processor import make_processor
from data.sources.make import make_source
from mllm_jax.check.verify import VerificationResult, compare_gradients, initial_parameters
from mllm_jax.config.inputs import row_specs
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.work.flops import module_works
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.step import TrainStep
from sharding.plan import ParallelPlan

ROWS = 4
NAMES = ("decoder", "vision", "audio")
ONE = {name: ParallelPlan() for name in NAMES}
FOUR = {
    "decoder": ParallelPlan(data=4),
    "vision": ParallelPlan(data=2, tensor=2),
    "audio": ParallelPlan(fsdp=2, tensor=2),
}


def at_random(problem: BalanceProblem) -> list[list[int]]:
    """Ranks that the items' lengths choose, as nobody would; items without room go in turn."""
    rank = (problem.lengths * 7919 + np.arange(len(problem.lengths))) % problem.ranks
    groups: list[list[int]] = [[] for _ in range(problem.ranks)]
    left = np.tile(np.array(problem.limits), (problem.ranks, 1))
    for item, first in enumerate(rank.tolist()):
        for r in (first + np.arange(problem.ranks)) % problem.ranks:
            if (left[r] >= problem.needs[item]).all():
                groups[r].append(item)
                left[r] -= problem.needs[item]
                break
    return groups


class Laboratory:
    """One small model and its programs, each compiled once."""

    def __init__(self, config: ExperimentConfig) -> None:
        data = config.data.model_copy(update={"rows": ROWS})
        self.config = config.model_copy(update={"data": data})
        self.processor = make_processor(data, row_specs(config.model))
        self.source = make_source(data, "train")
        self.lengths = [self.processor.measure(self.source[i, 0]) for i in range(len(self.source))]
        self.params = jax.tree.map(np.asarray, initial_parameters(config.model, seed=0))
        self._program = cache(self._compiled)

    def assigned(
        self, balance: Balance, how: dict[str, Any], chosen: Sequence[int]
    ) -> tuple[RowAssignment, PackedBatch]:
        """Samples of the source distributed over the rows, and their batch."""
        changes: dict[str, Any] = {"balance": balance, "balancing": how}
        data = type(self.config.data).model_validate(self.config.data.model_dump() | changes)
        encoders = tuple(self.processor.specs.values())
        capacity = make_capacity(data.budgets, encoders)
        ladder = Ladder.build(data, self.config.budget_units)
        assigner = RowAssigner(data, capacity, ladder, module_works(self.config.model), {})
        lengths = [self.lengths[i] for i in chosen]
        packed = StepPacker(capacity, ROWS, 1, balance == "per_phase", evenly=False)(lengths)
        assigned = assigner(lengths, packed)
        samples = [(i, self.lengths[i]) for i in chosen]
        placements = lay_out(samples, assigned.rows, encoders, assigned.media)
        rows, apart = {name: list(range(ROWS)) for name in NAMES}, balance == "per_phase"
        assemble = BatchAssembler(self.source, self.processor, data, rows, apart)
        batch, skipped = assemble(placements, capacity)
        assert not skipped
        return assigned, replace(
            batch, runs=runs_of_plan(placements, capacity.media) if apart else None
        )

    def fits(self, chosen: Sequence[int]) -> bool:
        """Whether no sample would wait, under whatever balance."""
        capacity = make_capacity(self.config.data.budgets, tuple(self.processor.specs.values()))
        packer = StepPacker(capacity, ROWS, 1, spread=False, evenly=False)
        return len(packer([self.lengths[i] for i in chosen]).placed_samples) == len(chosen)

    def result(self, devices: int, batch: PackedBatch) -> tuple[np.ndarray, Any]:
        """Loss and gradients on one device or on four."""
        step, params, program = self._program(devices, batch.runs is not None)
        grads, loss = program(params, place_microbatches([batch], step))
        return np.asarray(loss), jax.tree.map(np.asarray, grads)

    def _compiled(self, devices: int, routed: bool) -> tuple[TrainStep, Any, Any]:
        step = build_step(self.config.model, ONE if devices == 1 else FOUR)
        layout = jax.tree.map(lambda leaf: leaf.sharding, step.abstract_state["params"])
        params = jax.device_put(self.params, layout)
        _, batch = self.assigned("per_phase" if routed else "none", {}, [0, 1])
        lowered = step.gradients.lower(params, place_microbatches([batch], step))
        fast: dict[str, Any] = {"xla_backend_optimization_level": 0}
        return step, params, lowered.compile(fast)


@pytest.fixture(scope="module")
def laboratory(small_config: Any) -> Laboratory:
    budgets = {"tokens": 192, "segments": 8, "vision": 96, "audio": 1024}
    return Laboratory(small_config(data__budgets=budgets))


RANDOM = f"{__name__}:at_random"
ALGORITHMS = st.sampled_from([None, "lpt", "contiguous", RANDOM])
COSTS = st.sampled_from(["packed", "padded", "convolution"])
BALANCED = {"none": (), "backbone": ("decoder",), "per_phase": NAMES}


def hows(balance: Balance) -> st.SearchStrategy[dict[str, Any]]:
    """Costs and algorithms of some of the towers that `balance` distributes."""
    each = st.fixed_dictionaries({"algorithm": ALGORITHMS, "cost": COSTS})
    return st.fixed_dictionaries({}, optional=dict.fromkeys(BALANCED[balance], each))


HOWS = st.sampled_from(get_args(Balance)).flatmap(lambda b: st.tuples(st.just(b), hows(b)))


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    chosen=st.lists(st.integers(0, 63), min_size=1, max_size=12, unique=True),
    balancing=HOWS,
)
@example(chosen=[0], balancing=("per_phase", {}))  # fewer samples than ranks
@example(chosen=[0, 2, 4, 6, 8], balancing=("per_phase", {}))  # no speech in the step
@example(chosen=[1, 3, 5], balancing=("per_phase", {}))  # no image in the step
@example(chosen=[0, 1, 2], balancing=("per_phase", {}))  # each on some ranks only
@example(chosen=list(range(12)), balancing=("per_phase", {"vision": {"algorithm": RANDOM}}))
def test_balanced_equals_unbalanced(
    laboratory: Laboratory, chosen: list[int], balancing: tuple[Balance, dict[str, Any]]
) -> None:
    balance, how = balancing
    assume(laboratory.fits(chosen))
    _, unbalanced = laboratory.assigned("none", {}, chosen)
    _, balanced = laboratory.assigned(balance, how, chosen)
    result = check(laboratory, balanced, unbalanced)
    assert result.loss_error < 1e-6
    assert max(result.worst.values()) < 2e-5, result


def check(
    laboratory: Laboratory, balanced: PackedBatch, unbalanced: PackedBatch
) -> VerificationResult:
    """Compare with the rows on four devices, if they have routes.

    Without routes a plan computes what one device does (`test_plans.py`): only rows differ.
    """
    devices = 4 if balanced.runs is not None else 1
    return compare_gradients(laboratory.result(devices, balanced), laboratory.result(1, unbalanced))


def test_one_giant_sample_beside_small_ones(laboratory: Laboratory) -> None:
    """The giant sample has a rank of its own; the others share the rest."""
    order = sorted(range(64), key=lambda i: -laboratory.lengths[i].total("decoder"))
    chosen = [order[0], *order[-3:]]
    assigned, balanced = laboratory.assigned("per_phase", {}, chosen)
    _, unbalanced = laboratory.assigned("none", {}, chosen)
    assert assigned.rows.count(assigned.rows[0]) == 1
    result = check(laboratory, balanced, unbalanced)
    assert result.loss_error < 1e-6
    assert max(result.worst.values()) < 2e-5, result
