"""Dense layers and their initial values; products that share their gathers and sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.products import gathered_in_a_ring, kernel_product, scatter_products
from mllm_jax.layers.varying import vary_like
from sharding.axes import LogicalAxes
from sharding.collectives import all_gather
from sharding.grid import MeshView


def normal_parameter(
    rngs: nnx.Rngs, shape: tuple[int, ...], axes: LogicalAxes, std: float
) -> nnx.Param[jax.Array]:
    """A float32 parameter of normal values with standard deviation `std`."""
    return nnx.Param(std * jax.random.normal(rngs.params(), shape, jnp.float32), axes=axes)


def constant_parameter(
    shape: tuple[int, ...], axes: LogicalAxes, value: float
) -> nnx.Param[jax.Array]:
    """A float32 parameter of equal values."""
    return nnx.Param(jnp.full(shape, value, jnp.float32), axes=axes)


class Dense(nnx.Module):
    """Linear layer over the last dimensions of its input.

    Kernel `[*inputs, *outputs]`, normal with variance `gain^2 / prod(inputs)`; bias `[*outputs]`.
    An adapter is a second way beside the kernel, see `add_adapter`.

    Args:
        inputs, outputs: `(logical axis, size)` of each dimension.
    """

    def __init__(
        self, inputs: Dims, outputs: Dims, rngs: nnx.Rngs, bias: bool = False, gain: float = 1.0
    ) -> None:
        self.contracted, self.dims, self.scale = len(inputs), (inputs, outputs), 0.0
        axes, shape = zip(*inputs, *outputs, strict=True)
        fan_in = math.prod(size for _, size in inputs)
        self.kernel = normal_parameter(rngs, shape, axes, gain / math.sqrt(fan_in))
        self.bias = _zero_bias(outputs) if bias else None

    def add_adapter(self, rank: int, scale: float, rngs: nnx.Rngs) -> None:
        """Add `scale (x A) B` to the layer's product (Hu et al., arXiv 2106.09685, section 4.1).

        `A` `[*inputs, rank]` is uniform within `1 / sqrt(prod(inputs))`; `B` `[rank, *outputs]` is
        zero, so that nothing changes yet.
        """
        rank_dim: tuple[str | None, int] = ("rank", rank)
        (axes, shape), (out_axes, out_shape) = (
            zip(*dims, strict=True)
            for dims in ((*self.dims[0], rank_dim), (rank_dim, *self.dims[1]))
        )
        bound = 1 / math.sqrt(math.prod(shape[:-1]))
        values = jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound)
        self.lora_a = nnx.Param(values, axes=axes)
        self.lora_b = constant_parameter(out_shape, out_axes, 0.0)
        self.scale = scale

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[.., *inputs]` to `[.., *outputs]` in the type of `x`."""
        return self.add_bias(self.product(x))

    def scattered_product(self, x: jax.Array, view: MeshView) -> jax.Array:
        """Row-parallel product: partial sums `[rows, tokens, d]` to `[rows, tokens / tensor, d]`.

        The bias is added after the sum, so that it counts once.
        """
        return self.add_bias(scattered_sum([(self, x)], view))

    def product(self, x: jax.Array) -> jax.Array:
        """The product without the bias."""
        result = kernel_product(x, self.kernel[...].astype(x.dtype), self.contracted)
        return self.add_adapted(result, self.lower_input(x)) if self.scale else result

    def lower_input(self, x: jax.Array) -> jax.Array:
        """`[.., *inputs]` to the adapter's rank, `[.., rank]`."""
        return kernel_product(x, self.lora_a[...].astype(x.dtype), self.contracted)

    def add_adapted(self, result: jax.Array, lowered: jax.Array) -> jax.Array:
        """Add the adapter's product to the layer's."""
        return result + kernel_product(*self.raising_operands(lowered), 1)

    def raising_operands(self, lowered: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The operands of the adapter's second product, scaled."""
        raised = vary_like(self.lora_b[...].astype(lowered.dtype), lowered)
        return self.scale_lowered(lowered), raised

    def scale_lowered(self, lowered: jax.Array) -> jax.Array:
        """What the adapter lowers, times its factor."""
        return lowered * jnp.asarray(self.scale, lowered.dtype)

    def add_bias(self, x: jax.Array) -> jax.Array:
        """Add the bias, if there is one."""
        return x if self.bias is None else x + align_dims(self.bias[...].astype(x.dtype), x)


def scattered_sum(terms: Sequence[tuple[Dense, jax.Array]], view: MeshView) -> jax.Array:
    """Sum of row-parallel products without biases, reduced and scattered over tokens once.

    Partial sums are float32 until they are added, as a single device's are.

    Args:
        terms: layers with their inputs, `[rows, tokens, *inputs]`.

    Returns:
        `[rows, tokens / tensor, d]` in the type of the inputs.
    """
    if not view.tensor:
        return sum((dense.product(x) for dense, x in terms[1:]), terms[0][0].product(terms[0][1]))
    operands = [(x, _cast_kernel(dense, x)) for dense, x in terms]
    contracted = [dense.contracted for dense, _ in terms]
    # Ranks have terms of what an adapter lowers, too: its second product is one of a sum as well.
    adapted = [dense.raising_operands(dense.lower_input(x)) for dense, x in terms if dense.scale]
    return scatter_products((*operands, *adapted), (*contracted, *[1] * len(adapted)), view)


def gathered_products(layers: Sequence[Dense], x: jax.Array, view: MeshView) -> list[jax.Array]:
    """Column-parallel products of the same rows, which are gathered once.

    Args:
        x: sequence shards `[rows, tokens / tensor, d]`.

    Returns:
        `[rows, tokens, *outputs]` of every layer, with its bias.
    """
    if not view.uses_rings:
        full = gather_sequence(x, view)
        return [layer(full) for layer in layers]
    kernels = [_cast_kernel(layer, x) for layer in layers]
    adapted = [layer for layer in layers if layer.scale]
    lowering = [vary_like(layer.lora_a[...].astype(x.dtype), x) for layer in adapted]
    products = gathered_in_a_ring(x, (*kernels, *lowering), view.tensor)
    lowered = iter(products[len(layers) :])
    return [
        layer.add_bias(layer.add_adapted(result, next(lowered)) if layer.scale else result)
        for layer, result in zip(layers, products, strict=False)
    ]


def _cast_kernel(dense: Dense, x: jax.Array) -> jax.Array:
    """The kernel in the type of the input `x`; its gradient varies as that of `x` does."""
    return vary_like(dense.kernel[...].astype(x.dtype), x)


def _zero_bias(outputs: Dims) -> nnx.Param[jax.Array]:
    """Zeros; a vector over the model width is small and stays whole on every fsdp rank."""
    axes = tuple(None if name == "embed" else name for name, _ in outputs)
    return constant_parameter(tuple(size for _, size in outputs), axes, 0.0)


def align_dims(parameter: jax.Array, x: jax.Array) -> jax.Array:
    """`parameter` with leading dimensions of one, to match the last dimensions of `x`."""
    return jax.lax.expand_dims(parameter, range(x.ndim - parameter.ndim))


def gather_sequence(x: jax.Array, view: MeshView) -> jax.Array:
    """Sequence shards `[rows, tokens / tensor, d]` to those of the context rank."""
    return all_gather(x, view.tensor, dim=1)
