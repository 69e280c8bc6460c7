"""The check of products by groups tells right ones from wrong ones, here with those of CPUs."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cases.grouped import LIMIT, GroupedCase

CASE = GroupedCase(rows=30, trailing=3, groups=4, inputs=8, outputs=5)


def test_groups_are_of_unlike_sizes_and_have_all_rows() -> None:
    assert CASE.counts.tolist() == [0, 5, 10, 15]
    assert sum(GroupedCase(rows=8192, groups=64).counts) == 8192
    assert GroupedCase(groups=2).counts.tolist() == [0, 480]


def test_the_reference_is_a_product_for_each_group() -> None:
    expected = CASE.make_program("reference")(CASE.inputs_of("reference"))
    rows, kernels = (np.asarray(x, np.float32) for x in CASE.inputs_of("reference"))
    np.testing.assert_allclose(expected[0][5:15], rows[5:15] @ kernels[2], rtol=1e-5, atol=1e-5)


def test_what_is_wrong_is_an_error() -> None:
    made, (of_rows, of_kernels) = CASE.make_program("reference")(CASE.inputs_of("reference"))
    right = made, [of_rows, of_kernels]
    assert CASE.relative_errors(right, right) == (0, 0)
    # The second group's kernel for rows of the third; a gradient of another group.
    assert (
        CASE.relative_errors((jnp.roll(made, 1, axis=0).at[30:].set(0), right[1]), right)[0] > LIMIT
    )
    assert (
        CASE.relative_errors((made, [of_rows, jnp.roll(of_kernels, 1, axis=0)]), right)[1] > LIMIT
    )
    assert CASE.relative_errors((made.at[0, 0].set(jnp.nan), right[1]), right)[0] == math.inf
    assert CASE.relative_errors((made.at[-1, 0].set(1e-6), right[1]), right)[0] == math.inf


def test_a_dense_product_of_as_many_flops_stands_beside() -> None:
    rows, kernel = CASE.inputs_of("dense")
    assert (rows.shape, kernel.shape) == ((30, 8), (8, 5))
    costs = jax.jit(lambda x, y: x @ y).lower(rows, kernel).cost_analysis()
    assert costs is not None
    assert 3 * costs["flops"] == CASE.flops
