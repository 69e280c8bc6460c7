"""Costs of slices from measured times: a device with known laws and noise is predicted again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np
import pytest

from scheduling.costs.hardware import HardwareError, HardwareLink
from scheduling.costs.slice_fit import (
    CountedTask,
    MeasuredSlices,
    TimedTask,
    check_rows,
    check_time,
    fit_slices,
)
from scheduling.costs.slices import Phase, RunningTask
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup, single_group
from scheduling.simulate.groups.step import simulate_groups

LINK = HardwareLink(bandwidth=1e10, latency=1e-6)
BANDWIDTH = 1e11
#: FLOPs, bytes, FLOP/s of the whole device, share of the seconds that no core can take from others,
#: and seconds that rows do not change.
TASKS: dict[tuple[str, Phase], tuple[float, float, float, float, float]] = {
    ("decoder", "forward"): (1e9, 4e7, 1e12, 0.1, 1e-4),
    ("decoder", "backward"): (2e9, 9e7, 1e12, 0.1, 2e-4),
    ("image", "forward"): (3e8, 3e7, 6e11, 0.5, 1e-4),
    ("image", "backward"): (6e8, 5e7, 6e11, 0.5, 1e-4),
}
#: How much longer a module takes beside another, beyond what the memory explains.
NEIGHBOURS = {("decoder", "image"): 1.05, ("image", "decoder"): 1.12}
MEASURED, NOISE = (0.25, 0.5, 1.0), 0.02
#: Seconds in which the host starts a task.
HOST = 2e-4


def true_seconds(task: RunningTask, beside: RunningTask | None = None) -> float:
    """What the device does: Amdahl's law, memory shared in proportion, a factor of neighbours."""

    def alone(each: RunningTask) -> float:
        flops, traffic, speed, serial, fixed = TASKS[each.module, each.phase]
        work = each.rows * flops / speed * (serial + (1 - serial) / each.quota)
        return max(fixed + work, each.rows * traffic / BANDWIDTH)

    if beside is None:
        return alone(task)
    asked = sum(
        each.rows * TASKS[each.module, each.phase][1] / alone(each) for each in (task, beside)
    )
    neighbour = NEIGHBOURS[task.module, beside.module]
    return neighbour * alone(task) * max(1.0, asked / BANDWIDTH)


def pairs(quota: float) -> Iterator[tuple[RunningTask, RunningTask]]:
    for (module, phase), (beside, other) in permutations(TASKS, 2):
        if module != beside:
            yield RunningTask(module, phase, quota), RunningTask(beside, other, 1 - quota)


def measure(seed: int = 0) -> MeasuredSlices:
    """The device on quotas of `MEASURED`, alone and in halves, with noise."""
    rng = np.random.default_rng(seed)
    tasks = [
        RunningTask(module, phase, quota, rows)
        for (module, phase), quota, rows in product(TASKS, MEASURED, (0.5, 1.0))
    ]
    runs = [(task, None) for task in tasks] + [*pairs(0.5)]
    times = [
        TimedTask(
            task, (HOST + true_seconds(task, beside)) * float(rng.lognormal(0, NOISE)), beside
        )
        for task, beside in runs
    ]
    counts = {
        name: CountedTask(flops, traffic, HOST) for name, (flops, traffic, *_) in TASKS.items()
    }
    return MeasuredSlices(counts, {"image": 1e6}, times, BANDWIDTH, LINK, LINK)


@pytest.mark.parametrize("seed", range(4))
def test_times_that_were_left_out_are_predicted_within_a_tenth(seed: int) -> None:
    fitted = fit_slices(measure(seed))
    # Half the rows on two smaller slices, and forwards beside backwards.
    assert len(fitted.checks) == 2 * len(TASKS) + 4
    assert all(abs(check.error) < 0.1 for check in fitted.checks)


@pytest.mark.parametrize("seed", range(4))
def test_quotas_between_those_measured_are_predicted_within_a_tenth(seed: int) -> None:
    costs = fit_slices(measure(seed)).costs
    for quota in (0.3, 0.375, 0.7):
        for task, beside in pairs(quota):
            seconds = true_seconds(task, beside)
            assert costs.seconds(task, [beside]) == pytest.approx(seconds, rel=0.1), (task, beside)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("waits", [False, True])
def test_whole_steps_are_predicted_within_a_tenth(seed: int, waits: bool) -> None:
    """Steps are simulated with the device's own seconds, and with costs fitted to its tasks."""
    graph = ModuleGraph(
        (GraphModule("decoder"), GraphModule("image", ("decoder",))), microbatches=4, waits=waits
    )
    own, fitted = TrueCosts.of(graph), GroupCosts(graph, fit_slices(measure(seed)).costs)
    for quota in (0.3, 0.5, 0.7):
        plan = GroupPlan(
            (PlannedGroup(("decoder",), (0, 0), quota), PlannedGroup(("image",), (0, 0), 1 - quota))
        )
        seconds = simulate_groups(own, plan).seconds
        assert simulate_groups(fitted, plan).seconds == pytest.approx(seconds, rel=0.1)
    alone = single_group(("decoder", "image"), 1)
    seconds = simulate_groups(own, alone).seconds
    assert simulate_groups(fitted, alone).seconds == pytest.approx(seconds, rel=0.1)


class TrueCosts(GroupCosts):
    """Costs by the laws of the device."""

    @classmethod
    def of(cls, graph: ModuleGraph) -> TrueCosts:
        """The device's; only what the host takes is as it was counted."""
        return cls(graph, fit_slices(measure()).costs)

    def seconds(
        self, group: PlannedGroup, task: RunningTask, beside: Sequence[RunningTask] = ()
    ) -> float:
        """Seconds beside one other task at most."""
        return true_seconds(task, *beside)


def test_a_pair_that_was_measured_has_its_interference() -> None:
    costs = fit_slices(measure()).costs
    assert costs.interference("decoder", "image") == pytest.approx(1.05, abs=0.04)
    assert costs.interference("image", "decoder") == pytest.approx(1.12, abs=0.04)


def test_outputs_and_counts_come_along() -> None:
    costs = fit_slices(measure()).costs
    assert costs.modules["image"].output_bytes == 1e6
    assert costs.work("decoder", "backward").traffic == 9e7


def test_rows_name_what_was_left_out() -> None:
    task, beside = RunningTask("image", "forward", 0.5, 0.5), RunningTask("decoder", "backward", 1)
    costs = fit_slices(measure()).costs
    (row,) = check_rows([check_time(costs, TimedTask(task, 1e-3, beside))])
    assert row["what"] == "image forward, quota 0.5, rows 0.5, beside decoder backward"
    assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)


def test_a_backward_with_its_forward_in_one_program_is_a_task_for_each() -> None:
    task = RunningTask("decoder", "backward", 1.0)
    counts = dict[tuple[str, Phase], CountedTask](
        {("decoder", "backward"): CountedTask(6.0, 3.0, 1.0, is_fused=True)}
    )
    measured = MeasuredSlices(counts, {}, [TimedTask(task, 4.0)], 1e9, LINK, LINK)
    costs = fit_slices(measured).costs
    forward = RunningTask("decoder", "forward", 1.0)
    assert costs.seconds(forward) == pytest.approx(1)
    assert costs.seconds(task) == pytest.approx(2)
    assert costs.host_seconds(forward) == costs.host_seconds(task) == 1.0


def test_what_the_host_alone_takes_is_no_time_of_the_device() -> None:
    task = RunningTask("image", "forward", 1.0)
    counts: dict[tuple[str, Phase], CountedTask] = {
        ("image", "forward"): CountedTask(1.0, 0.0, 2.0)
    }
    measured = MeasuredSlices(counts, {}, [TimedTask(task, 2.0)], 1.0, LINK, LINK)
    costs = fit_slices(measured).costs
    assert costs.host_seconds(task) == 2.0
    assert costs.seconds(task) == pytest.approx(0.1)


def test_times_that_tell_nothing_are_refused() -> None:
    task = RunningTask("image", "forward", 0.5, 0.5)
    counts: dict[tuple[str, Phase], CountedTask] = {("image", "forward"): CountedTask(1.0, 1.0)}
    measured = MeasuredSlices(counts, {}, [TimedTask(task, 1.0)], 1.0, LINK, LINK)
    with pytest.raises(HardwareError, match="image forward was not measured with all rows"):
        fit_slices(measured)
    with pytest.raises(HardwareError, match=r"image forward.*: 0\.0 seconds were measured; valid"):
        TimedTask(task, 0.0)
