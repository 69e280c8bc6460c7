"""Flash attention of packed rows on GPUs: three Triton kernels, written in Pallas.

A program of `_forward_kernel` and of `_queries_kernel` has a block of queries of one head, and
loops over blocks of keys; one of `_keys_kernel` has a block of keys, and loops over the blocks of
queries of all heads of its group. A loop goes from the first to the last block that holds a visible
pair, which is read from the segment ids (`MaskBlocks`): time grows with the pairs of segments, not
of rows. Blocks all of whose pairs are visible come first, and without a mask.

The backward computes the weights again from the saved logarithms of their sums (FlashAttention-2,
https://arxiv.org/abs/2307.08691). Programs share no sum: results are equal bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from mllm_jax.layers.attention.blocks import MaskBlocks, cut_padding
from mllm_jax.layers.attention.limits import FLASH_BLOCK
from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.attention.untyped_kernel import untyped_kernel
from mllm_jax.layers.config.kinds import MaskKind

#: Where the running maximum of a query starts: finite, as a block may hold no key that it sees.
_LOWEST = -1e30


@dataclass(frozen=True)
class KernelTile:
    """Sizes of a kernel.

    Attributes:
        queries, keys: number of each in a block, a power of two from 16 to `FLASH_BLOCK`.
        warps: number of warps of a program.
        stages: number of blocks of a loop that are loaded at a time.
    """

    queries: int
    keys: int
    warps: int
    stages: int

    def __post_init__(self) -> None:
        for size in (self.queries, self.keys):
            if size < 16 or FLASH_BLOCK % size:
                raise ValueError(
                    f"a block of {size} tokens: Triton multiplies at least 16, and blocks divide "
                    f"{FLASH_BLOCK}; valid: powers of two from 16 to {FLASH_BLOCK}"
                )


@dataclass(frozen=True)
class KernelSizes:
    """Sizes of the kernels.

    Attributes:
        forward: the kernel of the output.
        d_keys: the kernel of the gradients of keys and values.
        d_queries: the kernel of the gradients of queries.
    """

    forward: KernelTile
    d_keys: KernelTile
    d_queries: KernelTile


#: Sizes by the widest head that they are for.
SIZES = {
    64: KernelSizes(
        forward=KernelTile(queries=64, keys=64, warps=4, stages=3),
        d_keys=KernelTile(queries=64, keys=64, warps=4, stages=3),
        d_queries=KernelTile(queries=64, keys=64, warps=4, stages=3),
    ),
    128: KernelSizes(
        forward=KernelTile(queries=64, keys=64, warps=4, stages=3),
        d_keys=KernelTile(queries=64, keys=64, warps=4, stages=2),
        d_queries=KernelTile(queries=64, keys=64, warps=4, stages=2),
    ),
}


def sizes_of(head_dim: int) -> KernelSizes:
    """Sizes of `SIZES` for heads of `head_dim`."""
    return next(SIZES[widest] for widest in sorted(SIZES) if head_dim <= widest)


class SavedOperands(NamedTuple):
    """Tensors that the backward reads, `[rows, tokens, heads, head_dim]`.

    Attributes:
        lse: logarithms, to base 2, of the summed exponentials of a query's scores,
            `[rows, heads, tokens]` float32.
        tokens: ids of the tokens.
    """

    q: jax.Array
    k: jax.Array
    v: jax.Array
    out: jax.Array
    lse: jax.Array
    tokens: TokenIds


class KernelOptions(NamedTuple):
    """What does not depend on arrays.

    Attributes:
        mask: which tokens of its segment a token sees.
        scale: factor of the products of queries and keys.
        sizes: sizes of the kernels.
        interpret: whether the kernels run as plain JAX.
    """

    mask: MaskKind
    scale: float
    sizes: KernelSizes
    interpret: bool

    @property
    def base_two(self) -> float:
        """The factor, of scores whose weights are powers of two."""
        return self.scale * math.log2(math.e)


def pallas_flash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    tokens: TokenIds,
    mask: MaskKind,
    interpret: bool = False,
    sizes: KernelSizes | None = None,
) -> jax.Array:
    """Attention that skips the blocks which ids, order and a window hide.

    Grouped keys and values are not repeated; heads are filled with zeros up to a power of two.
    Padding attends to the padding of the same `FLASH_BLOCK` tokens alone.

    Args:
        interpret: whether the kernels run as plain JAX, on any platform.
        sizes: sizes of the kernels; None = those of `SIZES`.
    """
    width = q.shape[3]
    fill = pl.next_power_of_2(width) - width
    options = KernelOptions(
        mask, width**-0.5, sizes_of(width) if sizes is None else sizes, interpret
    )

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        if fill:
            q, k, v = (jnp.pad(x, (*[(0, 0)] * 3, (0, fill))) for x in (q, k, v))
        tokens = replace(tokens, index=None)  # which the backward would save
        return _pallas_flash_attention(q, k, v, tokens, options)[..., :width]

    return untyped_kernel(kernel)(q, k, v, tokens)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _pallas_flash_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, options: KernelOptions
) -> jax.Array:
    return _forward(q, k, v, tokens, options)[0]


def _forward(
    q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds, options: KernelOptions
) -> tuple[jax.Array, SavedOperands]:
    rows, count, heads, _ = q.shape
    launch = _KernelLaunch.of(_forward_kernel, options.sizes.forward, options, q, k)
    scalars = jax.ShapeDtypeStruct((rows, heads, count), jnp.float32)
    block = launch.block_spec(launch.tile.queries)
    out, lse = launch(
        tokens,
        [(q, block), (k, launch.group_spec), (v, launch.group_spec)],
        [(q, block), (scalars, launch.scalar_spec)],
    )
    return out, SavedOperands(q, k, v, out, lse, tokens)


def _backward(
    options: KernelOptions, saved: SavedOperands, d_out: jax.Array
) -> tuple[jax.Array | None, ...]:
    q, k, v, out, lse, tokens = saved
    products = out.astype(jnp.float32) * d_out.astype(jnp.float32)
    delta = products.sum(3).swapaxes(1, 2)
    launch = _KernelLaunch.of(_queries_kernel, options.sizes.d_queries, options, q, k)
    block, group, scalars = (
        launch.block_spec(launch.tile.queries),
        launch.group_spec,
        launch.scalar_spec,
    )
    scalars_of = [(lse, scalars), (delta, scalars)]
    inputs = [(q, block), (k, group), (v, group), (d_out, block), *scalars_of]
    (d_q,) = launch(tokens, inputs, [(q, block)])
    launch = _KernelLaunch.of(_keys_kernel, options.sizes.d_keys, options, q, k)
    block, heads, scalars = (
        launch.block_spec(launch.tile.keys),
        launch.heads_spec,
        launch.heads_scalars,
    )
    scalars_of = [(lse, scalars), (delta, scalars)]
    inputs = [(q, heads), (k, block), (v, block), (d_out, heads), *scalars_of]
    d_k, d_v = launch(tokens, inputs, [(k, block), (v, block)], by_keys=True)
    return d_q, d_k, d_v, None


_pallas_flash_attention.defvjp(_forward, _backward)


class _KernelLaunch(NamedTuple):
    """A kernel, and the parts of arrays that its program `(block, head, row)` is given.

    Attributes:
        tokens: number of tokens of a row.
        head_dim: width of a head, filled up to a power of two.
        group_size: number of heads of queries that share a head of keys.
    """

    kernel: Callable[..., None]
    tile: KernelTile
    options: KernelOptions
    tokens: int
    head_dim: int
    group_size: int

    @staticmethod
    def of(
        kernel: Callable[..., None],
        tile: KernelTile,
        options: KernelOptions,
        q: jax.Array,
        k: jax.Array,
    ) -> _KernelLaunch:
        _, tokens, heads, head_dim = q.shape
        return _KernelLaunch(kernel, tile, options, tokens, head_dim, heads // k.shape[2])

    def block_spec(self, size: int) -> pl.BlockSpec:
        """Tokens of this block, of this head, `[size, head_dim]`."""
        shape = None, size, None, self.head_dim
        return pl.BlockSpec(shape, lambda block, head, row: (row, block, head, 0))

    @property
    def scalar_spec(self) -> pl.BlockSpec:
        """A number for each query of this block, of this head, `[queries]`."""
        shape = None, None, self.tile.queries
        return pl.BlockSpec(shape, lambda block, head, row: (row, head, block))

    @property
    def group_spec(self) -> pl.BlockSpec:
        """All tokens of the head of keys of this head of queries, `[tokens, head_dim]`."""
        shape = None, self.tokens, None, self.head_dim
        return pl.BlockSpec(shape, lambda _, head, row: (row, 0, lax.div(head, self.group_size), 0))

    @property
    def heads_spec(self) -> pl.BlockSpec:
        """All tokens of the heads of this group, `[tokens, group_size, head_dim]`."""
        shape = None, self.tokens, self.group_size, self.head_dim
        return pl.BlockSpec(shape, lambda _, head, row: (row, 0, head, 0))

    @property
    def heads_scalars(self) -> pl.BlockSpec:
        """A number for each token of these heads, `[group_size, tokens]`."""
        shape = None, self.group_size, self.tokens
        return pl.BlockSpec(shape, lambda _, head, row: (row, head, 0))

    def __call__(
        self,
        tokens: TokenIds,
        inputs: Sequence[tuple[jax.Array, pl.BlockSpec]],
        outputs: Sequence[tuple[Any, pl.BlockSpec]],
        by_keys: bool = False,
    ) -> list[jax.Array]:
        """Arrays like `outputs`, of arrays and the parts of them that programs are given.

        Args:
            tokens: ids `[rows, tokens]`.
            by_keys: whether a program has a block of keys, and not of queries.
        """
        tokens = replace(tokens, boundary_ids=cut_padding(tokens.boundary_ids))
        blocks = MaskBlocks.of(tokens, self.options.mask, self.tile.queries, self.tile.keys)
        loops = (blocks.of_keys if by_keys else blocks).loop_bounds
        spans = () if tokens.spans is None else (tokens.spans,)
        ids = jnp.stack([tokens.boundary_ids, *spans], axis=1)
        operands = [
            (loops, pl.BlockSpec((None, None, 4), lambda block, _, row: (row, block, 0))),
            (ids, pl.BlockSpec((None, *ids.shape[1:]), lambda _, __, row: (row, 0, 0))),
            *inputs,
        ]
        return pl.pallas_call(
            partial(self.kernel, tile=self.tile, options=self.options),
            out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x, _ in outputs],
            grid=(loops.shape[1], outputs[0][0].shape[2], len(ids)),
            in_specs=[spec for _, spec in operands],
            out_specs=[spec for _, spec in outputs],
            compiler_params=plgpu.CompilerParams(
                num_warps=self.tile.warps, num_stages=self.tile.stages
            ),
            interpret=self.options.interpret,
            name=f"flash_attention{self.kernel.__name__}",
        )(*(x for x, _ in operands))


# ---- kernels -------------------------------------------------------------------------------------


def _forward_kernel(
    loops: Any,
    ids: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    tile: KernelTile,
    options: KernelOptions,
) -> None:
    """The output of a block of queries of one head."""
    queries, query_block = _BlockTokens.of(ids, pl.program_id(0), tile.queries), q[...]

    def step(block: jax.Array, carry: Any, masked: bool) -> Any:
        acc, row_max, row_sum = carry
        keys = _BlockTokens.of(ids, block, tile.keys)
        scores = plgpu.dot(query_block, k[keys.place], trans_b=True) * options.base_two
        if masked:
            seen = _visible_pairs(queries, keys, options.mask)
            scores = jnp.where(seen, scores, -jnp.inf)
        new_max = jnp.maximum(row_max, scores.max(axis=1))
        weights, rescale = jnp.exp2(scores - new_max[:, None]), jnp.exp2(row_max - new_max)
        values = v[keys.place]
        acc = acc * rescale[:, None] + plgpu.dot(weights.astype(values.dtype), values)
        return acc, new_max, row_sum * rescale + weights.sum(axis=1)

    def filled(value: float, *shape: int) -> jax.Array:
        return jnp.full((tile.queries, *shape), value, jnp.float32)

    start = filled(0, q.shape[1]), filled(_LOWEST), filled(0)
    acc, row_max, row_sum = _loop_blocks(loops, step, start)
    out[...] = (acc / row_sum[:, None]).astype(out.dtype)
    lse[...] = row_max + jnp.log2(row_sum)


def _queries_kernel(
    loops: Any,
    ids: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    lse: Any,
    delta: Any,
    d_q: Any,
    *,
    tile: KernelTile,
    options: KernelOptions,
) -> None:
    """The gradient of a block of queries of one head."""
    queries, query_block, d_out_block = (
        _BlockTokens.of(ids, pl.program_id(0), tile.queries),
        q[...],
        d_out[...],
    )
    lse_block, delta_block = lse[...][:, None], delta[...][:, None]

    def step(block: jax.Array, total: jax.Array, masked: bool) -> jax.Array:
        keys = _BlockTokens.of(ids, block, tile.keys)
        key_block = k[keys.place]
        scores = plgpu.dot(query_block, key_block, trans_b=True) * options.base_two
        if masked:
            seen = _visible_pairs(queries, keys, options.mask)
            scores = jnp.where(seen, scores, -jnp.inf)
        weights = jnp.exp2(scores - lse_block)
        d_weights = plgpu.dot(d_out_block, v[keys.place], trans_b=True)
        d_scores = weights * (d_weights - delta_block)
        return total + plgpu.dot(d_scores.astype(key_block.dtype), key_block)

    total = _loop_blocks(loops, step, jnp.zeros(query_block.shape, jnp.float32))
    d_q[...] = (total * options.scale).astype(d_q.dtype)


def _keys_kernel(
    loops: Any,
    ids: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    lse: Any,
    delta: Any,
    d_k: Any,
    d_v: Any,
    *,
    tile: KernelTile,
    options: KernelOptions,
) -> None:
    """The gradients of a block of keys and values of one group, summed over its heads.

    Scores are `[keys, queries]`, so that products take what was computed as it lies.
    """
    keys, key_block, value_block = _BlockTokens.of(ids, pl.program_id(0), tile.keys), k[...], v[...]

    def step(block: jax.Array, carry: Any, masked: bool, head: jax.Array) -> Any:
        sum_k, sum_v = carry
        queries = _BlockTokens.of(ids, block, tile.queries)
        query_block, d_out_block = q[queries.place, head], d_out[queries.place, head]
        scores = plgpu.dot(key_block, query_block, trans_b=True) * options.base_two
        if masked:
            seen = _visible_pairs(queries, keys, options.mask, by_keys=True)
            scores = jnp.where(seen, scores, -jnp.inf)
        weights = jnp.exp2(scores - lse[head, queries.place][None])
        sum_v += plgpu.dot(weights.astype(d_out_block.dtype), d_out_block)
        d_weights = plgpu.dot(value_block, d_out_block, trans_b=True)
        d_scores = weights * (d_weights - delta[head, queries.place][None])
        return sum_k + plgpu.dot(d_scores.astype(query_block.dtype), query_block), sum_v

    def of_head(head: jax.Array, carry: Any) -> Any:
        return _loop_blocks(loops, partial(step, head=head), carry)

    zeros = jnp.zeros(key_block.shape, jnp.float32)
    sum_k, sum_v = lax.fori_loop(0, q.shape[1], of_head, (zeros, zeros))
    d_k[...] = (sum_k * options.scale).astype(d_k.dtype)
    d_v[...] = sum_v.astype(d_v.dtype)


class _BlockTokens(NamedTuple):
    """Tokens of a block of a row.

    Attributes:
        place: where they are in the row.
        numbers: their places as numbers, `[tokens]`.
        ids: one array `[tokens]` for each line of the row's ids: boundary ids, and spans if
            masks read them.
    """

    place: Any
    numbers: jax.Array
    ids: tuple[jax.Array, ...]

    @staticmethod
    def of(ids: Any, block: jax.Array, size: int) -> _BlockTokens:
        place = pl.ds(block * size, size)
        lines = tuple(ids[line, place] for line in range(ids.shape[0]))
        return _BlockTokens(place, block * size + jnp.arange(size), lines)


def _visible_pairs(
    queries: _BlockTokens, keys: _BlockTokens, mask: MaskKind, by_keys: bool = False
) -> jax.Array:
    """Which keys queries see, `[queries, keys]`; by keys `[keys, queries]`."""

    def as_pairs(of_queries: jax.Array, of_keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (
            (of_queries[None], of_keys[:, None])
            if by_keys
            else (of_queries[:, None], of_keys[None])
        )

    number, other = as_pairs(queries.numbers, keys.numbers)
    query_id, key_id = as_pairs(queries.ids[0], keys.ids[0])
    seen = query_id == key_id
    if mask.causal and mask.spans:
        span, other_span = as_pairs(queries.ids[1], keys.ids[1])
        seen &= (number >= other) | ((span == other_span) & (span > 0))
    elif mask.causal:
        seen &= number >= other
    if mask.window is not None:
        seen &= number - other < mask.window
        if mask.spans:
            seen &= other - number < mask.window
    return seen


def _loop_blocks(loops: Any, step: Callable[..., Any], carry: Any) -> Any:
    """`step(block, carry, masked)` for the blocks of `MaskBlocks.loop_bounds`, the full ones first.

    Two loops, as one with a branch would not be pipelined.
    """
    first, last, begin, end = (loops[i] for i in range(4))
    carry = lax.fori_loop(begin, end, partial(step, masked=False), carry)

    def masked_step(number: jax.Array, carry: Any) -> Any:
        return step(number + jnp.where(number < begin, 0, end - begin), carry, masked=True)

    return lax.fori_loop(first, last - (end - begin), masked_step, carry)
