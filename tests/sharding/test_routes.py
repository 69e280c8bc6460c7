"""Routes move every output to where it belongs, from any device to any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from benchmarks.overlap import TARGETS
from mllm_jax.compile.target import CompileTarget
from sharding.collectives import psum
from sharding.exchange import RouteArrays, is_ragged, route_outputs
from sharding.grid import JointGrid
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan, PlanError
from sharding.routes import Routes, RouteSide, runs_of
from tests.emulation import ragged_on_cpus
from tests.sharding.test_exchange import OUTPUTS, PAIRS, ROWS, TOKENS, WIDTH, lookup

Index = np.ndarray[Any, np.dtype[Any]]


def scattered(seed: int, tokens: int = TOKENS) -> Index:
    """Half of the tokens take runs of outputs of any row."""
    rng = np.random.default_rng(seed)
    index = np.full((ROWS, tokens), -1, np.int32)
    outputs = rng.permutation(ROWS * OUTPUTS).astype(np.int32)
    if seed % 2:  # in longer runs
        outputs = np.roll(np.arange(ROWS * OUTPUTS, dtype=np.int32), seed)
    places = np.sort(rng.choice(index.size, len(outputs), replace=False))
    index.reshape(-1)[places] = outputs
    return index


def build(grid: JointGrid, index: Index, ragged: bool = False) -> Routes:
    source = RouteSide(grid.views["vision"], ROWS, OUTPUTS)
    return Routes.build(
        source, RouteSide(grid.backbone, *index.shape), runs_of(index, OUTPUTS), ragged
    )


@given(seed=st.integers(0, 99))
def test_runs_say_what_the_index_says(seed: int) -> None:
    index = scattered(seed)
    again = np.full_like(index, -1)
    runs = runs_of(index, OUTPUTS)
    for row, first, to, token, length in runs.tolist():
        again[to, token : token + length] = row * OUTPUTS + first + np.arange(length)
    np.testing.assert_array_equal(again, index)
    merged = zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True)
    for (row, first, to, token, length), after in merged:
        assert after[:4] != [row, first + length, to, token + length]
    assert runs_of(np.full((2, 3), -1), 4).shape == (0, 5)
    routes = build(JointGrid.build({"decoder": PAIRS[0][0], "vision": PAIRS[0][1]}), index)
    for first, last in ((0, ROWS), (2, 5), (3, 3)):
        np.testing.assert_array_equal(routes.merge_index(first, last), index[first:last])


@given(pair=st.sampled_from(PAIRS), seed=st.integers(0, 99), ragged=st.booleans())
def test_every_output_arrives_once(
    pair: tuple[ParallelPlan, ParallelPlan], seed: int, ragged: bool
) -> None:
    """The all-to-all on the host, in numpy."""
    grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    index = scattered(seed)
    routes = build(grid, index, ragged)
    lock = shares(routes.source, np.arange(ROWS * OUTPUTS).reshape(ROWS, OUTPUTS), routes)
    expected = shares(routes.target, index, routes)
    received = np.full((routes.count, routes.entries[1] + 1), -1)
    slices = np.stack([slices_of(routes, i) for i in range(routes.count)])
    np.testing.assert_array_equal(slices[:, 1], slices[:, 3].T)
    for i, (begins, sizes, there, _) in enumerate(slices):
        sent = np.append(lock[i].reshape(-1), -7)[routes.send_indices(i)]
        assert len(sent) == routes.entries[0]
        for j in range(routes.count):
            place = slice(there[j], there[j] + sizes[j])
            assert place.stop <= routes.entries[1]
            assert np.all(received[j, place] == -1)
            received[j, place] = sent[begins[j] : begins[j] + sizes[j]]
    for j in range(routes.count):
        np.testing.assert_array_equal(received[j, routes.receive_indices(j)], expected[j])
    if ragged:  # all that is sent is wanted, and it arrives without gaps
        assert slices[:, 1].sum() == (index >= 0).sum()
        assert slices[:, 1].max() <= routes.capacity
        arrived = np.arange(routes.entries[1]) < slices[:, 3].sum(axis=1)[:, None]
        np.testing.assert_array_equal(received[:, :-1] >= 0, arrived)


def slices_of(routes: Routes, device: int) -> Index:
    """The slices of `Routes.slices`; padded slices go whole."""
    if routes.ragged:
        return routes.ragged_slices(device)
    begins = np.arange(routes.count) * routes.capacity
    size, there = (np.full(routes.count, n) for n in (routes.capacity, begins[device]))
    return np.stack([begins, size, there, size])


def shares(side: RouteSide, complete: Index, routes: Routes) -> dict[int, Index]:
    """The share of an array `[rows, positions]` that every device holds."""
    rows, positions = side.device_shape
    return {
        int(device): complete[b * rows : (b + 1) * rows, t * positions : (t + 1) * positions]
        for (b, t), device in np.ndenumerate(side.device_numbers(routes.axes))
    }


@pytest.mark.parametrize(("decoder", "encoder"), PAIRS, ids=str)
def test_equals_a_lookup_with_its_gradient(decoder: ParallelPlan, encoder: ParallelPlan) -> None:
    grid = JointGrid.build({"decoder": decoder, "vision": encoder})
    index = scattered(3)
    routes = build(grid, index)
    outputs, weights = values(routes)
    gradient, moved = exchanged(grid, jax.devices())(outputs, weights, on_devices(routes))
    np.testing.assert_array_equal(moved, lookup(outputs, index))
    expected = np.zeros((ROWS * OUTPUTS, WIDTH), np.float32)
    np.add.at(expected, index[index >= 0], weights[index >= 0])
    np.testing.assert_allclose(gradient.reshape(-1, WIDTH), expected, rtol=1e-6)


def values(routes: Routes, width: int = WIDTH) -> tuple[Index, Index]:
    """Outputs of the whole batch, and weights of the decoder's positions."""
    rng, sides = np.random.default_rng(1), (routes.source, routes.target)
    shapes = [(side.rows, side.positions, width) for side in sides]
    outputs, weights = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    return outputs, weights


def on_devices(routes: Routes) -> RouteArrays:
    """What devices send, `[devices, ...]`, and what is merged, `[rows, tokens]`."""
    devices = range(routes.count)
    picks = np.stack([routes.send_indices(i) for i in devices])
    slices = np.stack([routes.ragged_slices(i) for i in devices]) if routes.ragged else None
    receive = np.empty((routes.target.rows, routes.target.positions), np.int32)
    for device, share in shares(routes.target, receive, routes).items():
        share[:] = routes.receive_indices(device)
    return RouteArrays(None, picks=picks, slices=slices, receive=receive)


def exchanged(grid: JointGrid, devices: Sequence[Any]) -> Any:
    """Compiles the exchange and its gradient: of outputs, weights and routes."""
    source, target = grid.views["vision"], grid.backbone

    def body(outputs: Any, weights: Any, routes: RouteArrays) -> Any:
        def loss(outputs: Any) -> Any:
            moved = route_outputs(outputs, routes.of_device, target.position_axes)
            return psum(jnp.sum(moved * weights), target.all_axes), moved

        return jax.grad(loss, has_aux=True)(outputs)

    sent = P(source.batch_axes or None, source.sequence_axes or None)
    got, spec = P(target.batch_axes or None, target.sequence_axes or None), P(target.position_axes)
    run = jax.shard_map(
        body,
        mesh=make_mesh(grid, devices[: grid.devices]),
        in_specs=(sent, got, RouteArrays(None, picks=spec, slices=spec, receive=got)),
        out_specs=(sent, got),
    )
    return jax.jit(run)


# ---- ragged --------------------------------------------------------------------------------------


@st.composite
def indices(draw: st.DrawFn) -> Index:
    """Runs of any rows to any rows; some rows, and so some devices, may send or take nothing."""
    rows = st.sets(st.integers(0, ROWS - 1))
    senders, takers = sorted(draw(rows)), sorted(draw(rows))
    index = np.full((ROWS, TOKENS), -1, np.int32)
    outputs = np.arange(ROWS * OUTPUTS, dtype=np.int32).reshape(ROWS, OUTPUTS)[senders].reshape(-1)
    places = np.arange(index.size).reshape(index.shape)[takers].reshape(-1)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    count = draw(st.integers(0, min(len(outputs), len(places))))
    chosen = np.sort(rng.choice(places, count, replace=False))
    order = outputs if draw(st.booleans()) else rng.permutation(outputs)
    index.reshape(-1)[chosen] = order[:count]
    return index


def only(senders: slice, takers: slice) -> Index:
    """Runs with as many outputs as fit, from some rows to some rows."""
    index = np.full((ROWS, TOKENS), -1, np.int32)
    outputs = np.arange(ROWS * OUTPUTS, dtype=np.int32).reshape(ROWS, OUTPUTS)[senders].ravel()
    index[takers].reshape(-1)[: len(outputs)] = outputs[: index[takers].size]
    return index


@cache
def both_forms(pair: tuple[ParallelPlan, ParallelPlan]) -> tuple[JointGrid, Any, Any]:
    grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    return grid, exchanged(grid, jax.devices()), exchanged(grid, jax.devices())


@given(pair=st.sampled_from([PAIRS[0], PAIRS[4], PAIRS[6]]), index=indices())
@example(pair=PAIRS[0], index=only(slice(0), slice(0)))  # no media at all
@example(pair=PAIRS[0], index=only(slice(2, 8), slice(0, 8)))  # the first device sends nothing
@example(pair=PAIRS[6], index=only(slice(0, 8), slice(2, 6)))  # the first and last receive nothing
@example(pair=PAIRS[6], index=only(slice(0, 8), slice(3, 4)))  # all go to one
def test_ragged_equals_padded_with_its_gradient(
    pair: tuple[ParallelPlan, ParallelPlan], index: Index
) -> None:
    grid, padded, ragged = both_forms(pair)
    routes = build(grid, index, ragged=True)
    outputs, weights = values(routes)
    expected = padded(outputs, weights, on_devices(build(grid, index)))
    with ragged_on_cpus():
        result = ragged(outputs, weights, on_devices(routes))
    for mine, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_routes_are_ragged_where_the_platform_can() -> None:
    def mesh(platform: str, *shape: int) -> Any:
        devices = np.full(shape, SimpleNamespace(platform=platform))
        return SimpleNamespace(devices=devices, shape=dict(zip("ab", shape, strict=True)))

    for platform, ragged in (("cpu", False), ("gpu", True), ("tpu", True)):
        assert is_ragged(mesh(platform, 4, 2), ("a", "b")) is ragged
        assert not is_ragged(mesh(platform, 1, 8), ("a",))
        assert not is_ragged(mesh(platform, 1, 8), ())


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_ragged_is_two_ragged_all_to_alls_with_the_gradient(platform: str) -> None:
    grid = JointGrid.build({"decoder": PAIRS[0][0], "vision": PAIRS[0][1]})
    routes = build(grid, scattered(3), ragged=True)
    traced = exchanged(grid, jax.devices()).trace(*values(routes), on_devices(routes))
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert text.count("@ragged_all_to_all") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(TARGETS[0], marks=pytest.mark.tpu_compile),
        pytest.param(TARGETS[1], marks=pytest.mark.gpu_compile),
    ],
    ids=str,
)
def test_ragged_takes_less_memory_of_an_accelerator(target: CompileTarget) -> None:
    pytest.importorskip(target.compiler.module)
    devices = target.devices()
    padded, ragged = (compiled(devices, ragged) for ragged in (False, True))
    assert "ragged-all-to-all" not in padded.as_text()
    assert len(re.findall(r"ragged-all-to-all(-start)?\(", ragged.as_text())) == 2
    before, after = (each.memory_analysis().temp_size_in_bytes for each in (padded, ragged))
    assert after < before / 4


def compiled(devices: Sequence[Any], ragged: bool) -> Any:
    """32 devices with 256 outputs each, to 512 tokens a row, 512 wide; with the gradient."""
    plans = {"decoder": ParallelPlan(data=4, tensor=8), "vision": ParallelPlan(data=32)}
    grid = JointGrid.build(plans)
    source, target = RouteSide(grid.views["vision"], 32, 256), RouteSide(grid.backbone, 32, 512)
    routes = Routes.build(source, target, np.zeros((0, 5), np.int64), ragged)
    assert is_ragged(make_mesh(grid, devices), routes.axes)
    shapes = jax.eval_shape(lambda: (*values(routes, 512), on_devices(routes)))
    return exchanged(grid, devices).lower(*shapes).compile()


def test_wrong_runs_and_views_are_refused() -> None:
    grid = JointGrid.build({"decoder": ParallelPlan(data=2), "vision": ParallelPlan(data=2)})
    side = partial(RouteSide, grid.backbone, 4)
    for run in ([4, 0, 0, 0, 1], [0, 7, 0, 0, 2], [0, 0, -1, 0, 1], [0, 0, 0, 15, 2]):
        with pytest.raises(ValueError, match=r"leaves the 4 rows of (8|16) positions"):
            Routes.build(side(8), side(16), np.array([run]))
    for other, what in (([1, 3, 2, 9, 2], "outputs"), ([2, 0, 3, 2, 4], "tokens")):
        with pytest.raises(ValueError, match=rf"runs \[.*\] and \[.*\] share {what}"):
            Routes.build(side(8), side(16), np.array([[1, 0, 3, 5, 4], [1, 2, 0, 0, 0], other]))
    staged = JointGrid.build(
        {"decoder": ParallelPlan(stage=2, data=2), "vision": ParallelPlan(data=4)}
    )
    sides = RouteSide(staged.views["vision"], 4, 8), RouteSide(staged.backbone, 4, 8)
    with pytest.raises(PlanError, match="cannot send to a backbone split over"):
        Routes.build(*sides, np.zeros((0, 5), np.int64))
