"""The strategies of a space: stages, chunks and degrees that are tried, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.search.space import (
    Space,
    _chunk_choices,
    _fsdp_degrees,
    _gather_kinds,
    backbone_plans,
    encoder_plans,
    family_members,
    plan_families,
    with_stages,
)
from sharding.plan import ParallelPlan, divisors_of
from tests.scheduling.workloads import space, workload

LAYERS = st.sampled_from([1, 2, 3, 4, 6, 8])


@given(LAYERS, st.none() | st.sets(st.integers(1, 9), min_size=1))
def test_strategies_with_stages_have_several(layers: int, stages: set[int] | None) -> None:
    own = workload(layers=layers)
    given_ = None if stages is None else tuple(sorted(stages))
    expected = range(2, layers + 1) if stages is None else sorted(stages - {1})
    found = with_stages(replace(space(), stages=given_), own)
    assert found.stages == tuple(expected)


@pytest.mark.parametrize(
    ("plan", "tried"),
    [
        (ParallelPlan(fsdp=4), ("step",)),
        (ParallelPlan(stage=2, data=2), ("step",)),
        (ParallelPlan(stage=2, fsdp=2), ("step", "layer")),
    ],
)
def test_ways_to_gather_are_tried_where_they_differ(
    plan: ParallelPlan, tried: tuple[str, ...]
) -> None:
    assert _gather_kinds(space(), plan) == tried


@given(st.sampled_from([1, 2, 3, 8, 12, 96, 128]), st.sampled_from([1, 2, 8, 64, 65]))
def test_fsdp_is_tried_at_both_ends_and_within_64_devices(batch: int, inner: int) -> None:
    found = _fsdp_degrees(batch, inner)
    assert found == sorted({*found})
    assert {1, batch} <= {*found}
    assert all(batch % n == 0 for n in found)
    within = max([n for n in divisors_of(batch) if n * inner <= 64], default=1)
    assert {*found} == {1, batch, within}


@given(LAYERS, st.integers(1, 4), st.booleans(), st.none() | st.just((1, 3)))
def test_chunks_are_those_that_hold_a_layer_each(
    layers: int, stages: int, pad: bool, only: tuple[int, ...] | None
) -> None:
    own = replace(space(), pad=pad, chunks=only)
    found = _chunk_choices(own, workload(layers=layers), ParallelPlan(stage=stages))
    if stages == 1:
        assert found == [1]
        return
    assert all(only is None or v in only for v in found)
    every = range(1, -(-layers // stages) + 1)
    if not pad:
        whole = [v for v in every if layers % (stages * v) == 0]
        assert found == [v for v in whole if only is None or v in only]
    for v in found:
        assert -(-layers // (stages * v)) * v <= -(-layers // stages) + v


def strategies(own: Space, layers: int) -> list[ParallelPlan]:
    return [p for plans in backbone_plans(own, workload(layers=layers)).values() for p in plans]


@given(LAYERS, st.sampled_from([1, 2, 4, 6, 8]), st.none() | st.just((4,)))
def test_plans_of_the_decoder_are_all_different_and_use_the_devices(
    layers: int, devices: int, counts: tuple[int, ...] | None
) -> None:
    own = replace(space(devices), counts=counts)
    found = strategies(own, layers)
    assert len({*map(str, found)}) == len(found)
    for plan in found:
        assert plan.devices <= devices
        assert counts is None or plan.devices in counts
        assert plan.stage <= layers
        assert workload().rows % plan.batch == 0
        assert own.fits_plan("decoder", plan)
    assert (ParallelPlan() in found) == (counts is None)
    order = [plan.devices for plan in found]
    assert order == sorted(order, reverse=True)


@given(st.sampled_from([(1, 4), (2, 2), (4, 1)]), st.sampled_from([1, 2]))
def test_families_have_every_number_of_microbatches(shape: tuple[int, int], tensor: int) -> None:
    stage, batch = shape
    own = workload()
    plan = ParallelPlan(stage=stage, data=batch, tensor=tensor)
    found = [*plan_families(space(8), own, [plan])]
    assert {each.microbatches for each in found} == {*divisors_of(own.rows // batch)}
    assert {each.remat for each in found} == {*space().remats}
    assert all(each.plans == {"decoder": plan} for each in found)


@pytest.mark.parametrize("stage", [1, 2])
def test_plans_of_encoders_are_views_of_the_decoders_devices(stage: int) -> None:
    own, where = workload(), space(4)
    family = next(
        each
        for each in plan_families(where, own, [ParallelPlan(stage=stage, data=4 // stage)])
        if each.microbatches == 2
    )
    plans = encoder_plans(where, own, family, "vision")
    assert plans
    for plan in plans:
        assert plan.devices == family.backbone.devices
        assert family.backbone.stage % plan.stage == 0
        assert own.rows_of("vision", 2) % (plan.batch * plan.stage // stage) == 0
    found = [*family_members(where, own, family)]
    assert {str(each.plans["vision"]) for each in found} == {*map(str, plans)}
    placements = {*where.placements} if stage > 1 else {"bubbles"}
    assert {each.placement for each in found} == placements
