"""The joint grid: every plan is a view of one mesh, or the combination is refused."""

import math
import re
from itertools import product

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mllm_jax.compile.target import CompileTarget
from sharding.grid import Axes, JointGrid, MeshView, refining_plans
from sharding.mesh import make_mesh
from sharding.plan import AXES, ParallelPlan, PlanError, divisors_of, list_factorizations
from sharding.stages import StageViews


@st.composite
def plans_of(draw: st.DrawFn, devices: int) -> ParallelPlan:
    degrees, left = {}, devices
    for axis in AXES[:-1]:
        degrees[axis] = draw(st.sampled_from(divisors_of(left)))
        left //= degrees[axis]
    return ParallelPlan(**degrees, tensor=left)


@st.composite
def plan_pairs(draw: st.DrawFn) -> tuple[ParallelPlan, ParallelPlan]:
    devices = draw(st.sampled_from([1, 2, 4, 6, 8, 12, 24]))
    return draw(plans_of(devices)), draw(plans_of(devices))


def ranks(grid: JointGrid, view: MeshView, axis: str) -> np.ndarray:
    """Rank of every device along `axis` of `view`, by device number."""
    sizes = [size for _, size in grid.axes]
    coordinates = np.stack(np.unravel_index(np.arange(grid.devices), sizes))
    rank = np.zeros(grid.devices, int)
    for name, size, coordinate in zip(
        [name for name, _ in grid.axes], sizes, coordinates, strict=True
    ):
        if name in getattr(view, axis):
            rank = rank * size + coordinate
    return rank


def number(grid: JointGrid, axes: Axes) -> np.ndarray:
    """The number that the digits along `axes` of a device's number form, slowest first."""
    total = np.zeros(grid.devices, int)
    for axis in axes:
        total = total * dict(grid.axes)[axis] + ranks(grid, MeshView(data=(axis,)), "data")
    return total


@given(plan_pairs())
def test_each_view_numbers_the_devices_as_its_plan_does(pair):
    """Without stages all devices, with stages those of each stage."""
    try:
        grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    except PlanError:
        return
    assert math.prod(size for _, size in grid.axes) == pair[0].devices
    stage_axis = "stage" if pair[0].stage > 1 else None
    inside = tuple(
        axis for axis, _ in grid.axes if axis not in grid.backbone.stage or not stage_axis
    )
    place = number(grid, inside)
    for plan, view in zip(pair, (grid.backbone, grid.views["vision"]), strict=True):
        for axis in AXES:
            assert view.degree_of(getattr(view, axis)) == getattr(plan, axis) or grid.devices == 1
        axes = [
            view.data + view.fsdp,
            () if stage_axis else view.stage,
            view.expert,
            view.context,
            view.tensor,
        ]
        remaining = [tuple(axis for axis in group if axis in inside) for group in axes]
        expected = np.unravel_index(place, [view.degree_of(group) for group in remaining])
        for group, rank in zip(remaining, expected, strict=True):
            np.testing.assert_array_equal(number(grid, group), rank)


@given(plan_pairs())
def test_stages_of_an_encoder_lie_along_the_decoders(pair):
    try:
        grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    except PlanError:
        return
    view = grid.views["vision"]
    if pair[0].stage > 1:
        stage = number(grid, grid.backbone.stage)
        np.testing.assert_array_equal(number(grid, view.stage), stage % pair[1].stage)
        assert not {*view.sequence_axes} & {*grid.backbone.stage}
    ranks = [number(grid, getattr(view, axis)) for axis in AXES]
    assert len({*zip(*map(np.ndarray.tolist, ranks), strict=True)}) == grid.devices


@given(plan_pairs())
def test_the_share_of_rows_of_one_module_lies_inside_the_others(pair):
    """`sharding.exchange` relies on this, expert ranks included; with stages, within a stage."""
    try:
        grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    except PlanError:
        return
    assume(pair[1].stage == 1 or pair[0].stage > 1)
    views = StageViews.build(grid, "step").views
    short, long = sorted((view.batch_axes for view in views.values()), key=len)
    assert long[: len(short)] == short
    assert {*short} <= {*views["decoder"].position_axes} == {*views["vision"].position_axes}
    for plan, name in zip(pair, views, strict=True):
        view = grid.views[name]
        assert view.degree_of(view.batch_axes) == plan.batch == plan.data * plan.fsdp * plan.expert


@given(plan_pairs())
def test_a_pair_is_refused_only_when_groups_overlap_partly(pair):
    """Without stages; with stages, those of one."""

    def cuts(plan: ParallelPlan) -> list[int]:
        return [math.prod(plan.degrees[i:]) for i in range(len(AXES) + 1)]

    decoder, encoder = pair
    nested = True
    if decoder.stage > 1:
        nested = decoder.stage % encoder.stage == 0 and (
            (decoder.devices // decoder.stage) % encoder.inner_devices == 0
        )
        # Rows are distributed by data alone, around the stages.
        replicas = encoder.data * encoder.fsdp
        encoder = encoder.model_copy(update={"data": replicas, "fsdp": 1})
        decoder, staged = (p.model_copy(update={"stage": 1}) for p in (decoder, encoder))
        rows = decoder.devices // max(staged.inner_devices, 1)
        staged = staged.model_copy(update={"data": rows})
        pair = pair[0], encoder
    else:
        staged = encoder
    if nested:
        nested = all(max(a, b) % min(a, b) == 0 for a in cuts(decoder) for b in cuts(staged))
    plans = {"decoder": pair[0], "vision": pair[1]}
    if nested:
        JointGrid.build(plans)
    else:
        with pytest.raises(PlanError, match=r"does not refine|reaches across|does not divide"):
            JointGrid.build(plans)


@pytest.mark.parametrize("devices", [1, 6, 8, 12])
def test_the_plans_that_the_message_offers_are_accepted(devices):
    for data, fsdp, stage, tensor in list_factorizations(devices, 4):
        decoder = ParallelPlan(data=data, fsdp=fsdp, stage=stage, tensor=tensor)
        offered = refining_plans(decoder)
        assert offered
        for plan in offered:
            JointGrid.build({"decoder": decoder, "vision": plan})


@given(pair=plan_pairs(), heads=st.sampled_from([1, 2, 3, 4, 6, 8]))
def test_heads_of_keys_are_split_as_far_as_they_can_be(pair, heads):
    plans = {"decoder": pair[0], "vision": pair[1]}
    try:
        plain = JointGrid.build(plans)
    except PlanError:
        assume(False)
    grid = JointGrid.build(plans, heads)
    view, most = grid.backbone, math.gcd(heads, pair[0].tensor)
    assert most % view.degree_of(view.kv_head_axes) == 0
    assert view.kv_head_axes + view.kv_replicas == view.tensor
    # Neighbours hold the same heads, and every axis has the ranks that it has otherwise.
    copies = view.degree_of(view.kv_replicas)
    np.testing.assert_array_equal(
        number(grid, view.kv_head_axes), number(grid, view.tensor) // copies
    )
    for name, axis in product(plans, AXES):
        np.testing.assert_array_equal(
            ranks(grid, grid.views[name], axis), ranks(plain, plain.views[name], axis)
        )
    alone = JointGrid.build({"decoder": pair[0]}, heads).backbone
    assert alone.degree_of(alone.kv_head_axes) == most


def test_example_of_the_module_docstring():
    grid = JointGrid.build(
        {
            "decoder": ParallelPlan(data=2, stage=4, tensor=2),
            "encoder": ParallelPlan(data=8, tensor=2),
        }
    )
    assert grid.axes == (("data", 2), ("stage", 4), ("tensor", 2))
    assert grid.views["encoder"].data == ("data", "stage")
    assert "encoder  data=(data, stage) tensor=(tensor)" in str(grid)


def test_a_single_device_is_printed_as_one_that_shares_nothing():
    grid = JointGrid.build({"decoder": ParallelPlan()})
    assert grid.backbone.data == ("data",)
    assert str(grid) == "grid     data 1\ndecoder  replicated"


def test_refusals_name_the_module_and_the_valid_choices():
    decoder = ParallelPlan(data=2, tensor=3)
    with pytest.raises(PlanError, match=re.escape("vision: data 3 x tensor 2 does not refine")):
        JointGrid.build({"decoder": decoder, "vision": ParallelPlan(data=3, tensor=2)})
    with pytest.raises(PlanError, match=r"audio: data 4 covers 4 devices .* multiply to 6"):
        JointGrid.build({"decoder": decoder, "audio": ParallelPlan(data=4)})
    with pytest.raises(PlanError, match="cover 3 devices but 8 are present"):
        make_mesh(JointGrid.build({"decoder": ParallelPlan(data=3)}))


@pytest.mark.tpu_compile
@pytest.mark.parametrize(
    ("decoder", "encoder"),
    [
        (ParallelPlan(data=2, fsdp=2, tensor=8), ParallelPlan(data=32)),
        (ParallelPlan(data=8, tensor=4), ParallelPlan(data=16, tensor=2)),
        (ParallelPlan(stage=4, tensor=8), ParallelPlan(data=4, tensor=8)),
    ],
)
def test_grids_lie_on_a_torus(decoder: ParallelPlan, encoder: ParallelPlan) -> None:
    """Axes of the grid that are no whole dimensions of 4 x 4 x 2 chips."""
    pytest.importorskip("libtpu")
    devices = CompileTarget.parse("tpu:v5p:4x4x2").devices()
    grid = JointGrid.build({"decoder": decoder, "vision": encoder})
    mesh = make_mesh(grid, devices)
    assert set(mesh.devices.flat) == set(devices)
    assert mesh.shape == dict(grid.axes)


@given(st.data())
def test_expert_groups_stay_within_hosts_where_they_fit_beside_tensor_groups(
    data: st.DataObject,
) -> None:
    """Devices are numbered host by host; tensor groups have the nearest, expert groups the next."""
    plan = data.draw(plans_of(data.draw(st.sampled_from([4, 6, 8]))))
    host = data.draw(st.sampled_from(divisors_of(plan.devices)))
    grid = JointGrid.build({"decoder": plan})
    mesh = make_mesh(grid, jax.devices()[: grid.devices])
    hosts = np.vectorize(lambda device: device.id // host)(mesh.devices)
    axes = [axis for axis, _ in grid.axes]
    for degree, inner in (("tensor", plan.tensor), ("expert", plan.inner_devices)):
        expert_axes = tuple(axes.index(axis) for axis in getattr(grid.backbone, degree))
        if host % inner == 0:
            np.testing.assert_array_equal(hosts.max(expert_axes), hosts.min(expert_axes))


def test_refused_plans_name_the_backbone() -> None:
    fewer = {"language": ParallelPlan(data=4), "vision": ParallelPlan(data=2)}
    with pytest.raises(PlanError, match=r"vision: data 2 .* but the plan of language covers 4"):
        JointGrid.build(fewer)
    crossed = {"language": ParallelPlan(tensor=6), "vision": ParallelPlan(data=3, tensor=2)}
    crossed["audio"] = ParallelPlan(data=2, tensor=3)
    with pytest.raises(PlanError, match=r"audio: .*beside language tensor 6 and other modules"):
        JointGrid.build(crossed)
