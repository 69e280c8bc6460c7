"""Products of matrices, and those whose rows are gathered or scattered over tensor ranks."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp

from mllm_jax.layers import rings
from sharding.collectives import reduce_scatter
from sharding.grid import MeshView
from sharding.traced import traced_platform

#: Marks a function whose values a backward computes again rather than keeps: they are cheap beside
#: the products, and would be saved many times over, in float32. Where a whole layer is computed
#: again, XLA computes them once.
cheap = partial(jax.checkpoint, prevent_cse=False)


#: Inputs and kernels of products.
Operands = tuple[tuple[jax.Array, jax.Array], ...]


def _sum_products(operands: Operands, contracted: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Sum of `x @ kernel`, accumulated and returned in `dtype`."""
    pairs = zip(operands, contracted, strict=True)
    products = [kernel_product(x, kernel, n, dtype) for (x, kernel), n in pairs]
    return sum(products[1:], products[0])


def kernel_product(
    x: jax.Array, kernel: jax.Array, contracted: int, dtype: jnp.dtype | None = None
) -> jax.Array:
    """Product over the last dimensions of `x` and as many first ones of `kernel`."""
    if traced_platform() != "cpu":
        return jnp.tensordot(x, kernel, contracted, preferred_element_type=dtype)
    # A backward reads `x` as it is, saved once for all products that it enters.
    return _of_matrices(x, kernel, contracted, dtype)


@partial(cheap, static_argnums=(2, 3))
def _of_matrices(
    x: jax.Array, kernel: jax.Array, contracted: int, dtype: jnp.dtype | None
) -> jax.Array:
    """`kernel_product` as one of matrices.

    On CPUs, gradients of kernels that are sums over rows and over tokens are otherwise made of
    transposed copies; on others XLA knows better, and these reshapes cost it memory.
    """
    inputs = math.prod(kernel.shape[:contracted])
    shape = *x.shape[: x.ndim - contracted], *kernel.shape[contracted:]
    matrices = x.reshape(-1, inputs), kernel.reshape(inputs, -1)
    return jnp.matmul(*matrices, preferred_element_type=dtype).reshape(shape)


def scatter_products(operands: Operands, contracted: tuple[int, ...], view: MeshView) -> jax.Array:
    """Sum of row-parallel products, reduced and scattered over the tokens of tensor ranks.

    Partial sums are float32 until they are added, as a single device's are, unless
    `view.reduce_dtype` has them travel in bfloat16.

    Args:
        operands: `[rows, tokens, *inputs]` and `[*inputs, d]` of every product.
        contracted: number of inputs' dimensions of each.

    Returns:
        `[rows, tokens / tensor, d]` in the type of the inputs.
    """
    if view.uses_rings:
        return _scattered_in_a_ring(operands, contracted, view)
    return _scatter_sum(operands, contracted, view)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _scatter_sum(operands: Operands, contracted: tuple[int, ...], view: MeshView) -> jax.Array:
    """Sum products in float32; reduce and scatter as `view.reduce_dtype`, in the operands' type.

    The gradient is that of the same sum in the operands' type: it adds up nothing over `axes`, and
    float32 would only double what is gathered and slow its products down.
    """
    sums = _sum_products(operands, contracted, jnp.dtype("float32")).astype(view.reduce_dtype)
    return reduce_scatter(sums, view.tensor, dim=1).astype(operands[0][0].dtype)


def _scattered_forward(
    operands: Operands, contracted: tuple[int, ...], view: MeshView
) -> tuple[jax.Array, Operands]:
    return _scatter_sum(operands, contracted, view), operands


def _scattered_backward(
    contracted: tuple[int, ...], view: MeshView, operands: Operands, cotangent: jax.Array
) -> tuple[Operands]:
    def summed(operands: Operands) -> jax.Array:
        pulled = _sum_products(operands, contracted, cotangent.dtype)
        return reduce_scatter(pulled, view.tensor, dim=1)

    _, pull = jax.vjp(summed, operands)
    return pull(cotangent)


_scatter_sum.defvjp(_scattered_forward, _scattered_backward)


# ---- products in rings ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _scattered_in_a_ring(
    operands: Operands, contracted: tuple[int, ...], view: MeshView
) -> jax.Array:
    """`_scatter_sum`, of which each step adds the product of one block."""
    axes, wide = view.tensor, jnp.dtype("float32")

    def term(rank: jax.Array) -> jax.Array:
        blocks = tuple((rings.rank_block(x, rank, axes), kernel) for x, kernel in operands)
        return _sum_products(blocks, contracted, wide)

    sums = rings.scattered_sum(term, axes, jnp.dtype(view.reduce_dtype))
    return sums.astype(operands[0][0].dtype)


def _scattered_in_a_ring_backward(
    contracted: tuple[int, ...], view: MeshView, operands: Operands, cotangent: jax.Array
) -> tuple[Operands]:
    dtype = cotangent.dtype

    def products(block: jax.Array) -> list[jax.Array]:
        pulled = (_input_gradient(block, kernel, 1, dtype) for _, kernel in operands)
        return [block, *pulled]

    full_cotangent, *inputs = rings.gathered_products(cotangent, view.tensor, products)
    kernels = [_kernel_gradient(x, full_cotangent) for x, _ in operands]
    return (tuple(zip(inputs, kernels, strict=True)),)


_scattered_in_a_ring.defvjp(
    lambda operands, contracted, view: (
        _scattered_in_a_ring(operands, contracted, view),
        operands,
    ),
    _scattered_in_a_ring_backward,
)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def gathered_in_a_ring(
    x: jax.Array, kernels: tuple[jax.Array, ...], axes: tuple[str, ...]
) -> list[jax.Array]:
    """Products of the rows of all ranks, block by block as they arrive.

    Args:
        x: this rank's rows, `[rows, tokens / ranks, d]`.
        kernels: `[d, *outputs]` of every product, varying as `x` does.

    Returns:
        `[rows, tokens, *outputs]` of every product.
    """
    return rings.gathered_products(
        x, axes, lambda block: [kernel_product(block, k, 1) for k in kernels]
    )


def _gathered_in_a_ring_forward(
    x: jax.Array, kernels: tuple[jax.Array, ...], axes: tuple[str, ...]
) -> tuple[list[jax.Array], tuple[jax.Array, tuple[jax.Array, ...]]]:
    def products(block: jax.Array) -> list[jax.Array]:
        return [block, *(kernel_product(block, kernel, 1) for kernel in kernels)]

    full, *results = rings.gathered_products(x, axes, products)
    return results, (full, kernels)


def _gathered_in_a_ring_backward(
    axes: tuple[str, ...],
    saved: tuple[jax.Array, tuple[jax.Array, ...]],
    cotangents: list[jax.Array],
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    full, kernels = saved
    pairs = list(zip(cotangents, kernels, strict=True))

    def term(rank: jax.Array) -> jax.Array:
        wide = jnp.dtype("float32")
        terms = [
            _input_gradient(rings.rank_block(g, rank, axes), k, k.ndim - 1, wide) for g, k in pairs
        ]
        return sum(terms[1:], terms[0])

    inputs = rings.scattered_sum(term, axes, full.dtype).astype(full.dtype)
    return inputs, tuple(_kernel_gradient(full, g) for g, _ in pairs)


gathered_in_a_ring.defvjp(_gathered_in_a_ring_forward, _gathered_in_a_ring_backward)


def _input_gradient(g: jax.Array, kernel: jax.Array, outputs: int, dtype: jnp.dtype) -> jax.Array:
    """Gradient of a product's input, from that of its output, of which so many dimensions end."""
    last = [tuple(range(x.ndim - outputs, x.ndim)) for x in (g, kernel)]
    dims = (last[0], last[1]), ((), ())
    return jax.lax.dot_general(g, kernel, dims, preferred_element_type=dtype)


def _kernel_gradient(x: jax.Array, g: jax.Array) -> jax.Array:
    """Gradient of a product's kernel, from its input and the gradient of its output."""
    dims = ((0, 1), (0, 1)), ((), ())
    return jax.lax.dot_general(x, g, dims, preferred_element_type=x.dtype)
