"""Parts that all families share: linear layers, norms, attention and MLP blocks.

Layers run on shards. Between blocks an activation is `[rows, tokens / shards, d_model]`, with
context x tensor shards; norms work on that. What follows says `tokens` for those of one context
rank, its run of the row; only attention sees all of them, on a part of the heads. Before a
column-parallel product the tokens are gathered, after a row-parallel one the partial sums are
reduced and scattered over tokens (Korthikanti et al., arXiv 2205.05198), or both happen in a ring,
step by step beside the product (`layers.rings`).
With `MeshView()` the collectives are identities and the same code is the single-device reference.
Sizes come from the local arrays, never from the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.layers.attention.cached import KeyValueCache, cached_attention
from mllm_jax.layers.attention.dispatch import compute_attention
from mllm_jax.layers.attention.masks import TokenIds, place_in_segments
from mllm_jax.layers.config.connector import Activation
from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.config.kinds import (
    SEGMENT_IDS,
    SPAN_IDS,
    LayerKind,
    MaskKind,
    mask_ids,
    rotary_specs,
)
from mllm_jax.layers.dense import (
    Dense,
    align_dims,
    constant_parameter,
    gathered_products,
    scattered_sum,
)
from mllm_jax.layers.positions import Rotary, compute_rotary, rotate_heads
from mllm_jax.layers.products import cheap
from mllm_jax.layers.varying import gelu
from sharding.collectives import all_to_all, axis_index
from sharding.grid import MeshView


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LayerContext:
    """What layers read of their rows beside the activations; whole on every rank of a row.

    Attributes:
        segment_ids: `[rows, tokens]` int32, 0 = padding.
        index: `[rows, tokens]` int32, place of each token in its segment; None where no mask reads
            it.
        ids: further ids that masks read, by name, like `segment_ids`.
        rotary: cosines and sines of every kind of rotary positions, in the order of `rotary_specs`.
    """

    segment_ids: jax.Array
    index: jax.Array | None = None
    ids: Mapping[str, jax.Array] | None = None
    rotary: tuple[Rotary, ...] = ()

    @classmethod
    def of(
        cls,
        kinds: Sequence[LayerKind],
        head_dim: int,
        segment_ids: jax.Array,
        positions: jax.Array,
        index: jax.Array | None = None,
        arrays: Mapping[str, jax.Array] | None = None,
    ) -> LayerContext:
        """The context of layers of these kinds.

        Args:
            kinds: a period of layers.
            head_dim: width of a head.
            positions: `[rows, tokens, axes]` int32.
            index: as of the class; None for rows without one, where it follows from the segments
                if chunks read it.
            arrays: arrays of the rows, among which are the ids that masks read.
        """
        tables = tuple(compute_rotary(positions, head_dim, spec) for spec in rotary_specs(kinds))
        ids = {name: (arrays or {})[name] for name in mask_ids(kinds)}
        if index is None and any(kind.mask.chunk is not None for kind in kinds):
            index = place_in_segments(segment_ids)
        return cls(segment_ids, index, ids, tables)

    def tokens(self, mask: MaskKind) -> TokenIds:
        """What a mask compares."""
        ids = {SEGMENT_IDS: self.segment_ids, **(self.ids or {})}
        return TokenIds(ids[mask.bounds], self.index, ids[SPAN_IDS] if mask.spans else None)


class RMSNorm(nnx.Module):
    """`x / sqrt(mean(x^2) + eps) * scale` over the last dimension, in float32."""

    def __init__(self, width: int, eps: float, rngs: nnx.Rngs) -> None:
        del rngs
        self.eps = eps
        self.scale = constant_parameter((width,), (None,), 1.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        return _of_unit_power(x, align_dims(self.scale[...], x), self.eps)


class LayerNorm(nnx.Module):
    """`(x - mean) / sqrt(variance + eps) * scale + bias` over the last dimension, in float32."""

    def __init__(self, width: int, eps: float, rngs: nnx.Rngs) -> None:
        del rngs
        self.eps = eps
        self.scale = constant_parameter((width,), (None,), 1.0)
        self.bias = constant_parameter((width,), (None,), 0.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        return _normalise(
            x, align_dims(self.scale[...], x), align_dims(self.bias[...], x), self.eps
        )


@dataclass(frozen=True)
class AttentionSpec:
    """Shape of a self-attention block.

    Attributes:
        q_bias, k_bias, v_bias, o_bias: whether the projection has a bias.
        qk_norm: epsilon of an RMSNorm over every head of q and k; None = no such norm.
        gain: factor on the initial output projection.
        mask: which tokens see which.
        rotary: number of the rotary positions in `LayerContext.rotary`; None = none.
        backend: implementation, see `mllm_jax.layers.attention.dispatch`.
    """

    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    mask: MaskKind
    backend: str
    rotary: int | None = None
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    o_bias: bool = False
    qk_norm: float | None = None
    gain: float = 1.0


class SelfAttention(nnx.Module):
    """Multi-head self-attention within segments; heads are split over the tensor axes."""

    def __init__(self, spec: AttentionSpec, rngs: nnx.Rngs) -> None:
        self.spec = spec
        width: Dims = (("embed", spec.d_model),)
        query: Dims = (("heads", spec.heads), (None, spec.head_dim))
        keys: Dims = (("kv_heads", spec.kv_heads), (None, spec.head_dim))
        self.q_proj = Dense(width, query, rngs, spec.q_bias)
        self.k_proj = Dense(width, keys, rngs, spec.k_bias)
        self.v_proj = Dense(width, keys, rngs, spec.v_bias)
        self.o_proj = Dense(query, width, rngs, spec.o_bias, spec.gain)
        normed = spec.qk_norm is not None
        self.q_norm = RMSNorm(spec.head_dim, spec.qk_norm or 0.0, rngs) if normed else None
        self.k_norm = RMSNorm(spec.head_dim, spec.qk_norm or 0.0, rngs) if normed else None

    def __call__(self, x: jax.Array, context: LayerContext, view: MeshView) -> jax.Array:
        """Sequence shards `[rows, tokens / shards, d_model]` to those of the block's output."""
        return self.decode_step(x, context, view, None)[0]

    def decode_step(
        self, x: jax.Array, context: LayerContext, view: MeshView, cache: KeyValueCache | None
    ) -> tuple[jax.Array, KeyValueCache | None]:
        """The same for tokens that follow those of a cache; and the cache with these tokens."""
        products = gathered_products(self.first, x, view)
        attended, cache = self.attend_products(products, context, view, cache)
        return self.last.scattered_product(attended, view), cache

    @property
    def first(self) -> tuple[Dense, ...]:
        """The products before attention: queries, keys and values."""
        return self.q_proj, self.k_proj, self.v_proj

    @property
    def last(self) -> Dense:
        """The product after attention."""
        return self.o_proj

    def attend_products(
        self,
        products: Sequence[jax.Array],
        context: LayerContext,
        view: MeshView,
        cache: KeyValueCache | None = None,
    ) -> tuple[jax.Array, KeyValueCache | None]:
        """`first` of all tokens to `[rows, tokens, heads / tensor, head_dim]`.

        Context ranks exchange heads for positions before attention, and back after it (DeepSpeed
        Ulysses, arXiv 2309.14509, section 3): each has whole rows, and so any backend will do.

        Args:
            cache: cache of the tokens before, of the heads that this rank has in attention.

        Returns:
            The result, and the cache with the keys and values of these tokens.
        """
        q, k, v = products
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        k, v = (self._own_heads(heads, q.shape[2], view) for heads in (k, v))
        q, k, v = (_whole_rows(heads, view) for heads in (q, k, v))
        mask = self.spec.mask
        if self.spec.rotary is not None:
            turns = context.rotary[self.spec.rotary]
            q, k = rotate_heads(q, turns), rotate_heads(k, turns)
        cache = None if cache is None else cache.append_tokens(k, v)
        if cache is None or cache.start is None:
            out = compute_attention(q, k, v, context.tokens(mask), mask, self.spec.backend)
        else:
            out = cached_attention(cache, q, mask)
        return all_to_all(out, view.context, split=1, concat=2), cache

    def _own_heads(self, x: jax.Array, queries: int, view: MeshView) -> jax.Array:
        """Heads of keys or values for this rank's `queries` heads of queries.

        `[rows, tokens, heads that are here, head_dim]` to as many heads as make groups of one size.
        Tensor ranks that hold the same heads (`MeshView.kv_replicas`) have other queries, and
        perhaps other ones of these heads.
        """
        group = self.spec.heads // self.spec.kv_heads
        if x.shape[2] == 1 or not view.kv_replicas:
            return x
        begin, run = axis_index(view.kv_replicas) * queries, math.gcd(group, queries)
        return jnp.take(x, (begin + jnp.arange(0, queries, run)) // group, axis=2)


def _whole_rows(x: jax.Array, view: MeshView) -> jax.Array:
    """`[rows, tokens, heads, head_dim]` to `[rows, all tokens, heads / context, head_dim]`.

    Where there are fewer heads than context ranks (grouped queries), ranks have copies of them.
    """
    degree = view.degree_of(view.context)
    copies = degree // math.gcd(x.shape[2], degree)
    x = jnp.repeat(x, copies, axis=2) if copies > 1 else x
    return all_to_all(x, view.context, split=2, concat=1)


class GatedMLP(nnx.Module):
    """SwiGLU: `down(silu(gate(x)) * up(x))` (arXiv 2002.05202)."""

    def __init__(self, d_model: int, d_ff: int, rngs: nnx.Rngs, gain: float = 1.0) -> None:
        width: Dims = (("embed", d_model),)
        hidden: Dims = (("mlp", d_ff),)
        self.gate_proj = Dense(width, hidden, rngs)
        self.up_proj = Dense(width, hidden, rngs)
        self.down_proj = Dense(hidden, width, rngs, gain=gain)

    def __call__(self, x: jax.Array, view: MeshView) -> jax.Array:
        """Sequence shards `[rows, tokens / shards, d_model]` to those of the block's output."""
        products = gathered_products(self.first, x, view)
        return self.last.scattered_product(self.activated(products), view)

    @property
    def first(self) -> tuple[Dense, ...]:
        """The products before the activations."""
        return self.gate_proj, self.up_proj

    def activated(self, products: Sequence[jax.Array]) -> jax.Array:
        """`first` of all tokens to `[rows, tokens, d_ff / tensor]`."""
        return gate_activation(*products)

    @property
    def last(self) -> Dense:
        """The product after the activations."""
        return self.down_proj


class MLP(nnx.Module):
    """`fc2(gelu(fc1(x)))`.

    Args:
        activation: the tanh approximation (GPT, SigLIP) by default.
    """

    def __init__(
        self,
        widths: tuple[int, int, int],
        rngs: nnx.Rngs,
        gain: float = 1.0,
        activation: Activation = "gelu_tanh",
        bias: bool = True,
    ) -> None:
        inputs, hidden, outputs = widths
        self.activation = activation
        self.fc1 = Dense((("embed", inputs),), (("mlp", hidden),), rngs, bias)
        self.fc2 = Dense((("mlp", hidden),), (("embed", outputs),), rngs, bias, gain)

    def __call__(self, x: jax.Array, view: MeshView) -> jax.Array:
        """Sequence shards `[rows, tokens / shards, inputs]` to those of the block's output."""
        products = gathered_products(self.first, x, view)
        return self.last.scattered_product(self.activated(products), view)

    @property
    def first(self) -> tuple[Dense, ...]:
        """The product before the activations."""
        return (self.fc1,)

    def activated(self, products: Sequence[jax.Array]) -> jax.Array:
        """`first` of all tokens to `[rows, tokens, hidden / tensor]`."""
        return activate(*products, self.activation)

    @property
    def last(self) -> Dense:
        """The product after the activations."""
        return self.fc2


@partial(cheap, static_argnums=2)
def _of_unit_power(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    power = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(power + eps) * scale).astype(x.dtype)


@partial(cheap, static_argnums=3)
def _normalise(x: jax.Array, scale: jax.Array, bias: jax.Array, eps: float) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + eps) * scale + bias).astype(x.dtype)


@cheap
def gate_activation(gate: jax.Array, up: jax.Array) -> jax.Array:
    """What SwiGLU does between its products."""
    return jax.nn.silu(gate) * up


@partial(cheap, static_argnums=1)
def activate(hidden: jax.Array, activation: Activation) -> jax.Array:
    """What an MLP does between its products."""
    if activation == "quick_gelu":
        return hidden * jax.nn.sigmoid(1.702 * hidden)
    return jax.nn.gelu(hidden) if activation == "gelu_tanh" else gelu(hidden)


def residual_gain(layers: int) -> float:
    """GPT-2's factor on the output projections, so that depth does not grow the residual."""
    return 1.0 / math.sqrt(2 * layers)


def side_by_side(
    attention: SelfAttention,
    mlp: MLP | GatedMLP,
    x: jax.Array,
    context: LayerContext,
    view: MeshView,
    cache: KeyValueCache | None = None,
) -> tuple[jax.Array, KeyValueCache | None]:
    """Sum of attention and MLP of the same rows, which share one gather and one scatter.

    `[rows, tokens / shards, d_model]` to the same; and the cache, if any, with these tokens.
    """
    products = gathered_products([*attention.first, *mlp.first], x, view)
    count = len(attention.first)
    attended, cache = attention.attend_products(products[:count], context, view, cache)
    terms = [(attention.last, attended), (mlp.last, mlp.activated(products[count:]))]
    total = scattered_sum(terms, view)
    return mlp.last.add_bias(attention.last.add_bias(total)), cache
