"""Further kinds of schedules in the plan search: taken where they are faster and fit."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.costs.memory import least_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.search.bounds import lower_bound
from scheduling.search.branch_and_bound import search_space
from scheduling.search.scheduler import Scheduler
from scheduling.search.space import Space
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

ROUNDING = 1 + 1e-9
#: Without encoders, on the last number of devices: few microbatches, long bubbles.
TEXT = small.workload(rows=8, encoders=())


def space(workload: Workload, **changes: object) -> Space:
    return small.space(4, workload, stages=(4,), tensors=(1,), **changes)


def test_zero_bubble_is_taken_where_it_is_faster() -> None:
    scheduler = Scheduler(TEXT, small.hardware())
    (plain,) = search_space(space(TEXT), scheduler).best
    (best,) = search_space(space(TEXT, kinds=("zero_bubble",)), scheduler).best
    assert [plain.strategy.kind, best.strategy.kind] == ["1f1b", "zero_bubble"]
    assert best.seconds < plain.seconds


def test_zero_bubble_is_not_taken_without_room() -> None:
    scheduler = Scheduler(TEXT, small.hardware())
    (plain,) = search_space(space(TEXT), scheduler).best
    memory = plain.memory.total
    (best,) = search_space(space(TEXT, kinds=("zero_bubble",), memory=memory), scheduler).best
    assert best.strategy.kind == "1f1b"
    assert best.memory.total <= memory


def test_zero_bubble_is_left_to_bubbles_that_encoders_do_not_fill() -> None:
    workload = small.workload(rows=8, encoders=[("vision", 256, 4)])
    scheduler, changes = (
        Scheduler(workload, small.hardware()),
        {"chunks": (1,), "remats": ("none",)},
    )
    found = [
        search_space(space(workload, kinds=k, **changes), scheduler) for k in ((), ("zero_bubble",))
    ]
    assert found[0].simulated == found[1].simulated
    assert found[1].best[0].strategy.kind == "1f1b"


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_no_step_undercuts_its_bounds(data: st.DataObject) -> None:
    workload, hardware = data.draw(small.workloads(most=1)), data.draw(small.devices())
    stages = data.draw(st.sampled_from([2, 4]))
    tensor = data.draw(st.sampled_from([1, 2]))
    plans = {name: ParallelPlan(tensor=tensor, data=stages) for name in workload.sources}
    plans = {"decoder": ParallelPlan(stage=stages, tensor=tensor), **plans}
    count = data.draw(
        st.sampled_from([n for n in range(1, workload.rows + 1) if not workload.rows % n])
    )
    strategy = Strategy(
        plans,
        count,
        chunks={"decoder": data.draw(st.sampled_from([1, 2]))},
        remat=data.draw(st.sampled_from(["none", "layer", "full"])),
        co_issue=data.draw(st.booleans()),
        kind="zero_bubble",
    )
    outcome = small.evaluate_strategy(strategy, Scheduler(workload, hardware))
    assert lower_bound(workload, strategy, hardware) <= outcome.seconds * ROUNDING
    assert least_memory(workload, strategy, hardware) <= outcome.memory.total * ROUNDING
    plain = replace(strategy, kind="1f1b")
    assert least_memory(workload, plain, hardware) < least_memory(workload, strategy, hardware)
