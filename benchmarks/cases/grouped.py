"""Products by groups, as experts compute them, against the reference and a dense product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from mllm_jax.layers.experts.grouped import grouped_product

#: Largest error of bfloat16, whose rounding is 2^-8, over the largest value.
LIMIT = 0.02
#: `grouped` is the product of the platform, `ragged_dot` XLA's, `dense` one of all rows with one
#: kernel, `reference` one in float32 for each group.
WAYS = ("grouped", "ragged_dot", "dense", "reference")


@dataclass(frozen=True)
class GroupedCase:
    """Rows of bfloat16, sorted by groups of unlike sizes; the first group is empty.

    Attributes:
        rows: number of rows of all groups.
        trailing: number of rows after them, which hold no number and count for nothing.
        groups: number of groups, two or more.
        inputs, outputs: widths.
    """

    rows: int = 480
    trailing: int = 32
    groups: int = 5
    inputs: int = 192
    outputs: int = 136

    @property
    def counts(self) -> NDArray[np.int32]:
        """`[groups]`, rows of each group, which grow evenly from none."""
        ends = (
            np.cumsum(np.arange(self.groups)) * self.rows // (self.groups * (self.groups - 1) // 2)
        )
        return np.diff(ends, prepend=0).astype(np.int32)

    @property
    def flops(self) -> float:
        """FLOPs of the product and of both of its gradients, of each way but `ragged_dot`."""
        return 6.0 * self.rows * self.inputs * self.outputs

    def inputs_of(self, way: str) -> list[jax.Array]:
        """Rows and kernels for `program(way)`; `dense` has one kernel and no trailing rows."""
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(self.rows + self.trailing, self.inputs))
        kernels = rng.normal(size=(self.groups, self.inputs, self.outputs)) * self.inputs**-0.5
        rows[self.rows :] = np.nan
        if way == "dense":
            rows, kernels = rows[: self.rows], kernels[0]
        return [jnp.asarray(values, jnp.bfloat16) for values in (rows, kernels)]

    def make_program(self, way: str) -> Callable[[list[jax.Array]], Any]:
        """A function of `inputs_of` that returns the product and the gradients of a test loss."""
        counts = jnp.asarray(self.counts)

        def loss(arrays: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            rows, kernels = arrays
            output = _multiply_groups(way, rows, kernels, counts)
            return jnp.sum(jnp.sin(output.astype(jnp.float32))), output

        def run_both(arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
            (_, output), gradients = jax.value_and_grad(loss, has_aux=True)(arrays)
            return output, gradients

        return jax.jit(run_both)

    def relative_errors(self, actual: Any, expected: Any) -> tuple[float, float]:
        """Largest error over the largest value, of the outputs and gradients of a `program`.

        A value that is not finite is infinitely wrong, and so is one after the groups that is not
        zero.
        """
        trailing = (actual[0][self.rows :], actual[1][0][self.rows :])
        if any(np.any(np.asarray(values, np.float32) != 0) for values in trailing):
            return float("inf"), float("inf")
        pairs = zip(actual[1], expected[1], strict=True)
        return _relative_error(actual[0], expected[0]), max(
            _relative_error(values, other) for values, other in pairs
        )


def _multiply_groups(way: str, rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
    if way == "grouped":
        return grouped_product(rows, kernels, counts)
    if way == "ragged_dot":
        return lax.ragged_dot(rows, kernels, counts)
    if way == "dense":
        return rows @ kernels
    return _reference_product(rows, kernels, counts)


def _reference_product(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
    """All rows of each group times its kernel, in float32."""
    ends = jnp.cumsum(counts)
    owner = jnp.searchsorted(ends, jnp.arange(len(rows)), side="right")[:, None]
    product = jnp.zeros((len(rows), kernels.shape[2]), jnp.float32)
    for group in range(len(kernels)):
        group_rows = jnp.where(owner == group, rows, 0).astype(jnp.float32)
        product += jnp.matmul(group_rows, kernels[group].astype(jnp.float32), precision="highest")
    return product


def _relative_error(actual: Any, expected: Any) -> float:
    a, b = (np.asarray(x, np.float32) for x in (actual, expected))
    if not np.isfinite(a).all():
        return float("inf")
    return float(np.abs(a - b).max() / np.abs(b).max())
