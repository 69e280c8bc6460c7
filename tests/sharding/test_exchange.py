"""The exchange equals a plain lookup, forward and backward, for any pair of plans."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from sharding.collectives import psum
from sharding.exchange import gather_outputs, scatter_outputs, shared_axes
from sharding.exchange_kinds import EXCHANGES, possible_exchanges
from sharding.grid import JointGrid
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan

ROWS, OUTPUTS, TOKENS, WIDTH = 8, 4, 16, 3

PAIRS = [
    (ParallelPlan(data=2, tensor=2), ParallelPlan(data=4)),
    (ParallelPlan(data=2, tensor=2), ParallelPlan(data=2, tensor=2)),
    (ParallelPlan(data=4), ParallelPlan(data=2, tensor=2)),
    (ParallelPlan(fsdp=4), ParallelPlan(tensor=4)),
    (ParallelPlan(tensor=4), ParallelPlan(data=2, fsdp=2)),
    (ParallelPlan(tensor=8), ParallelPlan(data=2, fsdp=2, tensor=2)),
    (ParallelPlan(data=2, fsdp=2, tensor=2), ParallelPlan(data=8)),
    (ParallelPlan(data=2, expert=2, context=2), ParallelPlan(expert=4, tensor=2)),
    (ParallelPlan(fsdp=2, expert=2), ParallelPlan(context=2, tensor=2)),
    (ParallelPlan(), ParallelPlan()),
]


def make_case(decoder: ParallelPlan, encoder: ParallelPlan) -> tuple[np.ndarray, ...]:
    """Outputs and an index that stays inside the larger of the two shares of rows."""
    rng = np.random.default_rng(0)
    block = ROWS // min(decoder.batch, encoder.batch)
    outputs = rng.normal(size=(ROWS, OUTPUTS, WIDTH)).astype(np.float32)
    first = np.arange(ROWS)[:, None] // block * block * OUTPUTS
    # Every output is merged once or not at all, on tokens anywhere in its block.
    orders = [rng.permutation(block * TOKENS) for _ in range(ROWS // block)]
    index = np.reshape(orders, (ROWS, TOKENS))
    is_merged = (index < block * OUTPUTS) & (rng.random(index.shape) < 0.8)
    index = np.where(is_merged, first + index, -1).astype(np.int32)
    weights = rng.normal(size=(ROWS, TOKENS, WIDTH)).astype(np.float32)
    return outputs, index, weights


def lookup(outputs: np.ndarray, index: np.ndarray) -> np.ndarray:
    flat = outputs.reshape(-1, WIDTH)
    return np.where((index >= 0)[..., None], flat[np.maximum(index, 0)], 0)


@pytest.mark.parametrize(("decoder", "encoder"), PAIRS, ids=lambda plan: str(plan))
def test_equals_a_lookup_with_its_gradient(decoder, encoder):
    """Gathers and reduce-scatters, within blocks and over all ranks, in one program."""
    grid = JointGrid.build({"decoder": decoder, "vision": encoder})
    source, target = grid.views["vision"], grid.backbone
    outputs, within, weights = make_case(decoder, encoder)
    anywhere = np.random.default_rng(1).permutation(within.reshape(-1)).reshape(within.shape)
    cases = [(within, shared_axes(source, target)), (anywhere, ())]

    def body(outputs, indices, weights):
        def loss(outputs, move, index, shared):
            moved = move(outputs, index, source, target, shared)
            return psum(jnp.sum(moved * weights), target.all_axes), moved

        return [
            jax.grad(loss, has_aux=True)(outputs, move, index, shared)
            for index, (_, shared) in zip(indices, cases, strict=True)
            for move in (gather_outputs, scatter_outputs)
        ]

    sent = P(source.batch_axes or None, source.sequence_axes or None)
    got = P(target.batch_axes or None, target.sequence_axes or None)
    run = jax.shard_map(
        body,
        mesh=make_mesh(grid, jax.devices()[: grid.devices]),
        in_specs=(sent, P(target.batch_axes or None), got),
        out_specs=[(sent, got)] * 4,
    )
    result = jax.jit(run)(outputs, [index for index, _ in cases], weights)

    for number, (gradient, moved) in enumerate(result):
        index = cases[number // 2][0]
        np.testing.assert_array_equal(moved, lookup(outputs, index))
        expected = np.zeros((ROWS * OUTPUTS, WIDTH), np.float32)
        np.add.at(expected, index[index >= 0], weights[index >= 0])
        np.testing.assert_allclose(gradient.reshape(-1, WIDTH), expected, rtol=1e-6, atol=1e-6)


def test_an_all_to_all_needs_media_in_rows_of_their_own():
    assert possible_exchanges(independent_rows=True) == EXCHANGES
    assert possible_exchanges(independent_rows=False) == ("gather", "reduce_scatter")
