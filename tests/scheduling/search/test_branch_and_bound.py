"""The search against trying everything, its bounds, and what more of something does to a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.costs.hardware import Hardware, HardwareLink
from scheduling.costs.memory import least_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.schedule import ScheduleError
from scheduling.search import bounds as of_bounds
from scheduling.search import scheduler as of_make
from scheduling.search.bounds import LowerBounds, least_compute, least_state, lower_bound
from scheduling.search.branch_and_bound import (
    MEMORY_TOLERANCE,
    SHARED_PLAN,
    find_fitting,
    find_leanest,
    search_space,
)
from scheduling.search.outcome import SearchOutcome, memory_of
from scheduling.search.scheduler import Scheduler, make_schedule, seconds_on
from scheduling.search.space import Space, backbone_families, encoder_plans, family_members
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

#: Sums in another order.
ROUNDING = 1 + 1e-9
#: Links that cost nothing.
FREE = HardwareLink(bandwidth=1e30, latency=0)
#: Why a strategy that is simulated may be refused.
LARGER = "more memory than there is"
COUNTS = st.sampled_from([4, 2, 8])


def everything(
    space: Space, workload: Workload, hardware: Hardware
) -> Iterator[tuple[Strategy, SearchOutcome]]:
    """All strategies of all families that have a schedule, each with its family."""
    scheduler = Scheduler(workload, hardware)
    for family in backbone_families(space, workload):
        for member in family_members(space, workload, family):
            try:
                yield family, small.evaluate_strategy(member, scheduler)
            except ScheduleError:
                continue


@st.composite
def spaces(draw: st.DrawFn, workload: Workload) -> Space:
    """A part of all strategies of a few devices, at most some two hundred."""
    part = {
        "remats": (draw(st.sampled_from(["layer", "full", "none"])),),
        "stages": draw(st.sampled_from([(1, 2), (2,), (4, 1)])),
        "tensors": draw(st.sampled_from([(1, 2), (4, 1), (2,)])),
        "contexts": draw(st.sampled_from([(1,), (2,), (1, 2)])),
        "chunks": draw(st.sampled_from([(1,), (1, 2)])),
        "pad": draw(st.booleans()),
    }
    return small.space(draw(COUNTS), workload, **part)


# ---- the search ----------------------------------------------------------------------------------


def test_what_has_no_room_is_counted_and_the_leanest_is_found() -> None:
    """With room for a result of every decoder plan, no strategy is left out for being slow."""
    workload, hardware = small.workload(rows=4), small.hardware()
    part: dict[str, Any] = {"counts": (2,), "tensors": (1,), "stages": (2,), "chunks": (1,)}
    space = small.space(2, workload, remats=("layer",), kinds=(), **part)
    scheduler, bounds = Scheduler(workload, hardware), LowerBounds(workload, hardware)
    every = [own for _, own in everything(space, workload, hardware)]
    pairs = [(bounds.memory_of(own.strategy), own.memory.total) for own in every]
    over = next(total - 1 for bound, total in pairs if bound < total - 1)
    for memory in (over, max(total for _, total in pairs)):
        tried = [total for bound, total in pairs if bound <= memory]
        large = sum(total > memory for total in tried)
        assert (large > 0) == (memory == over)
        found = search_space(replace(space, memory=memory), scheduler, top=9)
        assert (found.simulated, found.refused.get(LARGER, 0)) == (len(tried), large)
    lean, least = find_leanest(space, scheduler), min(total for _, total in pairs)
    assert lean is not None
    assert least <= lean[1] <= least * (1 + MEMORY_TOLERANCE)


@settings(max_examples=12)
@given(st.data())
def test_nothing_is_faster_than_what_is_found_nor_than_its_bounds(data: st.DataObject) -> None:
    workload, hardware = data.draw(small.workloads(most=1)), data.draw(small.devices())
    space = data.draw(spaces(workload))
    tried = []
    for family, outcome in everything(space, workload, hardware):
        undercuts_no_bound(family, outcome, workload, hardware)
        tried.append(outcome)
    bytes_ = sorted(outcome.memory.total for outcome in tried)
    # None fits, some fit, all fit.
    memory = data.draw(st.sampled_from([0.0, *bytes_[:1], *bytes_[len(bytes_) // 2 :][:1], 1e12]))
    space = replace(space, memory=memory)
    top = data.draw(st.sampled_from([1, 3]))
    best: dict[ParallelPlan, float] = {}
    for outcome in tried:
        if outcome.memory.total <= memory:
            plan = outcome.strategy.backbone
            best[plan] = min(outcome.seconds, best.get(plan, outcome.seconds))
    scheduler = Scheduler(workload, hardware)
    some = find_fitting(space, scheduler)
    assert some[1] <= memory if some else not best
    found = search_space(space, scheduler, top)
    # A strategy that is faster by the last bit alone may have a bound that is rounded up to a tie.
    fastest = pytest.approx(sorted(best.values())[:top], rel=1e-12)
    assert [own.seconds for own in found.best] == fastest
    assert all(own.memory.total <= memory for own in found.best)
    assert len({own.strategy.backbone for own in found.best}) == len(found.best)
    if tried and not found.best:
        lean = find_leanest(space, scheduler)
        assert lean is not None
        assert memory < bytes_[0] <= lean[1] <= bytes_[0] * (1 + MEMORY_TOLERANCE)
    assert found.simulated <= len(tried)


def test_a_search_may_end_when_little_can_be_gained() -> None:
    workload, hardware = small.workload(), small.hardware()
    space, scheduler = small.space(8, workload), Scheduler(workload, hardware)
    fastest = search_space(space, scheduler)
    for within in (0.02, 0.2, 0.6):
        found = search_space(space, scheduler, within=within)
        assert found.best[0].seconds * (1 - within) <= fastest.best[0].seconds
        assert found.simulated < fastest.simulated


def test_what_other_searches_have_found_counts() -> None:
    """The search finds nothing slower than a known strategy, whatever it misses."""
    workload, hardware = small.workload(), small.hardware()
    space, scheduler = small.space(8, workload), Scheduler(workload, hardware)
    fastest = search_space(space, scheduler)
    part = replace(space, stages=(2,), placements=("prologue",))
    known = search_space(part, scheduler).best
    for within in (0.0, 0.6):
        found = search_space(space, scheduler, within=within, known=known)
        assert found.best[0].seconds <= known[0].seconds
    again = search_space(space, scheduler, known=fastest.best)
    assert again.best[0].seconds == fastest.best[0].seconds
    assert again.simulated <= fastest.simulated


@pytest.mark.slow
def test_plans_of_several_encoders_that_are_shared_alike_are_simulated_once() -> None:
    """The found plan is at most a hundredth slower than the best of all plans."""
    encoders = [("vision", 64, 4), ("audio", 32, 4)]
    workload, hardware = small.workload(rows=8, encoders=encoders), small.hardware()
    part: dict[str, Any] = {"stages": (2,), "tensors": (1, 2), "contexts": (1,), "chunks": (1,)}
    space = small.space(4, workload, remats=("layer",), **part)
    tried = [outcome.seconds for _, outcome in everything(space, workload, hardware)]
    found = search_space(space, Scheduler(workload, hardware))
    assert found.refused[SHARED_PLAN] > 0
    assert min(tried) <= found.best[0].seconds <= min(tried) * 1.01
    assert found.simulated < len(tried) / 3


def test_effort_is_not_spent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules that a search makes, and bounds that are worked out anew when all is known."""
    counts = Counter[str]()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            counts[name] += 1
            return function(*given, **more)

        return call

    for name in ("lower_bound", "backbone_seconds", "least_memory"):
        monkeypatch.setattr(of_bounds, name, counted(name, getattr(of_bounds, name)))
    workload, hardware = small.workload(), small.hardware()
    space, shared = small.space(8, workload), LowerBounds(workload, hardware)
    make = counted("schedules", of_make.make_schedule)
    monkeypatch.setattr(of_make, "make_schedule", make)
    scheduler = Scheduler(workload, hardware)
    found = search_space(space, scheduler, bounds=shared)
    first = Counter(counts)
    assert first["schedules"] <= 20
    known = search_space(space, scheduler, known=found.best, bounds=shared)
    assert known.best[0].seconds == found.best[0].seconds
    assert counts["schedules"] < 1.5 * first["schedules"]
    assert {name: counts[name] for name in first if name != "schedules"} == {
        name: count for name, count in first.items() if name != "schedules"
    }


def test_most_strategies_are_never_simulated() -> None:
    workload, hardware = small.workload(), small.hardware()
    space = small.space(8, workload)
    found = search_space(space, Scheduler(workload, hardware))
    count = sum(
        1
        for family in backbone_families(space, workload)
        for _ in family_members(space, workload, family)
    )
    assert found.simulated < count / 20
    assert found.refused["slower, by their lower bounds"] > found.families / 2


def test_the_leanest_strategy_is_named_where_none_fits() -> None:
    workload, hardware = small.workload(rows=4), small.hardware()
    space = small.space(4, workload, memory=1e4)
    scheduler = Scheduler(workload, hardware)
    assert search_space(space, scheduler).best == ()
    found = find_leanest(space, scheduler)
    assert found is not None
    strategy, memory = found
    assert set(strategy.plans) == {"decoder", "vision"}
    # So much, and no less, is enough.
    (one,) = search_space(replace(space, memory=memory), scheduler).best
    assert one.memory.total == memory
    less = memory / (1 + MEMORY_TOLERANCE) - 1
    assert not search_space(replace(space, memory=less), scheduler).best


def test_the_fastest_decoder_plans_come_in_order() -> None:
    workload, hardware = small.workload(), small.hardware()
    scheduler = Scheduler(workload, hardware)
    space = small.space(4, workload, remats=("layer",), stages=(1, 2), chunks=(1,))
    plans = {family.backbone for family in backbone_families(space, workload)}
    found = search_space(space, scheduler, top=100).best
    assert {own.strategy.backbone for own in found} == plans
    assert len(found) == len(plans)
    seconds = [own.seconds for own in found]
    assert seconds == sorted(seconds)
    for top in (1, 2, 4):
        fewer = search_space(space, scheduler, top).best
        assert [own.strategy for own in fewer] == [own.strategy for own in found[:top]]


# ---- bounds --------------------------------------------------------------------------------------


def undercuts_no_bound(
    family: Strategy, outcome: SearchOutcome, workload: Workload, hardware: Hardware
) -> None:
    """A step takes as long, and as much memory, as the bounds of its family and its own say."""
    member = outcome.strategy.with_source_chunks({})
    of_family, bound = (lower_bound(workload, own, hardware) for own in (family, member))
    devices = family.backbone.devices
    least = least_compute(workload, devices, [family.remat], hardware)
    assert least <= outcome.seconds * ROUNDING, member
    assert least_state(workload, devices) <= outcome.memory.total * ROUNDING, member
    assert of_family <= bound * ROUNDING, member
    assert bound <= outcome.seconds * ROUNDING, member
    of_family, bound = (least_memory(workload, own, hardware) for own in (family, member))
    assert of_family <= bound * ROUNDING, member
    assert bound <= outcome.memory.total * ROUNDING, member


def test_the_bound_of_memory_leaves_the_chunks_of_encoders_open() -> None:
    """Tasks of fewer layers work with less than those of all layers of an encoder."""
    workload = small.workload(2, 16, encoders=[("vision", 64, 4)])
    hardware = small.hardware(platform="gpu")
    plans = {"decoder": ParallelPlan(stage=2, tensor=2), "vision": ParallelPlan(data=4)}
    strategy = Strategy(plans, microbatches=2, remat="layer", chunks={"vision": 4})
    schedule = make_schedule(workload, strategy, seconds_on(hardware))
    memory = memory_of(workload, strategy, hardware, schedule).total
    bound = least_memory(workload, replace(strategy, chunks={}), hardware)
    assert 0.8 * memory < bound <= memory


def test_the_bound_leaves_out_what_tensor_groups_share() -> None:
    """Adding the gradients of wide layers up takes long; tensor ranks have their parts of them."""
    workload = small.workload(2, 16, encoders=[("vision", 256, 4)])
    hardware = small.hardware(platform="cpu", memory_bandwidth=1e7, link=FREE, network=FREE)
    space = small.space(4, workload, remats=("layer",), stages=(1,))
    for family, outcome in everything(space, workload, hardware):
        assert lower_bound(workload, family, hardware) <= outcome.seconds, outcome.strategy


def test_the_bound_leaves_out_what_pieces_of_frozen_encoders_compute_again() -> None:
    """The last piece alone, for the backward of the connector."""
    workload = small.workload(32, encoders=[("vision", 256, 4)], frozen=frozenset({"vision"}))
    hardware = small.hardware(link=FREE, network=FREE)
    plans = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}
    strategy = Strategy(plans, microbatches=32, chunks={"vision": 4}, co_issue=False)
    outcome = small.evaluate_strategy(strategy, Scheduler(workload, hardware))
    bound = lower_bound(workload, strategy, hardware)
    assert 0.9 * outcome.seconds < bound <= outcome.seconds


@settings(max_examples=12)
@given(st.data())
def test_the_bound_of_a_decoder_alone_is_its_step(data: st.DataObject) -> None:
    workload, hardware = small.workload(encoders=()), data.draw(small.devices())
    space = small.space(data.draw(COUNTS), workload, pad=data.draw(st.booleans()))
    for family, outcome in everything(space, workload, hardware):
        if not outcome.strategy.co_issue:
            bound = lower_bound(workload, family, hardware)
            assert bound == pytest.approx(outcome.seconds), family


def test_the_bound_of_encoders_is_reached_where_they_fill_all_that_is_idle() -> None:
    workload = small.workload(rows=32, encoders=[("vision", 64, 4)])
    hardware = small.hardware()
    plans = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}
    strategy = Strategy(plans, microbatches=32, co_issue=False)
    outcome = small.evaluate_strategy(strategy, Scheduler(workload, hardware))
    bound = lower_bound(workload, strategy, hardware)
    assert bound <= outcome.seconds < 1.05 * bound


# ---- more of something ---------------------------------------------------------------------------


def best(space: Space, workload: Workload, hardware: Hardware) -> float:
    """Seconds of the best plan; infinite if none fits."""
    found = search_space(space, Scheduler(workload, hardware)).best
    return found[0].seconds if found else float("inf")


@settings(max_examples=4)
@given(st.data())
def test_more_memory_never_makes_the_best_plan_slower(data: st.DataObject) -> None:
    workload, hardware = data.draw(small.workloads()), data.draw(small.devices())
    space = small.space(4, workload, gathers=("step",))
    seconds = [best(replace(space, memory=m), workload, hardware) for m in (1e5, 3e5, 1e6, 1e9)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] < float("inf")


def faster(hardware: Hardware) -> Iterator[Hardware]:
    """Four times as much of one thing each."""
    yield hardware.model_copy(update={"memory_bandwidth": 4 * hardware.memory_bandwidth})
    yield hardware.model_copy(update={"flops": {n: 4 * f for n, f in hardware.flops.items()}})
    for name in ("link", "network"):
        link = getattr(hardware, name)
        more = link.model_copy(update={"bandwidth": 4 * link.bandwidth})
        yield hardware.model_copy(update={name: more})


@settings(max_examples=4)
@given(st.data())
def test_faster_devices_and_links_never_make_the_best_plan_slower(data: st.DataObject) -> None:
    workload, hardware = data.draw(small.workloads(most=1)), data.draw(small.devices())
    space = small.space(4, workload, remats=("layer",), gathers=("step",))
    usual = best(space, workload, hardware)
    for better in faster(hardware):
        assert best(space, workload, better) <= usual * ROUNDING


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_more_devices_never_make_the_best_plan_slower_if_links_cost_nothing(devices: int) -> None:
    workload, hardware = small.workload(rows=4), small.hardware(link=FREE, network=FREE)
    spaces = [small.space(n, workload, remats=("layer",)) for n in (devices, 2 * devices)]
    few, many = (best(space, workload, hardware) for space in spaces)
    assert many <= few * ROUNDING


@settings(max_examples=3)
@given(st.data())
def test_more_devices_never_make_the_best_plan_slower(data: st.DataObject) -> None:
    """However slow links are: what does not pay is left idle."""
    workload, hardware = data.draw(small.workloads(most=1)), data.draw(small.devices())
    network = HardwareLink(bandwidth=data.draw(st.sampled_from([1e6, 1e5, 1e7])), latency=1e-3)
    hardware = hardware.model_copy(update={"network": network})
    changes: dict[str, Any] = {"remats": ("layer",), "pad": data.draw(st.booleans())}
    spaces = [small.space(n, workload, **changes) for n in range(1, 9)]
    seconds = [best(space, workload, hardware) for space in spaces]
    assert all(many <= few * ROUNDING for few, many in pairwise(seconds))
    assert seconds[0] < float("inf")


def test_devices_behind_slow_links_are_left_idle() -> None:
    """Two domains of two devices: the gradients, or a tensor group, must cross the slow network."""
    workload = small.workload(rows=4, layers=2, encoders=())
    hardware = small.hardware(domain=2, network=HardwareLink(bandwidth=1e6, latency=0))
    scheduler, space = Scheduler(workload, hardware), small.space(4, workload)
    (found,) = search_space(space, scheduler).best
    assert found.strategy.backbone.devices == 2
    assert best(replace(space, counts=(4,)), workload, hardware) > 1.2 * found.seconds


def test_all_numbers_of_devices_are_looked_at() -> None:
    """Three rows keep three devices of four busy."""
    workload, hardware = small.workload(rows=3), small.hardware(link=FREE, network=FREE)
    space = small.space(4, workload, tensors=(1,), stages=(1,))
    (found,) = search_space(space, Scheduler(workload, hardware)).best
    assert found.strategy.backbone.devices == 3


def test_numbers_of_devices_are_refused_by_their_own_bounds() -> None:
    workload, hardware = small.workload(rows=8), small.hardware(link=FREE, network=FREE)
    space = small.space(8, workload, tensors=(1,), stages=(1,))
    scheduler = Scheduler(workload, hardware)
    found = search_space(space, scheduler)
    alone = search_space(replace(space, counts=(8,)), scheduler)
    # Of 1, 2 and 4 devices nothing is enumerated.
    assert found.refused["numbers of devices: slower, by what each would compute"] == 3
    assert found.families == alone.families
    memory = least_state(workload, 4) * 0.9
    found = search_space(replace(space, memory=memory), scheduler)
    large = "numbers of devices: more memory than there is, by the parameters of each"
    assert found.refused[large] == 3


# ---- what is enumerated --------------------------------------------------------------------------


def test_degrees_multiply_to_devices_that_there_are_and_divide_what_they_split() -> None:
    workload = small.workload(rows=8, layers=6)
    space = small.space(8, workload)
    families = list(backbone_families(space, workload))
    assert len(families) == len({str(family) for family in families})
    for family in families:
        plan = family.backbone
        assert workload.rows % (plan.batch * family.microbatches) == 0
        assert 6 % (plan.stage * family.backbone_chunks) == 0
    assert {family.backbone.devices for family in families} == {8, 6, 4, 3, 2, 1}
    assert {family.backbone.stage for family in families} == {1, 2, 3, 6}
    padded = backbone_families(replace(space, pad=True), workload)
    assert {family.backbone.stage for family in padded} == {1, 2, 3, 4, 5, 6}


def test_stages_and_chunks_have_whole_periods_of_layers() -> None:
    plain = small.workload(rows=8, layers=6)
    decoder = replace(plain.modules["decoder"], period=2)
    workload = replace(plain, modules={**plain.modules, "decoder": decoder})
    space = small.space(8, workload)
    runs = {own.backbone.stage * own.backbone_chunks for own in backbone_families(space, workload)}
    assert runs == {1, 3}
    padded = backbone_families(replace(space, pad=True), workload)
    assert {own.backbone.stage for own in padded} == {1, 2, 3}
    assert [decoder.per_run(n) for n in (1, 2, 3)] == [6, 4, 2]


def test_counts_choose_numbers_of_devices() -> None:
    workload = small.workload(rows=8, layers=6)
    space = small.space(8, workload)
    families = list(map(str, backbone_families(space, workload)))
    parts = [
        list(backbone_families(replace(space, counts=(count,)), workload))
        for count in range(8, 0, -1)
    ]
    assert [str(family) for part in parts for family in part] == families
    assert all(family.backbone.devices == 8 for family in parts[0])
    assert not parts[1]
    assert not list(backbone_families(replace(space, counts=(16,)), workload))


def test_rows_that_are_too_few_for_the_devices_are_split() -> None:
    workload, hardware = small.workload(rows=1, encoders=()), small.hardware()
    usual = small.space(4, workload, stages=(1,), tensors=(1,))
    one, four = (
        search_space(space, Scheduler(workload, hardware)).best[0]
        for space in (usual, replace(usual, contexts=(1, 2, 4)))
    )
    assert one.strategy.backbone == ParallelPlan()
    assert four.strategy.backbone == ParallelPlan(context=4)
    assert 2 < one.seconds / four.seconds < 4
    within = replace(usual, contexts=(1, 2, 4), domain=2)
    assert {family.backbone.context for family in backbone_families(within, workload)} == {1, 2}


def test_encoders_use_context_ranks_for_rows_or_split_rows_alike() -> None:
    workload = small.workload(rows=8)
    space = small.space(8, workload, contexts=(1, 2))
    plan = ParallelPlan(stage=2, context=2, tensor=2)
    plans = encoder_plans(space, workload, Strategy({"decoder": plan}, microbatches=2), "vision")
    degrees = {(plan.stage, plan.context, plan.tensor) for plan in plans}
    inner = {(1, 1), (1, 2), (2, 2)}
    assert degrees == {(stage, *own) for stage in (1, 2) for own in inner}


def test_encoders_have_groups_within_the_decoders() -> None:
    workload = small.workload(rows=8)
    space = small.space(8, workload)
    family = Strategy({"decoder": ParallelPlan(fsdp=2, stage=2, tensor=2)}, microbatches=2)
    plans = encoder_plans(space, workload, family, "vision")
    assert {(plan.stage, plan.tensor) for plan in plans} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert all(plan.devices == 8 for plan in plans)
    by_layer = encoder_plans(space, workload, replace(family, gather="layer"), "vision")
    assert {plan.fsdp for plan in by_layer} == {1}


# ---- experts -------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(st.data())
def test_nothing_is_faster_than_the_degrees_of_experts_that_are_found(data: st.DataObject) -> None:
    frozen = data.draw(st.sampled_from([frozenset[str](), frozenset({"decoder"})]))
    plain = small.workload(4, layers=data.draw(st.sampled_from([2, 4])), encoders=(), frozen=frozen)
    share, buffer = data.draw(st.sampled_from([0.5, 1.0])), data.draw(st.sampled_from([0.5, 1.25]))
    workload, hardware = small.with_experts(plain, share, buffer), data.draw(small.devices())
    part: dict[str, Any] = {"stages": (1, 2), "contexts": (1, 2), "tensors": (1,), "chunks": (1,)}
    remats: list[Remat] = [data.draw(st.sampled_from(get_args(Remat)))]
    space = small.space(4, workload, experts=(1, 2, 4), remats=tuple(remats), **part)
    tried = [own for _, own in everything(space, workload, hardware)]
    assert {own.strategy.backbone.expert for own in tried} == {1, 2, 4}
    found = search_space(space, Scheduler(workload, hardware))
    assert found.best[0].seconds == min(own.seconds for own in tried)
    for own in tried:
        assert lower_bound(workload, own.strategy, hardware) <= own.seconds * ROUNDING
        assert least_memory(workload, own.strategy, hardware) <= own.memory.total * ROUNDING
        devices = own.strategy.backbone.devices
        assert least_compute(workload, devices, remats, hardware) <= own.seconds * ROUNDING
        assert least_state(workload, devices) <= own.memory.total * ROUNDING


def test_ranks_share_experts_where_tokens_move_in_less_time_than_experts() -> None:
    """There is room only for divided state; fsdp ranks gather all experts in every layer."""
    workload = small.with_experts(small.workload(encoders=()))
    space = small.space(
        4, workload, stages=(1,), tensors=(1,), experts=(1, 2, 4), memory=8e6, remats=("none",)
    )
    for link, sharers in ((HardwareLink(bandwidth=4e6, latency=0), 2), (FREE, 1)):
        scheduler = Scheduler(workload, small.hardware(link=link))
        found = search_space(space, scheduler).best[0].strategy.backbone
        assert (found.devices, found.expert) == (4, sharers)
