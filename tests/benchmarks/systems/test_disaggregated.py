"""Encoders on devices of their own: bounds, steps without encoder work, memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.systems.chain import LayerChain
from benchmarks.systems.disaggregated import DisaggregatedSystem
from benchmarks.systems.loads import workload_of_load
from scheduling.costs.strategy import Strategy
from scheduling.schedules.schedule import ScheduleError
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small


def apart(
    stages: int = 2, chunks: int = 1, count: int = 8, ahead: int | None = None, devices: int = 2
) -> DisaggregatedSystem:
    plan = ParallelPlan(stage=stages)
    strategy = Strategy({"decoder": plan}, count, {"decoder": chunks})
    chain = LayerChain(small.workload(), strategy, small.hardware())
    return DisaggregatedSystem(chain, ParallelPlan(data=devices), count if ahead is None else ahead)


@settings(max_examples=25, deadline=None)
@given(
    stages=st.sampled_from([1, 2, 4]),
    chunks=st.sampled_from([1, 2]),
    devices=st.integers(1, 4),
    load=st.integers(1, 4000),
)
def test_a_step_is_no_shorter_than_its_bounds(
    stages: int, chunks: int, devices: int, load: int
) -> None:
    own = apart(stages, chunks if 4 % (stages * chunks) == 0 else 1, devices=devices)
    own = own.with_workload(workload_of_load(own.chain.workload, {"vision": load}))
    assert own.seconds >= own.least_seconds * (1 - 1e-9)
    assert own.seconds >= own.decoder_step.seconds * (1 - 1e-9)
    assert 0 < own.compute_share <= 1


def test_without_work_of_encoders_it_is_the_decoder_alone() -> None:
    own = apart()
    free = replace(own, chain=replace(own.chain, workload=small.workload(encoders=())))
    # Only the first inputs and the last gradients are exchanged with the other devices.
    moved = free.chain.order_times(free.decoder_step.cuts, free.decoder_step.layers).exchange
    assert 0 <= free.seconds - free.decoder_step.seconds <= 2 * moved * (1 + 1e-9)


def test_a_heavy_encoder_sets_the_pace() -> None:
    own = apart()
    heavy = own.with_workload(workload_of_load(own.chain.workload, {"vision": 100_000}))
    each = heavy.encoder_forward.seconds + heavy.encoder_backward.seconds
    assert heavy.seconds == pytest.approx(8 * each, rel=0.1)


def test_forwards_ahead_take_memory_and_too_few_never_end() -> None:
    few, many = apart(ahead=2), apart(ahead=8)
    heavy = [
        own.with_workload(workload_of_load(own.chain.workload, {"vision": 100_000}))
        for own in (few, many)
    ]
    assert heavy[0].memory < heavy[1].memory
    with pytest.raises(ScheduleError):
        _ = apart(stages=4, ahead=1).seconds
