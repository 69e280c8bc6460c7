"""Products of rows with the matrix of their group, without work for other groups.

Rows of one group lie together, in the order of the groups; rows after the last group count for
nothing::

    counts 2, 3, 1     rows      a a b b b c . .         [rows, inputs]
                       kernels   A   B     C             [groups, inputs, outputs]
                       results   aA aA bB bB bB cC 0 0   [rows, outputs]

Each platform has its own way, as what compilers make of `jax.lax.ragged_dot` is often one dense
product with all groups (`docs/log`): `tiles` on CPUs, `triton` on GPUs, `tpu` on TPUs.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Protocol, cast

import jax

from mllm_jax.layers.varying import vary_like
from sharding.traced import traced_platform


class GroupedProducts(Protocol):
    """Both kinds of products of a platform. Rows after all groups may hold anything."""

    def product(
        self, rows: jax.Array, kernels: jax.Array, counts: jax.Array, transposed: bool
    ) -> jax.Array:
        """Rows `[rows, inputs]` times kernels `[groups, inputs, outputs]`, zero after the groups.

        With `transposed` the kernels are `[groups, outputs, inputs]`.
        """

    def of_kernels(self, rows: jax.Array, gradient: jax.Array, counts: jax.Array) -> jax.Array:
        """Of every group its rows transposed times their gradients `[rows, outputs]`.

        Returns:
            `[groups, inputs, outputs]`, summed in float32, in the type of the rows.
        """


MODULES = {"cpu": "tiles", "gpu": "triton", "tpu": "tpu"}


def products_of(platform: str) -> GroupedProducts:
    """The products of a platform; what writes kernels for it is imported when they are needed."""
    return cast(GroupedProducts, import_module(f"{__package__}.{MODULES[platform]}"))


def grouped_product(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
    """Every row times the kernel of its group.

    Args:
        rows: `[rows, inputs]`, sorted by their groups.
        kernels: `[groups, inputs, outputs]`, in the type of the rows.
        counts: `[groups]` int32, rows of every group; their sum is at most the number of rows.

    Returns:
        `[rows, outputs]` in the type of the rows. Rows after those that are counted are zero, and
        so are their gradients, whatever they hold.
    """
    operands = rows, kernels, counts
    return _grouped_product(products_of(traced_platform()), *vary_like(operands, operands))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _grouped_product(
    products: GroupedProducts, rows: jax.Array, kernels: jax.Array, counts: jax.Array
) -> jax.Array:
    return products.product(rows, kernels, counts, transposed=False)


Residuals = tuple[jax.Array, jax.Array, jax.Array]


def _forward(
    products: GroupedProducts, rows: jax.Array, kernels: jax.Array, counts: jax.Array
) -> tuple[jax.Array, Residuals]:
    return _grouped_product(products, rows, kernels, counts), (rows, kernels, counts)


def _backward(
    products: GroupedProducts, saved: Residuals, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    rows, kernels, counts = saved
    of_rows = products.product(gradient, kernels, counts, transposed=True)
    return of_rows, products.of_kernels(rows, gradient, counts), None


_grouped_product.defvjp(_forward, _backward)
