"""The decoder: all families as one configurable block."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.layers.attention.cached import KeyValueCache
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.kinds import LayerKind, rotary_number
from mllm_jax.layers.dense import Dense, normal_parameter
from mllm_jax.layers.experts.block import Experts
from mllm_jax.layers.modules import (
    MLP,
    AttentionSpec,
    GatedMLP,
    LayerContext,
    LayerNorm,
    RMSNorm,
    SelfAttention,
    residual_gain,
    side_by_side,
)
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from mllm_jax.layers.vocabulary import LogitsTerm, embed_tokens
from sharding.collectives import axis_index, shard_slice
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux


class Embedding(nnx.Module):
    """A table `[entries, d_model]`, normal with variance `1 / d_model`."""

    def __init__(self, entries: int, axis: str | None, d_model: int, rngs: nnx.Rngs) -> None:
        self.embedding = normal_parameter(rngs, (entries, d_model), (axis, "embed"), d_model**-0.5)


class DecoderLayer(nnx.Module):
    """Pre-norm attention, then MLP or experts; names follow the released Llama weights.

    In a parallel block both read the first norm, and there is no second one.

    Args:
        kind: mask and rotary positions of attention, and whether the layer has experts.
    """

    def __init__(
        self, config: DecoderConfig, backend: str, kind: LayerKind, rngs: nnx.Rngs
    ) -> None:
        gain = residual_gain(config.layers)
        self.input_layernorm = _make_norm(config, rngs)
        self.self_attn = SelfAttention(_attention_spec(config, backend, kind), rngs)
        if not config.parallel_block:
            self.post_attention_layernorm = _make_norm(config, rngs)
        sparse = kind.mlp == "experts"
        if sparse and config.experts is not None:
            self.experts = Experts(config.experts, config.d_model, rngs, gain)
        else:
            self.mlp: GatedMLP | MLP = _make_mlp(config, rngs, gain)
        self.parallel, self.sparse, self.aux = config.parallel_block, sparse, tuple(config.aux)

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """`[rows, tokens / shards, d_model]` to the same, and auxiliary losses of this rank."""
        x, losses, _ = self.decode_step(x, context, view, None)
        return x, losses

    def decode_step(
        self, x: jax.Array, context: LayerContext, view: MeshView, cache: KeyValueCache | None
    ) -> tuple[jax.Array, Aux, KeyValueCache | None]:
        """The same for tokens that follow those of a cache; and the cache with these tokens."""
        losses: Aux = dict.fromkeys(self.aux, jnp.zeros(()))
        normed = self.input_layernorm(x)
        if self.parallel:
            update, aux, cache = self._side_by_side(normed, context, view, cache)
        else:
            attended, cache = self.self_attn.decode_step(normed, context, view, cache)
            x = x + attended
            update, aux = self._after_attention(self.post_attention_layernorm(x), context, view)
        x, losses = x + update, {**losses, **aux}
        if self.has_penalty:
            losses = {**losses, "activation": _sum_mean_squares(x, context, view)}
        return x, losses, cache

    def _after_attention(
        self, normed: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """What MLP or experts make of a norm's output, and their auxiliary losses."""
        if self.sparse:
            return self.experts(normed, context, view)
        return self.mlp(normed, view), {}

    def _side_by_side(
        self, normed: jax.Array, context: LayerContext, view: MeshView, cache: KeyValueCache | None
    ) -> tuple[jax.Array, Aux, KeyValueCache | None]:
        """Sum of attention and MLP or experts, all of one norm's output, and auxiliary losses.

        Attention and MLP share one gather and one scatter.
        """
        if self.sparse:
            update, aux = self.experts(normed, context, view)
            attended, cache = self.self_attn.decode_step(normed, context, view, cache)
            return attended + update, aux, cache
        update, cache = side_by_side(self.self_attn, self.mlp, normed, context, view, cache)
        return update, {}, cache

    @property
    def has_penalty(self) -> bool:
        """Whether the mean square of the layer's output is an auxiliary loss."""
        return "activation" in self.aux


def _make_mlp(config: DecoderConfig, rngs: nnx.Rngs, gain: float) -> GatedMLP | MLP:
    d_model, d_ff = config.d_model, config.d_ff
    if config.parts.gated_mlp:
        return GatedMLP(d_model, d_ff, rngs, gain)
    return MLP((d_model, d_ff, d_model), rngs, gain)


def _sum_mean_squares(x: jax.Array, context: LayerContext, view: MeshView) -> jax.Array:
    """Sum over this rank's tokens, padding aside, of the mean square of `x`, a float32 scalar."""
    real = shard_slice(context.segment_ids, view.sequence_axes, dim=1) > 0
    squares = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1)
    return jnp.sum(jnp.where(real, squares, 0))


def build_decoder_blocks(config: DecoderConfig, backend: str) -> ModuleBlocks:
    """Blocks of the decoder; no `lm_head` when tied, no `embed_positions` if they are rotary.

    `extra_embedding` is there with `extra_tokens`: the tokens after the vocabulary.
    """
    vocab, d_model = config.vocab_size, config.d_model
    blocks = {
        "embed_tokens": ParameterBlock(lambda rngs: Embedding(vocab, "vocab", d_model, rngs)),
        "layers": layer_block(
            partial(DecoderLayer, config, backend), config.layer_kinds, config.layers
        ),
        "norm": ParameterBlock(lambda rngs: _make_norm(config, rngs)),
    }
    if not config.parts.rotary:
        entries = config.max_positions
        blocks["embed_positions"] = ParameterBlock(
            lambda rngs: Embedding(entries, None, d_model, rngs)
        )
    if config.extra_tokens:
        extra = config.extra_tokens
        blocks["extra_embedding"] = ParameterBlock(
            lambda rngs: Embedding(extra, None, d_model, rngs)
        )
    if not config.tie_embeddings:
        blocks["lm_head"] = ParameterBlock(
            lambda rngs: Dense((("embed", d_model),), (("vocab", vocab),), rngs)
        )
    return blocks


def embed_text(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: DecoderConfig,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Token (and learned position) embeddings; zero where media are merged but for the position.

    With stages this is a stage's share of a sum over them.

    Args:
        blocks, params: blocks of the decoder and their local shards.
        rows: `inputs` and every `merges`, `[rows, tokens]`, and `positions`, `[rows, tokens,
            axes]`, replicated over the ranks of the row; learned positions have one axis.
        config: configuration of the decoder.

    Returns:
        `[rows, tokens / shards, d_model]`.
    """
    tokens, is_media = rows.inputs, jnp.zeros(rows.inputs.shape, bool)
    for index in rows.merges.values():
        is_media |= index >= 0
    table = blocks["embed_tokens"].bind(params["embed_tokens"], view).embedding[...]
    # Entries after the vocabulary may be padding of the table, which does not train.
    known = tokens < config.vocab_size
    x = embed_tokens(table, tokens, known & ~is_media, dtype, view)
    if "embed_positions" in blocks:
        learned = blocks["embed_positions"].bind(params["embed_positions"], view).embedding[...]
        learned_rows = learned[
            shard_slice(rows.positions[..., 0], view.sequence_axes, dim=1)
        ].astype(dtype)
        x = x + _on_first_stage(learned_rows, view)
    if "extra_embedding" in blocks:
        extra = blocks["extra_embedding"].bind(params["extra_embedding"], view).embedding[...]
        number = shard_slice(tokens, view.sequence_axes, dim=1) - config.vocab_size
        # A product, so that the gradient of a few rows is no sum of scattered ones.
        chosen = jax.nn.one_hot(number, config.extra_tokens, dtype=dtype)
        x = x + _on_first_stage(chosen @ extra.astype(dtype), view)
    return x


def _on_first_stage(rows: jax.Array, view: MeshView) -> jax.Array:
    """`rows`, which every stage has, as a term of a sum over stages: zero but on the first."""
    return jnp.where(axis_index(view.stage) == 0, rows, 0)


def layer_context(rows: ModuleRows, config: DecoderConfig) -> LayerContext:
    """What the layers read of packed rows, computed once."""
    arrays = rows.segment_ids, rows.positions, rows.index, rows.arrays
    return LayerContext.of(config.layer_kinds, config.head_dim, *arrays)


def head_terms(
    blocks: ModuleBlocks, params: Params, hidden: jax.Array, view: MeshView
) -> list[LogitsTerm]:
    """Operands whose products add up to the logits of this rank's entries.

    They are the states and the head's kernel, the transpose of the embedding if that is tied; and
    what the head's adapter, if there is one, makes of the states, and its second matrix.

    Args:
        hidden: `[tokens, d_model]`, replicated over the ranks of the vocabulary.

    Returns:
        Pairs of `[tokens, width]` in the type of `hidden` and `[width, padded vocab / ranks]` in
        the type of the parameters.
    """
    if "lm_head" not in blocks:
        tied = blocks["embed_tokens"].bind(params["embed_tokens"], view)
        return [(hidden, tied.embedding[...].T)]
    head = blocks["lm_head"].bind(params["lm_head"], view)
    terms = [(hidden, head.kernel[...])]
    if head.scale:
        terms.append((head.scale_lowered(head.lower_input(hidden)), head.lora_b[...]))
    return terms


def _make_norm(config: DecoderConfig, rngs: nnx.Rngs) -> nnx.Module:
    kind = LayerNorm if config.parts.layer_norm else RMSNorm
    return kind(config.d_model, config.norm_eps, rngs)


def _attention_spec(config: DecoderConfig, backend: str, kind: LayerKind) -> AttentionSpec:
    parts = config.parts
    return AttentionSpec(
        d_model=config.d_model,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        mask=kind.mask,
        backend=backend,
        rotary=rotary_number(config.layer_kinds, kind),
        q_bias="q" in parts.biases,
        k_bias="k" in parts.biases,
        v_bias="v" in parts.biases,
        o_bias="o" in parts.biases,
        qk_norm=config.norm_eps if parts.qk_norm else None,
        gain=residual_gain(config.layers),
    )
