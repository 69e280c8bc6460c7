"""Plans of groups: all of them against those that are improved step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.search.groups.search import GroupSearch
from scheduling.search.groups.space import (
    GroupSpace,
    list_divisions,
    list_partitions,
    order_division,
)
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph
from scheduling.simulate.groups.plan import single_group
from scheduling.simulate.groups.step import simulate_groups
from tests.scheduling.module_graphs import random_costs, random_space, two_towers

HALVES = GroupSpace(1, quotas=(0.5,))


def compare_searches(seed: int) -> None:
    """What is improved is within 3 % of the fastest plan, and neither is above one group."""
    mixed = seed % 5 == 0
    costs, space = random_costs(seed, 4 if mixed else 6), random_space(seed, mixed=mixed)
    exact, improved = (
        GroupSearch(costs, space).search_all(),
        GroupSearch(costs, space).improve_plans(),
    )
    assert exact is not None
    assert improved is not None
    assert exact.seconds <= improved.seconds <= 1.03 * exact.seconds
    single = simulate_groups(costs, single_group(costs.graph.names, space.devices))
    assert improved.seconds <= single.seconds


@pytest.mark.parametrize("seed", range(20))
def test_improved_plans_are_near_the_fastest(seed: int) -> None:
    compare_searches(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 520, 20))
def test_improved_plans_are_near_the_fastest_of_500_graphs(first: int) -> None:
    for seed in range(first, first + 20):
        compare_searches(seed)


def test_the_search_of_all_finds_the_fastest() -> None:
    for seed in range(12):
        costs, space = random_costs(seed, most=3), random_space(seed, mixed=True)
        plans = [
            plan
            for division in list_divisions(costs.graph, space)
            for plan in space.plans_of(costs.graph, division)
        ]
        found = GroupSearch(costs, space)
        best = found.search_all()
        assert best is not None
        assert best.seconds == min(simulate_groups(costs, plan).seconds for plan in plans)
        assert found.simulated < len(plans)


def test_searches_of_equal_graphs_are_equal() -> None:
    runs = [GroupSearch(random_costs(7), random_space(7)).improve_plans() for _ in range(2)]
    assert runs[0] == runs[1]


def test_small_modules_share_a_device_and_large_ones_do_not() -> None:
    small = GroupSearch(two_towers(), HALVES).search_plans()
    large = GroupSearch(two_towers(gain=1.0), HALVES).search_plans()
    assert small is not None
    assert large is not None
    assert str(small.plan) == "text: 50% of device 0; image: 50% of device 0"
    assert small.plan.kind == "slices"
    assert large.plan.is_single


def test_two_devices_are_given_to_two_modules() -> None:
    found = GroupSearch(two_towers(), GroupSpace(2)).search_plans()
    assert found is not None
    assert str(found.plan) == "text: device 0; image: device 1"
    assert found.plan.kind == "devices"


def test_plans_without_room_are_refused() -> None:
    costs = two_towers()
    modules = tuple(replace(m, state_bytes=8.0) for m in costs.graph.modules)
    costs = replace(costs, graph=replace(costs.graph, modules=modules))
    apart = GroupSearch(costs, GroupSpace(2, memory=8.0))
    found = apart.search_plans()
    assert found is not None
    assert found.plan.kind == "devices"
    # All of the state on each of the two devices, shared by them, fits, too.
    shared = GroupSearch(costs, GroupSpace(2, ranges=False, memory=8.0)).search_plans()
    assert shared is not None
    assert [group.shards for group in shared.plan.groups] == [2]
    nothing = GroupSearch(costs, GroupSpace(2, memory=7.0))
    assert nothing.search_plans() is None
    assert nothing.refused


def test_equal_quotas_and_quotas_of_a_list() -> None:
    space = GroupSpace(1, quotas=(0.25, 0.5, 0.75))
    assert space.split_quotas(2) == ((0.25, 0.75), (0.5, 0.5), (0.75, 0.25))
    assert replace(space, equal=True).split_quotas(2) == ((0.5, 0.5),)
    assert replace(space, equal=True).split_quotas(3) == ()


def test_slices_and_ranges_are_mixed_only_if_asked_for() -> None:
    graph = ModuleGraph(tuple(map(GraphModule, "abc")), rows=4, waits=True)
    space = GroupSpace(4, quotas=(0.5,))
    mixed = (("a",),), (("b",), ("c",))
    assert mixed not in [*list_divisions(graph, space)]
    assert mixed in [*list_divisions(graph, replace(space, mixed=True))]
    plans = [*replace(space, mixed=True).plans_of(graph, mixed)]
    assert "a: devices 0 to 1; b: 50% of devices 2 to 3; c: 50% of devices 2 to 3" in map(
        str, plans
    )


def test_modules_that_belong_together_are_in_one_group() -> None:
    graph = ModuleGraph(tuple(map(GraphModule, "abc")), waits=True, together=(("a", "c"),))
    divisions = [*list_divisions(graph, GroupSpace(2, quotas=(0.5,)))]
    assert divisions == [((("a", "b", "c"),),), ((("a", "c"), ("b",)),), ((("a", "c"),), (("b",),))]


def test_partitions_are_counted_by_the_numbers_of_bell() -> None:
    assert [len([*list_partitions(range(n))]) for n in range(7)] == [1, 1, 2, 5, 15, 52, 203]


def test_divisions_are_in_the_order_of_the_graph() -> None:
    graph = ModuleGraph(tuple(map(GraphModule, "abc")))
    assert order_division(graph, [[("c", "b"), ()], [], [("a",)]]) == ((("a",),), (("b", "c"),))
