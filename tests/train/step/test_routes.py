"""Outputs are merged by every exchange, and ranks whose block has none exchange nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from data.batch import PackedBatch
from mllm_jax.models.merge import merge_outputs
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.step.routes import BucketRoutes, Pair, build_bucket_routes, route_specs
from sharding.collectives import psum
from sharding.exchange import RouteArrays
from sharding.exchange_kinds import EXCHANGES, Exchange
from sharding.grid import JointGrid
from sharding.mesh import make_mesh, named_shardings
from sharding.plan import ParallelPlan
from sharding.routes import runs_of
from tests.sharding.test_exchange import OUTPUTS, ROWS, WIDTH, lookup, make_case

#: The decoder's share of rows is the larger one, or the encoder's is.
COARSE, FINE = ParallelPlan(data=2, tensor=2), ParallelPlan(data=4)
COLLECTIVES = {"all_gather", "reduce_scatter", "all_to_all"}
CASES = [
    (decoder, name, apart)
    for decoder in (COARSE, FINE)
    for name in EXCHANGES
    for apart in (True, False)
]


def grid_of(decoder: ParallelPlan) -> JointGrid:
    return JointGrid.build({"decoder": decoder, "vision": FINE if decoder == COARSE else COARSE})


def index_of(grid: JointGrid) -> np.ndarray:
    return make_case(*grid.plans.values())[1]


def inputs(grid: JointGrid, exchange: Exchange, apart: bool, index: np.ndarray) -> dict[str, Any]:
    """Values on the devices, the routes of media in rows of their own among them."""
    outputs, _, weights = make_case(*grid.plans.values())
    routes = None
    if apart:
        batch = listing(index, runs_of(index, OUTPUTS))
        parts = (
            [batch],
            {"vision": [(0, 0)]},
            {"vision": (ROWS, OUTPUTS)},
            grid.views,
            grid.backbone,
            ROWS,
            False,
        )
        routes = whole(grid, build_bucket_routes(*parts, {"vision": exchange})["vision"])
    return {"outputs": outputs, "weights": weights, "index": index, "routes": routes}


def listing(index: np.ndarray, runs: np.ndarray) -> PackedBatch:
    """A microbatch that lists runs; its tokens are looked at for their shape alone."""
    return PackedBatch({BACKBONE: ModuleRows(index, None, None, index)}, {"vision": runs})


def whole(grid: JointGrid, routes: BucketRoutes) -> RouteArrays:
    """The arrays of routes, put together from the parts of all devices."""
    layouts: Any = named_shardings(mesh_of(grid), route_specs(grid.backbone, None, routes.shapes))
    made: RouteArrays = jax.tree.map(np.asarray, routes.place_arrays(layouts))
    return made


def mesh_of(grid: JointGrid) -> Any:
    return make_mesh(grid, jax.devices()[:4])


def merged(grid: JointGrid, exchange: Exchange, values: dict[str, Any]) -> Any:
    source, target = grid.views["vision"], grid.backbone

    def body(values: Any) -> Any:
        routes = jax.tree.map(lambda x: x[0], values["routes"])
        rows = ModuleRows(None, None, None, merges={"vision": values["index"]})

        def loss(outputs: Any) -> Any:
            moved = merge_outputs(
                outputs, "vision", routes, rows, grid.views["vision"], grid.backbone, exchange
            )
            return psum(jnp.sum(moved * values["weights"]), target.all_axes), moved

        return jax.grad(loss, has_aux=True)(values["outputs"])

    got = P(target.batch_axes, target.sequence_axes or None)
    routes = values["routes"]
    specs = {
        "outputs": P(source.batch_axes, source.sequence_axes or None),
        "weights": got,
        "index": P(target.batch_axes),
        "routes": routes and route_specs(target, None, routes),
    }
    out = (P(source.batch_axes, source.sequence_axes or None), got)
    return jax.shard_map(body, mesh=mesh_of(grid), in_specs=(specs,), out_specs=out)


@cache
def compiled(decoder: ParallelPlan, exchange: Exchange, apart: bool) -> Any:
    grid = grid_of(decoder)
    values = inputs(grid, exchange, apart, index_of(grid))
    return jax.jit(merged(grid, exchange, values))


@pytest.mark.parametrize(("decoder", "exchange", "apart"), CASES)
@pytest.mark.parametrize("empty", [slice(0), slice(ROWS // 4), slice(ROWS // 2), slice(ROWS)])
def test_what_is_merged_and_its_gradient(
    decoder: ParallelPlan, exchange: Exchange, apart: bool, empty: slice
) -> None:
    """With media in all rows, not in those of a rank, not in those of a block, and in none."""
    grid = grid_of(decoder)
    index = index_of(grid)
    index[empty] = -1
    values = inputs(grid, exchange, apart, index)
    gradient, moved = compiled(decoder, exchange, apart)(values)
    np.testing.assert_array_equal(moved, lookup(values["outputs"], index))
    expected = np.zeros((ROWS * OUTPUTS, WIDTH), np.float32)
    expected[index[index >= 0]] = values["weights"][index >= 0]
    np.testing.assert_array_equal(gradient.reshape(-1, WIDTH), expected)


@pytest.mark.parametrize(("decoder", "exchange", "apart"), CASES)
def test_where_nothing_is_merged_nothing_is_exchanged(
    decoder: ParallelPlan, exchange: Exchange, apart: bool
) -> None:
    """Collectives, but for the sum of counts within a block, are in branches."""
    grid = grid_of(decoder)
    values = inputs(grid, exchange, apart, index_of(grid))
    jaxpr = jax.make_jaxpr(merged(grid, exchange, values))(values)
    outside, inside = (set(names(jaxpr.jaxpr, branches)) for branches in (False, True))
    assert not outside & COLLECTIVES
    assert inside & COLLECTIVES


def names(jaxpr: Any, branches: bool) -> Iterator[str]:
    """Names of all operations, of those in branches or of the others."""
    for equation in jaxpr.eqns:
        if not branches:
            yield equation.primitive.name
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns")):
            own = getattr(inner, "jaxpr", inner)
            if hasattr(own, "eqns"):
                if equation.primitive.name == "cond":
                    yield from names(own, False) if branches else ()
                else:
                    yield from names(own, branches)


@pytest.mark.parametrize("apart", [True, False])
def test_runs_from_several_units_go_each_with_its_own(apart: bool) -> None:
    """A sixth column names the encoder microbatch; a pair without one has no runs."""
    grid = grid_of(COARSE)
    runs = runs_of(index_of(grid), OUTPUTS)
    unit = np.arange(len(runs)) % 2
    of_runs, size = partial(listing, index_of(grid)), {"vision": (ROWS, OUTPUTS)}

    def routes(microbatches: list[PackedBatch], pairs: list[Pair]) -> RouteArrays:
        named = {"vision": pairs}
        (own,) = build_bucket_routes(
            microbatches, named, size, grid.views, grid.backbone, ROWS, apart, {}
        ).values()
        return whole(grid, own)

    marked = [of_runs(np.column_stack([runs, unit]))]
    alone = [of_runs(own) for own in (runs[unit == 0], runs[unit == 1], runs[:0])]
    found = routes(marked, [(0, 0), (1, 0), None])
    expected = routes(alone, [(0, 0), (1, 1), (2, 2)])
    assert (found.count > 0).tolist() == [True, True, False]
    jax.tree.map(np.testing.assert_array_equal, found, expected)
