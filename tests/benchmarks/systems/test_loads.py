"""Loads of encoders: what they cost, and what an encoder's own microbatches feed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.systems.loads import UnevenLoads, even_feeds, workload_of_load
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.memory import layer_residual_bytes
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small


def timing(workload: Workload, name: str = "vision") -> ModuleTiming:
    plans = dict.fromkeys(workload.modules, ParallelPlan(data=2))
    return ModuleTiming(workload, Strategy(plans, 4), small.hardware(), name)


@given(st.integers(1, 20))
def test_so_many_times_the_positions_take_so_many_times_the_time_and_memory(times: int) -> None:
    once = small.workload()
    more = workload_of_load(once, {"vision": times * once.positions["vision"]})
    layers = [timing(own).compute_seconds(timing(own).profile.layer) for own in (once, more)]
    assert layers[1] == pytest.approx(times * layers[0])
    assert layer_residual_bytes(timing(more)) == pytest.approx(
        times * layer_residual_bytes(timing(once))
    )
    assert timing(more, "decoder").block_seconds == timing(once, "decoder").block_seconds


def test_an_encoder_without_a_load_is_named() -> None:
    with pytest.raises(ValueError, match="no load for vision; valid: 1 position"):
        workload_of_load(small.workload(), {"vision": 0})


@given(load=st.integers(1, 50), positions=st.integers(1, 60), count=st.integers(1, 12))
def test_own_microbatches_feed_all_that_they_hold_a_part_of(
    load: int, positions: int, count: int
) -> None:
    owners = [m for m in range(count) for _ in range(load)]
    held = [owners[start : start + positions] for start in range(0, len(owners), positions)]
    assert even_feeds(load, positions, count) == tuple((own[0], own[-1]) for own in held)


def test_a_loaded_workload_has_the_microbatches_of_the_decoder() -> None:
    own = replace(
        small.workload(), microbatch_counts={"vision": 2}, spread={"vision": 2}, adaptive=True
    )
    found = workload_of_load(own, {"vision": 96})
    assert (found.microbatch_counts, found.spread, found.adaptive) == ({}, {}, False)
    assert found.positions == {"decoder": 32, "vision": 96}
    assert found.pairs == {"vision": pytest.approx(64 / 96)}


def test_uneven_rows_are_means_of_the_rows_of_a_replica() -> None:
    own = UnevenLoads({"vision": np.arange(8.0).reshape(1, 8)})
    assert own.steps == 1
    found = own.work_of(2, 2)["vision"]
    assert found.tolist() == [[[0.5, 2.5]], [[4.5, 6.5]]]
