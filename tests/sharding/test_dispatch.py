"""Tokens through experts on other ranks equal a lookup, forward and backward, for any routes."""

import re
from contextlib import nullcontext
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from sharding.collectives import psum
from sharding.dispatch import (
    ExpertDispatch,
    _join_numbers,
    _RoundMove,
    _split_numbers,
    _TokenCopies,
    through_experts,
)
from sharding.grid import JointGrid
from sharding.in_order import shard_map
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan
from tests.emulation import ragged_on_cpus

EXPERTS, TOKENS, WIDTH, CHOICES = 8, 12, 3, 2
PLANS = {
    "expert 4": ParallelPlan(expert=4),
    "data 2 x expert 2 x tensor 2": ParallelPlan(data=2, expert=2, tensor=2),
}
#: Slots of a rank and parts of a round: in one part, in a few, and one copy at a time.
SIZES = {"one part": (96, 1), "some parts": (8, 2), "many parts": (4, 3)}
#: Plan, size, and into how many parts a slice of a ragged exchange is cut (0: it is padded), of the
#: programs that are compiled.
PROGRAMS = [
    ("expert 4", "many parts", 0),
    ("expert 4", "many parts", 3),
    ("expert 4", "one part", 0),
    ("data 2 x expert 2 x tensor 2", "some parts", 1),
]


def grouped(params, rows, counts):
    """Experts that are no linear maps, and none of which gives zero for zeros."""
    ends = jnp.cumsum(counts)
    place = jnp.arange(len(rows))
    expert = jnp.minimum(jnp.searchsorted(ends, place, side="right"), len(counts) - 1)
    result = jnp.sin(rows * params["scale"][expert]) + params["bias"][expert]
    return jnp.where((place < ends[-1])[:, None], result, 0)


def looked_up(params, tokens, experts, weights):
    """What a single device computes."""
    known = jnp.minimum(experts, EXPERTS - 1)
    result = jnp.sin(tokens[:, None] * params["scale"][known]) + params["bias"][known]
    return jnp.sum(jnp.where(experts < EXPERTS, weights, 0)[..., None] * result, axis=1)


@cache
def compiled(plan: str, size: str, cut: int):
    """Results and gradients of a batch, distributed over the ranks of a plan."""
    grid = JointGrid.build({"decoder": PLANS[plan]})
    view = grid.backbone
    slots, parts = SIZES[size]
    dispatch = ExpertDispatch(view.expert, EXPERTS, slots, parts, ragged=cut > 0)

    def body(params, tokens, experts, weights, expected):
        def loss(params, tokens, weights):
            result = through_experts(grouped, params, tokens, experts, weights, dispatch)
            return psum(jnp.sum(result * expected), view.batch_axes), result

        run = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)
        return run(params, tokens, weights)

    rows, expert_spec = P(view.batch_axes), P(view.expert)
    run = shard_map(
        body,
        mesh=make_mesh(grid, jax.devices()[: grid.devices]),
        in_specs=(expert_spec, rows, rows, rows, rows),
        out_specs=((expert_spec, rows, rows), rows),
    )
    return jax.jit(run)


def case(plan: str, seed: int, routes: str):
    """A batch whose tokens choose experts at random, or one of all experts, or mostly none."""
    rng = np.random.default_rng(seed)
    tokens = TOKENS * PLANS[plan].batch
    if routes == "one":
        experts = np.full((tokens, CHOICES), rng.integers(EXPERTS))
    else:
        few = rng.integers(1, EXPERTS + 1)
        experts = rng.integers(few, size=(tokens, CHOICES))
    experts[rng.random(tokens) < {"few": 0.9, "none": 1}.get(routes, 0.1)] = EXPERTS
    params = {k: rng.normal(size=(EXPERTS, WIDTH)).astype(np.float32) for k in ("scale", "bias")}
    normal = [rng.normal(size=(tokens, n)).astype(np.float32) for n in (WIDTH, CHOICES, WIDTH)]
    return params, normal[0], experts.astype(np.int32), normal[1], normal[2]


ROUTES = st.sampled_from(["random", "one", "few", "none"])


@given(st.sampled_from(PROGRAMS), ROUTES, st.integers(0, 99))
@example(PROGRAMS[0], "one", 0)
@example(PROGRAMS[1], "one", 0)
@example(PROGRAMS[2], "random", 0)
@example(PROGRAMS[3], "random", 0)
@example(PROGRAMS[3], "none", 0)
def test_equals_a_lookup_with_its_gradient(program, routes, seed):
    plan, size, cut = program
    params, tokens, experts, weights, target = case(plan, seed, routes)

    def loss(params, tokens, weights):
        result = looked_up(params, tokens, experts, weights)
        return jnp.sum(result * target), result

    expected = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(params, tokens, weights)
    with ragged_on_cpus(cut) if cut else nullcontext():
        result = compiled(plan, size, cut)(params, tokens, experts, weights, target)
    for leaf, other in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ragged", [False, True])
def test_numbers_beside_rows_are_exact(ragged):
    numbers = jax.random.normal(jax.random.key(0), (5, 1))
    for dtype in (jnp.float32, jnp.bfloat16):
        rows = jnp.arange(15, dtype=dtype).reshape(5, 3)
        joined = _join_numbers(rows, numbers, ExpertDispatch(("expert",), 8, 8, ragged=ragged))
        columns = 128 if ragged else {4: 1, 2: 3}[rows.itemsize]
        assert joined.shape == (5, 3 + columns)
        (left, right), result = _split_numbers(joined, [1, 2])
        np.testing.assert_array_equal(result, numbers)
        np.testing.assert_array_equal(jnp.concatenate([left, right], axis=1), rows)


def test_indices_are_computed_once_for_a_row_on_cpus():
    """XLA for CPUs would compute them in the gathers that read them, for every column again."""
    grid = JointGrid.build({"decoder": ParallelPlan(expert=2)})
    view = grid.backbone
    dispatch = ExpertDispatch(view.expert, EXPERTS, slots=16)

    def body(rows, experts, number):
        copies = _TokenCopies.of_experts(experts, dispatch)
        move = _RoundMove.of_part(copies, number, dispatch)
        return move.return_results(
            move.send_copies(copies.of_tokens(rows)), copies.zero_copies(rows)
        )

    rows, complete = P(view.batch_axes), P()
    mesh = make_mesh(grid, jax.devices()[:2])
    run = shard_map(body, mesh=mesh, in_specs=(rows, rows, complete), out_specs=rows)
    inputs = jax.ShapeDtypeStruct((16, 32), "float32"), jax.ShapeDtypeStruct((16, 2), "int32")
    program = jax.jit(run).lower(*inputs, jax.ShapeDtypeStruct((), "int32")).compile()
    computations = re.split(r"\n(?=%\S+ \()", program.as_text())
    gathers = [
        computation
        for computation in computations
        if re.search(r"f32\[\d+,.*32\]\S* gather\(", computation)
    ]
    assert len(gathers) > 1
    for computation in gathers:
        assert not re.search(r" (minimum|dynamic-slice)\(", computation), computation
