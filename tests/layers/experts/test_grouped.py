"""Products by groups in a model: gradients, and nothing of rows after all groups."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mllm_jax.layers.experts.block import ExpertKernels, grouped_mlp
from mllm_jax.layers.experts.grouped import grouped_product


def case(counts: list[int], trailing: int, inputs: int, outputs: int) -> tuple[np.ndarray, ...]:
    make = np.random.default_rng(sum(counts) + trailing)
    rows = make.normal(size=(sum(counts) + trailing, inputs)).astype(np.float32)
    kernels = make.normal(size=(len(counts), inputs, outputs)).astype(np.float32)
    return rows, kernels, np.array(counts, np.int32)


def by_hand(rows: Any, kernels: Any, counts: np.ndarray) -> jax.Array:
    """All rows with all groups, of which each row keeps its own."""
    ends = np.cumsum(counts)
    owner = np.searchsorted(ends, np.arange(len(rows)), side="right")
    made = jnp.einsum("ni,gio->ngo", rows, kernels)
    taken = jax.nn.one_hot(owner, len(kernels))[..., None]
    return jnp.sum(jnp.where(taken > 0, made, 0), axis=1)


def test_gradients_are_those_of_one_product_for_each_group() -> None:
    counts = [70, 130, 0, 65]
    rows, kernels, sizes = case(counts, 4, 5, 3)

    def total(product: Any, rows: Any, kernels: Any) -> jax.Array:
        return jnp.sum(jnp.sin(product(rows, kernels, sizes)))

    expected, found = (
        jax.grad(total, argnums=(1, 2))(product, jnp.asarray(rows), jnp.asarray(kernels))
        for product in (by_hand, grouped_product)
    )
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)
    assert not np.any(found[0][sum(counts) :])


def test_rows_after_the_groups_count_for_nothing_whatever_they_hold() -> None:
    rows, up, sizes = case([3, 4], 2, 4, 6)
    down = np.ones((2, 6, 4), np.float32)
    rows[7:] = np.nan

    def total(rows: Any, up: Any) -> tuple[jax.Array, jax.Array]:
        made = grouped_mlp(ExpertKernels(up, up, jnp.asarray(down)), rows, jnp.asarray(sizes))
        return jnp.sum(made), made

    (_, made), gradients = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(
        jnp.asarray(rows), jnp.asarray(up)
    )
    assert not np.any(made[7:])
    assert not np.any(gradients[0][7:])
    assert np.isfinite(gradients[0]).all()
    assert np.isfinite(gradients[1]).all()


def test_work_on_a_cpu_is_that_of_the_rows_and_not_of_the_groups() -> None:
    """XLA counts a loop's body once: a tile of rows for one group."""
    rows, kernels, sizes = case([64] * 16, 0, 32, 32)
    program = jax.jit(grouped_product).lower(rows, kernels, sizes).compile()
    costs: Any = program.cost_analysis()
    assert costs["flops"] < 2 * rows.size * 32
