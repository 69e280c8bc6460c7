"""Steps of groups of devices, simulated: by hand, and against their bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.costs.hardware import HardwareLink
from scheduling.search.groups.bounds import GroupBounds
from scheduling.search.groups.space import list_divisions
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup, single_group
from scheduling.simulate.groups.step import simulate_groups
from tests.scheduling.module_graphs import (
    BANDWIDTH,
    Tasks,
    random_costs,
    random_space,
    slice_costs,
    task_of,
    two_towers,
)

HALVES = GroupPlan((PlannedGroup(("text",), (0, 0), 0.5), PlannedGroup(("image",), (0, 0), 0.5)))
APART = GroupPlan((PlannedGroup(("text",), (0, 0)), PlannedGroup(("image",), (1, 1))))


def test_one_group_runs_one_task_at_a_time() -> None:
    run = simulate_groups(two_towers(), single_group(("text", "image"), 1))
    # Two microbatches of two modules: forward 1, backward 2; updates of a half.
    assert run.seconds == pytest.approx(2 * 2 * 3 + 2 * 0.5)
    assert run.busy == pytest.approx([1.0])


def test_gradient_caching_runs_forwards_twice_in_one_program_alone() -> None:
    costs = two_towers()
    cached = replace(costs, graph=replace(costs.graph, gradient_caching=True))
    single = single_group(("text", "image"), 1)
    assert simulate_groups(cached, single).seconds == pytest.approx(2 * 2 * 4 + 2 * 0.5)
    assert simulate_groups(cached, HALVES).seconds == simulate_groups(costs, HALVES).seconds


@pytest.mark.parametrize("plan", [HALVES, APART])
def test_modules_that_fill_a_part_of_a_device_gain_all_by_running_side_by_side(
    plan: GroupPlan,
) -> None:
    run = simulate_groups(two_towers(), plan)
    assert run.seconds == pytest.approx(2 * 3 + 0.5)
    assert run.busy == pytest.approx([1.0, 1.0])


def test_modules_that_fill_a_device_gain_nothing() -> None:
    costs = two_towers(gain=1.0)
    assert simulate_groups(costs, HALVES).seconds == pytest.approx(
        simulate_groups(costs, single_group(("text", "image"), 1)).seconds
    )


def test_replicas_on_slices_divide_the_rows() -> None:
    costs = two_towers(gain=1.0)
    run = simulate_groups(costs, single_group(("text", "image"), 1, slices=2))
    # As fast as one replica, but for updates, which both halves of the device run in full.
    assert run.seconds == pytest.approx(2 * 2 * 3 + 2 * 2 * 0.5)


def test_a_backbone_waits_for_what_feeds_it() -> None:
    run = simulate_groups(two_towers(waits=False), APART)
    text = [(t.phase, t.start) for t in run.tasks if t.module == "text"]
    # F0+B0 after F0 of the image; F1 of the image is done before.
    assert text == [
        ("forward", 1.0),
        ("backward", 2.0),
        ("forward", 4.0),
        ("backward", 5.0),
        ("update", 9.0),
    ]
    # The last backward of the image comes after that of the text.
    assert run.seconds == pytest.approx(1 + 2 * 3 + 2 + 0.5)


def test_tasks_slow_each_other_down_while_both_run() -> None:
    heavy = task_of(1, traffic=BANDWIDTH)
    graph = ModuleGraph((GraphModule("text"), GraphModule("image")), waits=True)
    tasks: dict[str, Tasks] = {
        "text": {"forward": heavy},
        "image": {"forward": task_of(2, traffic=BANDWIDTH)},
    }
    run = simulate_groups(GroupCosts(graph, slice_costs(tasks)), HALVES)
    ends = {task.module: task.end for task in run.tasks}
    # Both ask for 1.5 times the bandwidth, until the text is done and the image runs on alone.
    assert ends["text"] == pytest.approx(1.5)
    assert ends["image"] == pytest.approx(1.5 + 2 * (1 - 1.5 / 3))


def test_interference_counts_while_the_other_runs() -> None:
    graph = ModuleGraph((GraphModule("text"), GraphModule("image")), waits=True)
    tasks: dict[str, Tasks] = {"text": {"forward": task_of(1)}, "image": {"forward": task_of(2)}}
    costs = slice_costs(tasks, pairs=[("image", "text", 2.0)])
    run = simulate_groups(GroupCosts(graph, costs), HALVES)
    assert run.seconds == pytest.approx(1 + 2 * (1 - 1 / 4))


def test_the_host_starts_programs_one_after_the_other() -> None:
    graph = ModuleGraph((GraphModule("text"), GraphModule("image")), waits=True)
    tasks: dict[str, Tasks] = {
        name: {"forward": task_of(1, host=0.25)} for name in ("text", "image")
    }
    costs = GroupCosts(graph, slice_costs(tasks))
    assert simulate_groups(costs, HALVES).seconds == pytest.approx(1.25)
    # One group is one program.
    single = single_group(("text", "image"), 1)
    assert simulate_groups(costs, single).seconds == pytest.approx(2)


def test_outputs_and_sums_of_gradients_take_the_links() -> None:
    graph = ModuleGraph(
        (GraphModule("text", gradient_bytes=8e9), GraphModule("image", ("text",))), rows=4
    )
    tasks: dict[str, Tasks] = {
        name: {"forward": task_of(1), "backward": task_of(1)} for name in ("text", "image")
    }
    link = HardwareLink(bandwidth=1e9, latency=0)
    costs = GroupCosts(graph, slice_costs(tasks, output_bytes=4e8, link=link))
    plan = GroupPlan((PlannedGroup(("text",), (0, 1)), PlannedGroup(("image",), (2, 2))))
    run = simulate_groups(costs, plan)
    moved, summed = 0.4, 2 * 8 / 2
    assert run.tasks[-1].end == pytest.approx(2 * moved + 0.5 + 0.5 + 1 + 1)
    # The text's sum ends last, which begins after its backward.
    assert run.seconds == pytest.approx(1 + moved + 0.5 + 0.5 + summed)


def test_state_is_shared_where_it_does_not_fit() -> None:
    costs = two_towers()
    modules = tuple(replace(m, state_bytes=8.0, saved_bytes=4.0) for m in costs.graph.modules)
    costs = replace(costs, graph=replace(costs.graph, modules=modules))
    plan = GroupPlan((PlannedGroup(("text",), (0, 1)), PlannedGroup(("image",), (2, 2))))
    in_flight = 2, 2
    assert costs.device_bytes(plan, in_flight) == 8 + 2 * 4
    assert costs.device_bytes(HALVES, in_flight) == 2 * (8 + 2 * 4)
    assert costs.fit_memory(plan, in_flight, 16) == plan
    fitted = costs.fit_memory(plan, in_flight, 11)
    assert [group.shards for group in fitted.groups] == [2, 1]
    assert costs.group_bytes(fitted.groups[0], 2) == 8 / 2 + 2 * 4 / 2


@given(st.integers(0, 10_000), st.booleans())
def test_no_step_is_faster_than_its_bound(seed: int, mixed: bool) -> None:
    costs, space = random_costs(seed, most=4), random_space(seed, mixed=mixed)
    divisions = [*list_divisions(costs.graph, space)]
    for division in divisions[:: max(1, len(divisions) // 5)]:
        plans = [*space.plans_of(costs.graph, division)]
        for plan in plans[:: max(1, len(plans) // 3)]:
            run = simulate_groups(costs, plan)
            assert GroupBounds(costs, plan).seconds <= run.seconds * (1 + 1e-9)


@given(st.integers(0, 10_000))
def test_every_task_runs_once_and_groups_run_one_at_a_time(seed: int) -> None:
    costs, space = random_costs(seed), random_space(seed)
    divisions = [*list_divisions(costs.graph, space)]
    plan = next(space.plans_of(costs.graph, divisions[-1]), None)
    if plan is None:  # more islands than devices that divide the rows
        return
    run, graph = simulate_groups(costs, plan), costs.graph
    assert len(run.tasks) == len(graph.modules) * (2 * graph.microbatches + 1)
    for number in range(len(plan.groups)):
        tasks = sorted((t.start, t.end) for t in run.tasks if t.group == number)
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(tasks))
