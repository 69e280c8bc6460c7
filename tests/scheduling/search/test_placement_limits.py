"""Ways to place a step: one of them fits the compiled slots, whatever the load up to the full one.

::

    media of a step  ->  units  ->  what they feed  ->  the first limits that fit
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.planning.independent_microbatches import Ints, plan_independent_microbatches
from scheduling.costs.strategy import Strategy
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.check import check_schedule
from scheduling.schedules.tasks import Consumers
from scheduling.search.scheduler import PlacementLimits, StepScheduler, make_schedule, seconds_on
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

#: Encoders of unlike work, with pieces of which none waits in a slot of its own.
ENCODERS = (("vision", 64, 2), ("audio", 32, 2))
#: Rows of a microbatch, and positions of each in an encoder.
ROWS, POSITIONS = 2, 64
#: Numbers of stages and microbatches; and a step of the first that its first limits do not fit.
SIZES = ((2, 4), (2, 6), (4, 8))
UNEVEN: Mapping[str, Consumers] = {
    "vision": ((0, 3),),
    "audio": ((0, 0), (1, 1), (2, 2), (3, 3)),
}


@cache
def compiled(
    stages: int, microbatches: int, chunks: int = 1, pieces: int = 1
) -> tuple[StepScheduler, ScheduleBounds]:
    """What places steps of these sizes, and what is compiled for them."""
    workload = small.workload(ROWS * microbatches, encoders=ENCODERS)
    plans = {"decoder": ParallelPlan(stage=stages)}
    plans |= {name: ParallelPlan(data=stages) for name in workload.sources}
    cut = {"decoder": chunks, **dict.fromkeys(workload.sources, pieces)}
    strategy = Strategy(plans, microbatches, chunks=cut, remat="none", prefetch=False)
    times = seconds_on(small.hardware())
    standing = lower_schedule(make_schedule(workload, strategy, times), "none")
    return StepScheduler(workload, strategy, times), ScheduleBounds.for_independent_microbatches(
        standing, single_tasks=True
    )


@st.composite
def loads(draw: st.DrawFn, microbatches: int) -> dict[str, list[Ints]]:
    """Media of an encoder in the rows of every microbatch; rows are filled evenly or not."""
    shares = st.sampled_from([0.0, 0.4, 1.0])
    longest, rng = draw(st.integers(4, POSITIONS)), np.random.default_rng(draw(st.integers(0)))
    made = {}
    for name, _, _ in ENCODERS:
        by_row = [draw(shares) for _ in range(ROWS)]
        made[name] = [media(rng, by_row, longest) for _ in range(microbatches)]
    return made


def media(rng: np.random.Generator, shares: list[float], longest: int) -> Ints:
    """Media of a microbatch that fill at most these shares of its rows."""
    found = []
    for row, share in enumerate(shares):
        spans = rng.integers(1, longest, POSITIONS, endpoint=True)
        ends = spans.cumsum()
        fit = zip(ends.tolist(), spans.tolist(), strict=True)
        found += [(row, end - n, n, 1, 1) for end, n in fit if end <= share * POSITIONS]
    return np.array(found, np.int64).reshape(-1, 5)


def fed(load: Mapping[str, list[Ints]], together: bool) -> dict[str, Consumers]:
    """What the units of a load feed."""
    return {
        name: plan_independent_microbatches(own, ROWS, POSITIONS, together=together).feeds
        for name, own in load.items()
    }


def fits(
    sizes: tuple[int, ...], feeds: Mapping[str, Consumers], limits_to_try: list[PlacementLimits]
) -> bool:
    """Whether the schedule of one of the limits fits what is compiled."""
    follow, bounds = compiled(*sizes)
    if any(len(own) > sizes[1] for own in feeds.values()):
        return False
    schedules = (follow(feeds, limits) for limits in limits_to_try)
    return any(bounds.find_excess(lower_schedule(own, "none")) is None for own in schedules)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_load_fits_what_is_compiled(sizes: tuple[int, int], data: st.DataObject) -> None:
    load, limits_to_try = data.draw(loads(sizes[1])), compiled(*sizes)[0].placement_limits()
    assert any(fits(sizes, fed(load, together), limits_to_try) for together in (False, True))


@pytest.mark.parametrize("sizes", [(2, 8), (2, 16), (4, 8)], ids=str)
def test_rows_that_go_on_together_fit_where_nothing_waits(sizes: tuple[int, int]) -> None:
    """The last limits need no others: with one waiting output 1 of 25 such loads does not fit."""
    last, rng = compiled(*sizes)[0].placement_limits()[-1:], np.random.default_rng(0)
    for _ in range(40):
        longest, shares = int(rng.integers(4, POSITIONS)), rng.choice([0.0, 0.4, 1.0], (2, ROWS))
        load = {
            name: [media(rng, own.tolist(), longest) for _ in range(sizes[1])]
            for (name, _, _), own in zip(ENCODERS, shares, strict=True)
        }
        assert fits(sizes, fed(load, together=True), last)


@pytest.mark.parametrize("sizes", [(2, 8, 2, 2), (2, 16, 2, 2), (4, 16, 1, 2)], ids=str)
def test_units_that_share_microbatches_fit_where_nothing_waits(sizes: tuple[int, ...]) -> None:
    """Units that each go on with another microbatch than they began with, some after many."""
    last, rng = compiled(*sizes)[0].placement_limits()[-1:], np.random.default_rng(0)
    for _ in range(20):
        feeds = {
            name: chain(rng, sizes[1], float(rng.choice([0.0, 0.2, 0.6])))
            for name, _, _ in ENCODERS
        }
        assert fits(sizes, feeds, last)


def chain(rng: np.random.Generator, microbatches: int, empty: float) -> Consumers:
    """Units of which a microbatch feeds the last one and a new one, if it is not empty."""
    units: list[tuple[int, int]] = []
    for m in range(microbatches):
        if rng.random() >= empty:
            units[-1:] = [(first, m) for first, _ in units[-1:]]
            units.append((m, m))
    return tuple(units)


def test_a_pipeline_gets_no_more_than_its_slots_hold() -> None:
    """By idle slots, one of two pipelines gets three of four microbatches; it has slots for two."""
    first, turn, *_ = compiled(2, 4)[0].placement_limits()
    assert turn == PlacementLimits(first.max_waiting, in_turn=True)
    assert not fits((2, 4), UNEVEN, [first])
    assert fits((2, 4), UNEVEN, [turn])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_schedules_of_all_ways_are_legal(sizes: tuple[int, int]) -> None:
    follow, count = compiled(*sizes)[0], sizes[1]
    feeds = tuple((m, min(m + 1, count - 1)) for m in range(count))
    for limits in follow.placement_limits():
        check_schedule(follow({name: feeds for name, _, _ in ENCODERS}, limits))


def test_limits_let_ever_fewer_outputs_wait() -> None:
    lives = [limits.max_waiting for limits in compiled(4, 16)[0].placement_limits()]
    assert lives == [8, 8, 6, 4, 1, 0]
