"""Systems that take samples as they arrive: the slowest replica sets the pace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.systems.chain import LayerChain, run_balanced
from benchmarks.systems.loads import UnevenLoads, workload_of_load
from benchmarks.systems.planned import PlannedSystem, list_searches
from scheduling.costs.strategy import Strategy
from sharding.plan import ParallelPlan
from tests.benchmarks.systems.test_planned import LOADS, NAMES, question, system
from tests.scheduling import workloads as small

ROWS = 16


@st.composite
def rows(draw: st.DrawFn) -> UnevenLoads:
    """Rows that bring as much as even ones in the mean, in every rotation: a step of each."""
    drawn = st.lists(st.integers(0, 9), min_size=ROWS, max_size=ROWS).filter(any)
    shares = np.array(draw(drawn), np.float64)
    return UnevenLoads(
        {"vision": np.array([np.roll(shares / shares.mean(), n) for n in range(ROWS)])}
    )


def under(own: PlannedSystem, uneven: UnevenLoads | None) -> PlannedSystem:
    return own.with_workload(workload_of_load(question().usual, {"vision": LOADS[1]}), uneven)


@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_take_what_even_rows_take(name: str) -> None:
    equal = UnevenLoads({"vision": np.ones((3, ROWS))})
    own = system(name)
    assert under(own, equal).seconds == pytest.approx(under(own, None).seconds)


@pytest.mark.parametrize("name", NAMES)
def test_more_work_in_every_row_is_a_larger_load(name: str) -> None:
    more = UnevenLoads({"vision": np.full((2, ROWS), 4.0)})
    load = question().usual, {"vision": 4 * LOADS[1]}
    larger = system(name).with_workload(workload_of_load(*load)).seconds
    assert under(system(name), more).seconds == pytest.approx(larger, rel=1e-6)
    assert larger > under(system(name), None).seconds


@pytest.mark.parametrize("name", ["megatron", "apart", "balanced"])
@settings(max_examples=15, deadline=None)
@given(uneven=rows())
def test_unequal_rows_take_no_less_than_even_ones(name: str, uneven: UnevenLoads) -> None:
    """A step is the longest of sums of its tasks, whose mean is no less than that of mean tasks."""
    own = system(name)
    assert under(own, uneven).seconds >= under(own, None).seconds * (1 - 1e-9)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None)
@given(uneven=rows(), more=st.integers(0, ROWS - 1))
def test_a_heavier_row_makes_no_step_shorter(name: str, uneven: UnevenLoads, more: int) -> None:
    heavier = uneven.shares["vision"].copy()
    heavier[:, more] += 2
    own = system(name)
    longer = under(own, UnevenLoads({"vision": heavier})).seconds
    assert longer >= under(own, uneven).seconds * (1 - 1e-9)


def test_rows_go_to_microbatches_and_then_to_replicas_in_their_order() -> None:
    uneven = UnevenLoads({"vision": np.arange(8.0)[None]})
    assert uneven.work_of(2, 2)["vision"].tolist() == [[[0.5, 2.5]], [[4.5, 6.5]]]


def test_the_slowest_replica_sets_the_pace() -> None:
    """All work of the encoders on one of four replicas takes as long as four times it on all."""
    strategy = Strategy({"decoder": ParallelPlan(data=4)}, 4)
    once = workload_of_load(small.workload(ROWS), {"vision": 64})
    one = np.zeros((1, 4, 4))
    one[..., 1] = 4
    heavy = UnevenLoads({"vision": one.reshape(1, ROWS)})
    own = run_balanced(LayerChain(once, strategy, small.hardware()))
    assert own.with_workload(once, heavy).seconds == pytest.approx(
        own.with_workload(workload_of_load(once, {"vision": 256})).seconds, rel=1e-6
    )


def test_a_search_knows_that_rows_are_uneven() -> None:
    """Of rows that fill one replica at a time, plans with fewer replicas lose less."""
    whole = question()
    shares = np.zeros((1, ROWS))
    shares[0, 0] = ROWS
    uneven = UnevenLoads({"vision": shares})
    found = list_searches(replace(whole, uneven=uneven))["balanced"]()
    even = list_searches(whole)["balanced"]()
    assert found.seconds <= even.with_workload(whole.usual, uneven).seconds * (1 + 1e-9)
    assert found.seconds > even.seconds
