"""Costs of slices by counted work: on whole devices those of the cost model, on slices no less."""

from __future__ import annotations

import pytest

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.slices import RunningTask
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.estimate import SliceEstimate
from scheduling.simulate.groups.plan import single_group
from scheduling.simulate.groups.step import simulate_groups
from sharding.plan import ParallelPlan
from tests.scheduling.workloads import hardware, workload

MICROBATCHES = 4
GPU = "gpu_device_info {\n core_count: 16\n}"


def large() -> Workload:
    """Rows enough for compute to take longer than reading parameters."""
    return workload(rows=256)


def estimate(own: Workload, cores: str | None = None) -> SliceEstimate:
    quotas = 0.25, 0.5
    return SliceEstimate(own, hardware(target_config=cores), MICROBATCHES, quotas=quotas)


def test_one_device_takes_the_seconds_of_the_cost_model() -> None:
    own, parts = large(), []
    plans = dict.fromkeys(own.modules, ParallelPlan())
    for name in own.modules:
        timing = ModuleTiming(own, Strategy(plans, MICROBATCHES), hardware(), name)
        embed = timing.embed_seconds() if timing.is_backbone else 0.0
        parts.append(MICROBATCHES * (timing.microbatch_seconds + embed) + timing.update_seconds())
    made = estimate(own)
    costs = GroupCosts(made.graph, made.costs)
    run = simulate_groups(costs, single_group(costs.graph.names, 1))
    assert run.seconds == pytest.approx(sum(parts))


def test_tasks_take_longer_on_slices_but_for_what_is_fixed_and_moves() -> None:
    compute = estimate(large(), GPU).costs
    for name, module in compute.modules.items():
        for phase, task in module.tasks.items():
            whole, quarter = (compute.seconds(RunningTask(name, phase, q)) for q in (1.0, 0.25))
            assert whole <= quarter <= 4 * whole
            assert (task.fixed_seconds > 0) == (phase != "update")
            few = compute.seconds(RunningTask(name, phase, 1.0, rows=1e-6))
            assert few >= task.fixed_seconds


def test_cores_that_are_not_known_are_all_filled() -> None:
    filled, known = estimate(large()).costs, estimate(large(), GPU).costs
    task = RunningTask("vision", "forward", 0.5)
    assert filled.work("vision", "forward").fixed_seconds == 0
    assert known.seconds(task) > filled.seconds(task)


def test_the_graph_has_modules_with_their_bytes() -> None:
    graph = estimate(large()).graph
    assert graph.names == ("decoder", "vision")
    assert graph.by_name["vision"].targets == ("decoder",)
    assert (graph.rows, graph.microbatches) == (64, MICROBATCHES)
    for module in graph.modules:
        # Parameters, gradients and two moments.
        assert module.state_bytes == pytest.approx(4 * module.gradient_bytes)
        assert module.saved_bytes > 0


def test_frozen_modules_have_no_backward() -> None:
    frozen = workload(
        rows=256, frozen=frozenset({"vision"}), frozen_connectors=frozenset({"vision"})
    )
    made = estimate(frozen)
    assert not made.graph.by_name["vision"].has_backward
    assert [*made.costs.modules["vision"].tasks] == ["forward"]
    run = simulate_groups(GroupCosts(made.graph, made.costs), single_group(made.graph.names, 1))
    assert {task.phase for task in run.tasks if task.module == "vision"} == {"forward"}
