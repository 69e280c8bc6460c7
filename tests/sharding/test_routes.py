"""Routes move every output to where it belongs, from any device to any other."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from sharding.collectives import psum
from sharding.exchange import exchange_by_routes
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan, PlanError
from sharding.routes import Routes, Side, runs_of
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


def build(grid: JointGrid, index: Index) -> Routes:
    source = Side(grid.views["vision"], ROWS, OUTPUTS)
    return Routes.build(source, Side(grid.decoder, *index.shape), runs_of(index, OUTPUTS))


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


@settings(max_examples=40)
@given(pair=st.sampled_from(PAIRS), seed=st.integers(0, 99))
def test_every_output_arrives_once(pair: tuple[ParallelPlan, ParallelPlan], seed: int) -> None:
    """The all-to-all on the host, in numpy."""
    grid = JointGrid.build({"decoder": pair[0], "vision": pair[1]})
    index = scattered(seed)
    routes = build(grid, index)
    assert routes.counts.max() <= routes.capacity
    held = shares(routes.source, np.arange(ROWS * OUTPUTS).reshape(ROWS, OUTPUTS), routes)
    sent = [np.append(held[i].reshape(-1), -7)[routes.send(i)] for i in range(routes.count)]
    assert routes.counts.sum() == (index >= 0).sum()
    wanted = shares(routes.target, index, routes)
    for j in range(routes.count):
        received = np.append(np.stack([block[j] for block in sent]).reshape(-1), -1)
        np.testing.assert_array_equal(received[routes.receive(j)], wanted[j])


def shares(side: Side, whole: Index, routes: Routes) -> dict[int, Index]:
    """What every device holds of an array `[rows, positions]`."""
    rows, positions = side.shape
    return {
        int(device): whole[b * rows : (b + 1) * rows, t * positions : (t + 1) * positions]
        for (b, t), device in np.ndenumerate(side.devices(routes.axes))
    }


@pytest.mark.parametrize(("decoder", "encoder"), PAIRS, ids=str)
def test_equals_a_lookup_with_its_gradient(decoder: ParallelPlan, encoder: ParallelPlan) -> None:
    grid = JointGrid.build({"decoder": decoder, "vision": encoder})
    source, target = grid.views["vision"], grid.decoder
    rng, index = np.random.default_rng(1), scattered(3)
    outputs = rng.normal(size=(ROWS, OUTPUTS, WIDTH)).astype(np.float32)
    weights = rng.normal(size=(ROWS, TOKENS, WIDTH)).astype(np.float32)
    routes = build(grid, index)
    send = np.stack([routes.send(i) for i in range(routes.count)])
    receive = np.empty((ROWS, TOKENS), np.int32)
    rows, positions = routes.target.shape
    for (b, t), device in np.ndenumerate(routes.target.devices(routes.axes)):
        place = slice(b * rows, (b + 1) * rows), slice(t * positions, (t + 1) * positions)
        receive[place] = routes.receive(int(device))

    def body(outputs: Any, send: Any, receive: Any, weights: Any) -> Any:
        def loss(outputs: Any) -> Any:
            moved = exchange_by_routes(outputs, send[0], receive, routes.axes)
            return psum(jnp.sum(moved * weights), target.all), moved

        return jax.grad(loss, has_aux=True)(outputs)

    sent = P(source.batch or None, source.tensor or None)
    got = P(target.batch or None, target.tensor or None)
    run = jax.jit(
        jax.shard_map(
            body,
            mesh=grid.mesh(jax.devices()[: grid.devices]),
            in_specs=(sent, P(routes.axes), got, got),
            out_specs=(sent, got),
        )
    )
    gradient, moved = run(outputs, send, receive, weights)
    np.testing.assert_array_equal(moved, lookup(outputs, index))
    expected = np.zeros((ROWS * OUTPUTS, WIDTH), np.float32)
    np.add.at(expected, index[index >= 0], weights[index >= 0])
    np.testing.assert_allclose(gradient.reshape(-1, WIDTH), expected, rtol=1e-6)


def test_wrong_runs_and_views_are_refused() -> None:
    grid = JointGrid.build({"decoder": ParallelPlan(data=2), "vision": ParallelPlan(data=2)})
    side = partial(Side, grid.decoder, 4)
    for run in ([4, 0, 0, 0, 1], [0, 7, 0, 0, 2], [0, 0, -1, 0, 1], [0, 0, 0, 15, 2]):
        with pytest.raises(ValueError, match=r"leaves the 4 rows of (8|16) positions"):
            Routes.build(side(8), side(16), np.array([run]))
    staged = JointGrid.build(
        {"decoder": ParallelPlan(stage=2, data=2), "vision": ParallelPlan(data=4)}
    )
    sides = Side(staged.views["vision"], 4, 8), Side(staged.decoder, 4, 8)
    with pytest.raises(PlanError, match="cannot send to a decoder dealt over"):
        Routes.build(*sides, np.zeros((0, 5), np.int64))
