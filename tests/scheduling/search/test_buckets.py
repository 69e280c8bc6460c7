"""Buckets of an encoder in a search: plans of their own, and parameters that are one encoder's."""

from __future__ import annotations

from dataclasses import replace

from scheduling.costs.estimate import step_times
from scheduling.costs.memory import step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.search.bounds import least_state
from scheduling.search.space import family_members
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan
from sharding.shared_parameters import PARAMETER_AXES, module_views
from sharding.stages import without_stages
from tests.scheduling import workloads as small

LANES = (("short", 32, 4), ("long", 32, 4))
OWN = {"short": "vision", "long": "vision"}


def bucketed() -> Workload:
    return small.workload(encoders=LANES, buckets=OWN)


def test_only_plans_that_hold_the_parameters_alike_are_tried() -> None:
    workload = bucketed()
    space = small.space(8, workload, contexts=(1, 2))
    family = Strategy({"decoder": ParallelPlan(data=2, context=2, tensor=2)}, microbatches=1)
    alone = replace(workload, buckets={})
    every = [member.plans for member in family_members(space, alone, family)]
    found = [member.plans for member in family_members(space, workload, family)]
    assert 0 < len(found) < len(every)
    for plans in found:
        views = JointGrid.build(plans).views
        for axis in PARAMETER_AXES:
            assert getattr(views["short"], axis) == getattr(views["long"], axis)
    assert any(plans["short"] != plans["long"] for plans in found)


def test_evaluation_holds_them_alike_as_well() -> None:
    workload = bucketed()
    space = small.space(8, workload, contexts=(1, 2), evaluates=True)
    family = Strategy({"decoder": ParallelPlan(stage=2, data=2, context=2)}, microbatches=2)
    for member in family_members(space, workload, family):
        module_views(JointGrid.build(without_stages(member.plans)), OWN)


def test_parameters_and_their_sums_are_counted_once() -> None:
    plan, hardware = ParallelPlan(fsdp=4), small.hardware()
    two, one = bucketed(), small.workload(encoders=(("vision", 32, 4),))
    strategies = [
        Strategy(dict.fromkeys(own.modules, plan), gather="step", remat="layer")
        for own in (two, one)
    ]
    shared, alone = (
        step_memory(own, strategy, hardware)
        for own, strategy in zip((two, one), strategies, strict=True)
    )
    assert shared.parameters == alone.parameters
    assert shared.optimizer == alone.optimizer
    assert shared.gradients == alone.gradients
    assert shared.sources == 2 * alone.sources
    assert least_state(two, 4) == least_state(one, 4)
    times = [
        step_times(own, strategy, hardware)
        for own, strategy in zip((two, one), strategies, strict=True)
    ]
    assert times[0].update == times[1].update
    assert times[0].scatter == times[1].scatter
    assert times[0].gather == times[1].gather
    assert len(times[0].sources) == 2 * len(times[1].sources)
