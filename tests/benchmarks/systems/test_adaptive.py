"""A strategy that follows its load: one program for all, within its memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.systems.mixture.adaptive import (
    LEAST_FIRST,
    AdaptiveStrategy,
    _remat_choices,
    search_adaptive,
)
from scheduling.costs.hardware import HardwareLink
from scheduling.costs.strategy import Strategy
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import Remat
from scheduling.schedules.bubbles import lower_bound
from scheduling.schedules.check import check_schedule
from scheduling.schedules.schedule import ScheduleError
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

#: Positions of a row of an encoder's own microbatches are 64; the full load needs four of them.
USUAL, FULL = {"vision": 96}, {"vision": 256}
MEMORY = 1e9


@cache
def found(memory: float = MEMORY, *loads: int) -> AdaptiveStrategy:
    workload = small.workload(16, microbatch_counts={"vision": 4})
    space = small.space(4, workload, memory=memory, stages=(2, 4), counts=(4,))
    given = [{"vision": load} for load in loads] or [USUAL]
    return search_adaptive(space, workload, small.hardware(), given, lambda *_: None)


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 256))
@example(256)
def test_one_program_runs_every_load_up_to_the_full_one(load: int) -> None:
    own = found()
    made = own.fitting_schedule([own.feeds_of({"vision": load})])
    assert made is not own.full_load_schedule
    check_schedule(made)
    program = lower_schedule(made, own.strategy.remat, own.strategy.remats)
    assert own.bounds.find_excess(program) is None
    seconds = own.simulate_schedule(made).makespan
    assert seconds >= lower_bound(made, own.times.costs) * (1 - 1e-9)


def test_a_load_that_does_not_fit_runs_as_if_encoders_were_full() -> None:
    own = found()
    assert own.fitting_schedule([own.feeds_of({"vision": 64 * 16})]) is own.full_load_schedule
    usual = own.feeds_of(USUAL)
    assert own.fitting_schedule([own.feeds_of({"vision": 64 * 16}), usual]) == own.fitting_schedule(
        [usual]
    )


def test_the_program_has_the_units_of_the_budgets() -> None:
    """Not those of a load: a training run compiles for every load that its budgets allow."""
    own = found()
    units = {name: 2 * count for name, count in own.workload.microbatch_counts.items()}
    larger = replace(own, workload=replace(own.workload, microbatch_counts=units))
    assert own.bounds.feed_of("vision").per_target == 4
    assert larger.bounds.modules["vision"].slots == 2 * own.bounds.modules["vision"].slots
    assert larger.memory.sources > own.memory.sources


def test_less_memory_makes_another_program() -> None:
    whole = found()
    needed = whole.memory.total
    assert needed <= MEMORY
    less = found(needed - 1)
    assert less.memory.total < needed
    assert less.step_seconds(USUAL) >= whole.step_seconds(USUAL) * (1 - 1e-9)


def test_the_strategy_is_the_fastest_in_the_mean_over_loads() -> None:
    """Whatever is found for one of the loads alone, or for their mean, is not faster there."""
    few, many = 4, 256
    own, *others = (found(MEMORY, *loads) for loads in ((few, many), (few,), (many,), (130,)))
    means = [
        one.step_seconds({"vision": few}) + one.step_seconds({"vision": many})
        for one in (own, *others)
    ]
    assert means[0] <= min(means[1:]) * (1 + 1e-9)
    assert own.strategy != others[1].strategy or own.strategy != others[0].strategy


def test_without_room_the_reason_is_told() -> None:
    with pytest.raises(ScheduleError, match="no strategy with stages has room"):
        found(1.0)


def test_no_rematerialisation_of_the_encoders_alone_is_faster() -> None:
    """The search has tried the others; with room for all, nothing is computed again."""
    own = found()
    remats: dict[str, Remat] = dict.fromkeys(own.strategy.remats, "full")
    again = AdaptiveStrategy(own.workload, replace(own.strategy, remats=remats), own.hardware)
    assert own.strategy.remats == {"vision": "none"}
    assert own.step_seconds(USUAL) <= again.step_seconds(USUAL)


def test_an_encoder_is_distributed_over_ranks_that_share_a_row() -> None:
    """A row of the decoder on two tensor ranks becomes two rows of the encoder, one on each."""
    workload = small.workload(4, microbatch_counts={"vision": 5})
    space = small.space(4, workload, memory=MEMORY, stages=(2,), tensors=(2,), counts=(4,))
    slow = small.hardware(link=HardwareLink(bandwidth=2e7, latency=1e-5))
    own = search_adaptive(space, workload, slow, [FULL], lambda *_: None)
    assert own.strategy.backbone.tensor == 2
    plan, microbatches = own.strategy.plans["vision"], own.strategy.microbatches
    assert (plan.tensor, plan.context) == (1, 1)
    ranks = plan.batch * plan.stage // own.strategy.backbone.stage
    assert own.workload.rows_of("vision", microbatches) == ranks > 4 // microbatches
    assert own.workload.microbatch_counts["vision"] == 3  # of twice as many rows
    # The same plan with tensor ranks in their place communicates in its layers.
    plans = {**own.strategy.plans, "vision": own.strategy.backbone}
    split = replace(own.strategy, plans=plans)
    alike = AdaptiveStrategy(workload, split, own.hardware)
    assert own.step_seconds(FULL) < alike.step_seconds(FULL)


@pytest.mark.slow
def test_encoders_get_stages_where_their_parameters_have_no_room_on_every_rank() -> None:
    """With ever less memory, there are plans that divide the encoder's layers over stages."""
    workload = small.workload(16, encoders=[("vision", 128, 8)], microbatch_counts={"vision": 4})
    space = small.space(4, workload, stages=(2, 4), tensors=(1,), counts=(4,), memory=MEMORY)
    own = search_adaptive(space, workload, small.hardware(), [USUAL], lambda *_: None)
    assert own.strategy.plans["vision"].stage == 1
    while own.strategy.plans["vision"].stage == 1:
        room = own.memory.total - 1
        less = replace(space, memory=room)
        own = search_adaptive(less, workload, small.hardware(), [USUAL], lambda *_: None)
        assert own.memory.total <= room
    check_schedule(own.place_feeds(own.feeds_of(FULL)))


def test_buckets_compute_again_what_their_encoder_does() -> None:
    """A configuration has one key of an encoder for it."""
    workload = replace(
        small.workload(
            encoders=(("short", 32, 4), ("long", 32, 4)),
            buckets={"short": "vision", "long": "vision"},
        ),
        microbatch_counts={"short": 2, "long": 2},
    )
    plans = {"decoder": ParallelPlan(data=2, stage=2)}
    plans |= dict.fromkeys(("short", "long"), ParallelPlan(data=4))
    ways = _remat_choices(workload, small.hardware(), Strategy(plans, microbatches=2))
    found = [(own.strategy.remats["short"], own.strategy.remats["long"]) for own in ways]
    assert found == [(remat, remat) for remat in LEAST_FIRST]
