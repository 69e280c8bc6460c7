"""The decoder with a cache: rows of prompts, then a token of every answer at a time.

Each layer has a tree of parameters here, and the program lists the layers one after the other: a
loop over layers would copy the parameters of each before it reads them, for every token.

A row may hold several segments. Its answers grow at the same time, and every step of decoding is a
row of as many columns, a multiple of the ranks that share the positions of a row; columns without
an answer are padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.layers import transformer as decoders
from mllm_jax.layers import vocabulary
from mllm_jax.layers.attention.cached import KeyValueCache
from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.config.kinds import SPAN_IDS, has_spans
from mllm_jax.layers.dense import gather_sequence
from mllm_jax.layers.parameters import Params
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from sharding.axes import stored_dimension
from sharding.collectives import all_gather, shard_slice, vary
from sharding.grid import MeshView
from sharding.layerstack.spec import LayerStackSpec


class DecodingCache(NamedTuple):
    """Keys and values of all layers on this rank; see `layers.attention.cached`.

    Attributes:
        layers: of each layer its keys and values, `[rows, kv_heads, slots, head_dim]`.
        tokens: ids of the tokens that the slots hold, `[rows, slots]` int32.
    """

    layers: tuple[tuple[jax.Array, jax.Array], ...]
    tokens: TokenIds

    def with_tokens(self, tokens: TokenIds, start: jax.Array | int) -> DecodingCache:
        """The cache whose slots from `start` on are those of tokens with these ids."""
        put = partial(lax.dynamic_update_slice_in_dim, start_index=start, axis=1)
        return self._replace(tokens=jax.tree.map(put, self.tokens, tokens))


def without_losses(model: ModelConfig) -> ModelConfig:
    """The same model without auxiliary losses, which nothing reads here."""
    backbone = model.backbone_config
    experts = backbone.experts
    if experts is not None:
        experts = experts.model_copy(update={"balance_weight": 0.0, "z_weight": 0.0})
    decoder = backbone.model_copy(update={"experts": experts, "activation_penalty": 0.0})
    return model.with_modules({model.backbone: decoder})


class CachedDecoder(multimodal.ShardedModule):
    """The decoder for rows that follow others.

    Parameters are those of `unstack_layers`: with `layers` as a sequence.

    Args:
        model: configuration of the model.
        view: ranks of the decoder, without stages.
    """

    def __init__(self, model: ModelConfig, view: MeshView) -> None:
        super().__init__(without_losses(model), model.backbone, view)

    def unstack_parameters(
        self, params: Params, take: Callable[[int, Any], Any] = lambda row, leaf: leaf[row]
    ) -> Params:
        """Parameters of the decoder with a tree for each layer, see `unstack_layers`."""
        count = self.config.backbone_config.layers
        return params | {"layers": unstack_layers(params["layers"], self.spec, count, take)}

    def forward_cached(
        self,
        params: Params,
        rows: ModuleRows,
        media: jax.Array | None,
        cache: DecodingCache,
        start: jax.Array | None,
    ) -> tuple[jax.Array, DecodingCache]:
        """Run the decoder up to its last norm.

        Args:
            params: local shards, with a tree for each layer.
            rows: local rows, complete on every rank of a row.
            media: as `merged` of `ShardedModule.forward`.
            cache: cache whose `tokens` have these in them.
            start: first slot of these tokens; None: the first of all, nothing is before them.

        Returns:
            `[rows, tokens / shards, d_model]`, and the cache with these tokens.
        """
        x = self.embed(params, rows)
        x = x if media is None else x + media.astype(self.dtype)
        x, *side_inputs = jnp.split(x, 1 + self.spec.side_inputs, axis=-1)
        context, extended = self.context(rows), []
        for number, layer_params in enumerate(params["layers"]):
            layer = self.bind_layer(self.gather_parameters(layer_params), number % self.spec.period)
            layer_cache = KeyValueCache(*cache.layers[number], cache.tokens, start)
            x, _, layer_cache = layer.decode_step(x, context, self.view, layer_cache)
            x = x + side_inputs[number] if number < len(side_inputs) else x
            extended.append((layer_cache.keys, layer_cache.values))
        return self.apply_norm(params, x), cache._replace(layers=tuple(extended))

    def empty_cache(self, rows: int, slots: int) -> DecodingCache:
        """A cache without a token, for so many rows of this rank."""
        decoder = self.config.backbone_config
        heads = _kv_heads_per_rank(decoder.heads, decoder.kv_heads, self.view)
        shape = (rows, heads, slots, decoder.head_dim)
        zeros = vary(jnp.zeros(shape, self.dtype), self.view.all_axes)
        layers = ((zeros, zeros),) * decoder.layers
        ids = vary(jnp.zeros((rows, slots), jnp.int32), self.view.batch_axes)
        return DecodingCache(layers, TokenIds(ids, ids, ids if self.reads_spans else None))

    def token_ids(self, rows: ModuleRows) -> TokenIds:
        """What masks compare of tokens, as the cache holds it."""
        spans = rows.array(SPAN_IDS) if self.reads_spans else None
        return TokenIds(rows.segment_ids, rows.index, spans)

    @property
    def reads_spans(self) -> bool:
        """Whether a mask of the decoder has spans."""
        return has_spans(self.config.backbone_config.layer_kinds)

    def greedy_tokens(self, params: Params, hidden: jax.Array) -> jax.Array:
        """Most likely next token, `[rows, tokens]` int32, equal on a row's ranks.

        Args:
            hidden: `[rows, tokens / shards, d_model]`.
        """
        return multimodal.greedy_tokens(params, hidden, self.config, self.view)

    def full_logits(self, params: Params, hidden: jax.Array) -> jax.Array:
        """Logits of the full vocabulary for the tokens of this context rank.

        `[rows, tokens / shards, d_model]` to `[rows, tokens / context, vocab]` float32.
        """
        flat, vocab = gather_sequence(hidden, self.view), self.config.backbone_config.vocab_size
        states = flat.reshape(-1, flat.shape[-1])
        terms = decoders.head_terms(self.blocks, params, states, self.view)
        logits = vocabulary.full_logits(terms, vocab, self.view)
        return logits.reshape(*flat.shape[:2], vocab)

    def take_states(self, hidden: jax.Array, places: jax.Array) -> jax.Array:
        """States at some positions of every row, split over its ranks again.

        Args:
            hidden: `[rows, tokens / shards, d_model]`.
            places: `[rows, columns]` positions, complete on every rank of a row.

        Returns:
            `[rows, columns / shards, d_model]`.
        """
        gathered = all_gather(hidden, self.view.sequence_axes, dim=1)
        local_places = shard_slice(places, self.view.sequence_axes, dim=1)
        return jnp.take_along_axis(gathered, local_places[..., None], axis=1)


def unstack_layers(
    layers: Params,
    spec: LayerStackSpec,
    count: int,
    take: Callable[[int, Any], Any] = lambda row, leaf: leaf[row],
) -> tuple[Params, ...]:
    """A stack of layers as a tree for each, of the entries that the layer has.

    Args:
        layers: entries of the stack, `[layers that have it, ...]`, see `LayerStackSpec`.
        spec: how the layers differ.
        count: number of layers.
        take: what a layer has of a leaf, from its number among the layers that have the leaf.
    """

    def layer_parameters(number: int) -> Params:
        period, kind = divmod(number, spec.period)
        heads = {}
        for name, entry in layers.items():
            kinds = spec.kinds_with(name)
            if kind in kinds:
                row = period * len(kinds) + kinds.index(kind)
                heads[name] = jax.tree.map(partial(take, row), entry)
        return heads

    return tuple(layer_parameters(number) for number in range(count))


def cast_to_compute_dtype(params: Params, axes: Any, dtype: jnp.dtype) -> Params:
    """Parameters in the type in which layers take them, if they are gathered (`rules`).

    That is once, and not for every token; others stay float32, such as scales of norms.
    """

    def cast_leaf(names: tuple[str | None, ...], leaf: jax.Array) -> jax.Array:
        return leaf if stored_dimension(names, "gathered") is None else leaf.astype(dtype)

    return jax.tree.map(cast_leaf, axes, params, is_leaf=lambda x: isinstance(x, tuple))


def next_positions(rows: ModuleRows, segments: jax.Array) -> jax.Array:
    """The position that follows those of each prompt: one more than the largest on any axis.

    Args:
        rows: rows with prompts.
        segments: `[rows, columns]`: number of each prompt in its row.

    Returns:
        `[rows, columns]` int32.
    """
    same_segment = rows.segment_ids[:, None, :] == segments[:, :, None]
    return 1 + jnp.max(
        jnp.where(same_segment, rows.positions.max(axis=-1)[:, None, :], -1), axis=-1
    )


def _kv_heads_per_rank(heads: int, kv_heads: int, view: MeshView) -> int:
    """Heads of keys and values that a rank has in attention, see `SelfAttention`."""
    queries = heads // view.degree_of(view.tensor)
    per_rank = kv_heads // view.degree_of(view.kv_head_axes)
    if per_rank > 1 and view.kv_replicas:
        per_rank = queries // math.gcd(heads // kv_heads, queries)
    degree = view.degree_of(view.context)
    return per_rank * (degree // math.gcd(per_rank, degree)) // degree
