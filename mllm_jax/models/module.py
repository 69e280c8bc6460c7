"""The whole model as pure functions; the exchange between encode and decode is the caller's.

    encode -> (exchange) -> decode_hidden -> loss or greedy_tokens

All run inside a fully manual `jax.shard_map` on local shards, or outside it with `View()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from mllm_jax.families.functions import load_functions
from mllm_jax.layers import transformer as decoder
from mllm_jax.layers import vocabulary
from mllm_jax.layers.adapters import adapted_tower
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.connector import connect, connector_block, deepstack_blocks, norm_block
from mllm_jax.layers.modules import LayerContext, gathered
from mllm_jax.layers.parameters import (
    Params,
    Tower,
    init_tower,
    run_layers,
    tower_axes,
    tower_shapes,
)
from mllm_jax.layers.tile_mixing import tapped
from mllm_jax.models.batch import NEXT_TOKEN, ModuleRows
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.work.flops import model_flops, tower_work
from sharding.collectives import shard_slice, unsharded
from sharding.grid import View
from sharding.layerstack.run import Aux, LayerStackSpec
from sharding.traced import traced_platform

__all__ = [
    "Decoder",
    "Encoder",
    "abstract_parameters",
    "compute_dtype",
    "decode_hidden",
    "encode",
    "greedy_tokens",
    "init_parameters",
    "loss",
    "model_flops",
    "parameter_axes",
    "tower_work",
]

#: The weights of layers without auxiliary losses.
NO_AUX: Mapping[str, float] = MappingProxyType({})


def init_parameters(config: ModelConfig, key: jax.Array) -> Params:
    """Initial float32 parameters of all modules, by name; independent of any parallel plan."""
    keys = jax.random.split(key, len(config.modules))
    return {
        name: init_tower(_blocks(config, name), own)
        for name, own in zip(config.modules, keys, strict=True)
    }


def parameter_axes(config: ModelConfig) -> Params:
    """Logical axes of every leaf of `init_parameters`, in the same structure."""
    return {name: tower_axes(_blocks(config, name)) for name in config.modules}


def abstract_parameters(config: ModelConfig) -> tuple[Params, Params]:
    """Shapes of all parameters, and their logical axes, without computing anything."""
    shapes = {name: tower_shapes(_blocks(config, name)) for name in config.modules}
    return shapes, parameter_axes(config)


class _Stacked(ABC):
    """A tower with stacked layers, whose parameters are gathered along fsdp.

    Attributes:
        tower: its blocks.
        view: its ranks.
        dtype: type of its activations.
    """

    tower: Tower
    view: View
    dtype: jnp.dtype

    def trained_apart(self, params: Params) -> tuple[Params, Params]:
        """Parameters of the tower that have gradients, and those that have none."""
        return params, {}

    def layer(
        self, params: Params, x: jax.Array, context: LayerContext, place: int = 0
    ) -> tuple[jax.Array, Aux]:
        """A layer on activations `[rows, tokens / shards, d_model]`, and its auxiliary losses."""
        return self.layer_of_whole(self.whole(params), x, context, place)

    def whole(self, params: Params) -> Params:
        """A layer's parameters made whole along fsdp, in the type of the activations."""
        return self.tower["layers"].gathered(params, self.view, self.dtype)

    def bound(self, params: Params, place: int) -> Any:
        """The module of a layer whose parameters are whole along fsdp."""
        return self.tower["layers"].bind(params, self.view.gathered, place=place)

    @abstractmethod
    def layer_of_whole(
        self, params: Params, x: jax.Array, context: LayerContext, place: int = 0
    ) -> tuple[jax.Array, Aux]:
        """`layer` of parameters that are whole along fsdp."""


class Encoder(_Stacked):
    """One encoder with its connector, in the parts that a pipeline runs by themselves.

    Batches and views are those of a lane of it.

    Every method takes the local shards of the whole tower, `parameters[name]`, of which
    `layer` alone takes one layer's.

    Args:
        config: configuration of the whole model.
        name: name of the encoder.
        view: ranks of the lane; rows of a batch are whole on them.
    """

    def __init__(self, config: ModelConfig, name: str, view: View) -> None:
        self.settings, self.view, self.dtype = config.encoders[name], view, compute_dtype(config)
        self.tower, self._family = _encoder(config, name), load_functions(self.settings)
        self.traits = LayerStackSpec(
            self.settings.period,
            tapped_layers=self.settings.deepstack,
            without=self.tower["layers"].without,
        )
        self.aux = NO_AUX
        self._inputs, self._remat = config.layer_inputs, config.remats.get(name, config.remat)

    def outputs(self, params: Params, rows: ModuleRows) -> jax.Array:
        """All parts one after the other; see `encode`."""
        x, context = self.embed(params, rows), self.context(rows)
        x, _ = run_layers(self, params["layers"], x, context, self._remat)
        return self.connect(params, x, rows)

    def embed(self, params: Params, rows: ModuleRows) -> jax.Array:
        """Local rows of a lane to `[rows, positions / shards, d_model]`.

        Behind its features is room for the outputs of layers in `deepstack`.
        """
        own = self.tower, params, rows, self.settings, self.view, self.dtype
        return _with_room(self._family.embed(*own), len(self.settings.deepstack))

    def context(self, rows: ModuleRows) -> LayerContext:
        """What the layers read of rows beside the activations."""
        return self._family.context(rows, self.settings)

    def layer_of_whole(
        self, params: Params, x: jax.Array, context: LayerContext, place: int = 0
    ) -> tuple[jax.Array, Aux]:
        """See `_Stacked.layer_of_whole`; no layer has auxiliary losses."""
        return self.bound(params, place)(x, context, self.view), {}

    def norm(self, params: Params, x: jax.Array) -> jax.Array:
        """The norm after the layers, for the families that have one."""
        return self.tower["norm"].bind(params["norm"], self.view)(x) if "norm" in params else x

    def connect(self, params: Params, x: jax.Array, rows: ModuleRows) -> jax.Array:
        """Norm, connector and, of tiled images, what of it lands.

        `[rows, positions / stack / shards, d_model of the decoder]`, with inputs of the decoder's
        layers behind its features: what connectors of their own make of layers in `deepstack`.

        Args:
            x: out of the layers.
        """
        names = deepstack_blocks(self.settings)
        last, *earlier = jnp.split(x, 1 + len(names), axis=-1)
        found = [self._connected("connector", params, last, rows, partial(self.norm, params))]
        for name, own in zip(names, earlier, strict=True):
            norm = self.tower[f"{name}_norm"].bind(params[f"{name}_norm"], self.view)
            found.append(self._connected(name, params, own, rows, norm))
        joined = jnp.concatenate(found, axis=-1) if names else found[0]
        if "taps" in rows.arrays:
            joined = tapped(joined, rows.arrays["taps"], rows.arrays["shares"], self.view)
        return _with_room(joined, self._inputs - len(names), 1 + len(names))

    def _connected(
        self,
        name: str,
        params: Params,
        x: jax.Array,
        rows: ModuleRows,
        norm: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        joint, ids = (self.tower[name], params[name]), self.context(rows).segment_ids
        return connect(*joint, x, ids, self.settings, norm, self.view)


class Decoder(_Stacked):
    """The decoder in the parts that a pipeline runs by themselves; see `Encoder`.

    Args:
        config: configuration of the whole model.
        view: ranks of the decoder. The vocabulary is split over their stages, too.

    Attributes:
        traits: how layers differ, and what else they take and give.
        aux: auxiliary losses that every layer gives, and their weights in the loss.
    """

    def __init__(self, config: ModelConfig, view: View) -> None:
        self.config, self.view, self.dtype = config, view, compute_dtype(config)
        self.tower = _decoder(config)
        own, self.aux = config.decoder, config.decoder.aux
        without = self.tower["layers"].without
        self.traits = LayerStackSpec(
            own.period, tuple(own.aux), config.layer_inputs, without=without
        )

    def embed(self, params: Params, rows: ModuleRows) -> jax.Array:
        """Embeddings of the tokens, zero at media: `[rows, tokens / shards, d_model]`.

        Behind its features is room for the layers' own inputs, which encoders give.
        With stages this is a stage's share of a sum over them.
        """
        is_media = jnp.zeros(rows.inputs.shape, bool)
        for index in rows.merges.values():
            is_media |= index >= 0
        inputs = rows.inputs, rows.positions, is_media
        config = self.config.decoder
        x = decoder.embed(config, self.tower, params, *inputs, self.view, self.dtype)
        return _with_room(x, self.traits.side_inputs)

    def context(self, rows: ModuleRows) -> LayerContext:
        """What the layers read of rows beside the activations."""
        return decoder.layer_context(self.config.decoder, rows)

    def layer_of_whole(
        self, params: Params, x: jax.Array, context: LayerContext, place: int = 0
    ) -> tuple[jax.Array, Aux]:
        """See `_Stacked.layer_of_whole`."""
        made: tuple[jax.Array, Aux] = self.bound(params, place)(x, context, self.view)
        return made

    def states(
        self, params: Params, rows: ModuleRows, media: jax.Array | None
    ) -> tuple[jax.Array, Aux]:
        """All parts up to the last norm; see `decode_hidden`."""
        x = self.embed(params, rows)
        if media is not None:
            x = x + media.astype(self.dtype)
        context, remat = self.context(rows), self.config.remat
        x, aux = run_layers(self, params["layers"], x, context, remat)
        return self.norm(params, x), aux

    def norm(self, params: Params, x: jax.Array) -> jax.Array:
        """The norm before the head."""
        return self.tower["norm"].bind(params["norm"], self.view)(x)

    def head(self, params: Params, x: jax.Array, rows: ModuleRows) -> jax.Array:
        """Norm, head and `loss`."""
        return loss(params, self.norm(params, x), rows, self.config, self.view)


def encode(
    params: Params, name: str, rows: ModuleRows, config: ModelConfig, view: View
) -> jax.Array:
    """Run one encoder and its connector on the rows of one of its lanes.

    Args:
        params: local shards of this encoder, `parameters[name]`.
        rows: local rows of the lane.

    Returns:
        `[rows, positions / reduction / shards, d_model of the decoder]`, as of `Encoder.connect`.
    """
    return Encoder(config, name, view).outputs(params, rows)


def decode_hidden(
    params: Params,
    rows: ModuleRows,
    media: jax.Array | None,
    config: ModelConfig,
    view: View,
) -> tuple[jax.Array, Aux]:
    """Run the decoder up to its last norm.

    Args:
        params: local shards, `parameters["decoder"]`.
        rows: local rows of the decoder.
        media: `[rows, tokens / shards, d_model]`, encoder outputs where they land and zero
            elsewhere, with inputs of the layers behind its features; None if the batch has none.

    Returns:
        `[rows, tokens / shards, d_model]`, and this rank's shares of the auxiliary losses.
    """
    return Decoder(config, view).states(params, rows, media)


def loss(
    params: Params, hidden: jax.Array, rows: ModuleRows, config: ModelConfig, view: View
) -> jax.Array:
    """Weighted sum of cross entropies over the local tokens.

    A float32 scalar, equal on all tensor ranks and different along `View.tokens`.
    """
    targets = rows.targets[NEXT_TOKEN]
    return vocabulary.cross_entropy(
        decoder.head_terms(_decoder(config), params, _flat(hidden, view), view),
        shard_slice(targets.labels, view.context, dim=1).reshape(-1),
        shard_slice(targets.weights, view.context, dim=1).reshape(-1),
        config.decoder.vocab_size,
        config.loss_chunk,
        view,
    )


def greedy_tokens(params: Params, hidden: jax.Array, config: ModelConfig, view: View) -> jax.Array:
    """Most likely next token at every position, `[rows, tokens]` int32, equal on a row's ranks."""
    terms = decoder.head_terms(_decoder(config), params, _flat(hidden, view), view)
    vocab, chunk = config.decoder.vocab_size, config.loss_chunk
    best = vocabulary.argmax(terms, vocab, chunk, view)
    return unsharded(best.reshape(hidden.shape[0], -1), view.context, dim=1)


def compute_dtype(config: ModelConfig) -> jnp.dtype:
    """Type of activations on the platform that is traced for."""
    return jnp.dtype(config.dtype_on(traced_platform()))


def _blocks(config: ModelConfig, name: str) -> Tower:
    return _decoder(config) if name == config.backbone else _encoder(config, name)


@lru_cache(maxsize=64)  # Blocks find shapes and axes of their parameters once.
def _decoder(config: ModelConfig) -> Tower:
    tower = decoder.decoder_tower(config.decoder, config.attention)
    return MappingProxyType(adapted_tower(tower, "decoder", config.adapters))


@lru_cache(maxsize=64)
def _encoder(config: ModelConfig, name: str) -> Tower:
    settings: EncoderConfig = config.encoders[name]
    tower = load_functions(settings).tower(settings, config.attention)
    d_decoder = config.decoder.d_model
    tower = {**tower, "connector": connector_block(settings, d_decoder)}
    for block in deepstack_blocks(settings):
        tower[block] = connector_block(settings, d_decoder)
        tower[f"{block}_norm"] = norm_block(settings)
    return MappingProxyType(adapted_tower(tower, name, config.adapters))


def _with_room(x: jax.Array, count: int, parts: int = 1) -> jax.Array:
    """`x`, of `parts` equal parts, with as many parts of zeros as `count` behind its features."""
    width = x.shape[-1] // parts
    return jnp.pad(x, ((0, 0), (0, 0), (0, count * width))) if count else x


def _flat(hidden: jax.Array, view: View) -> jax.Array:
    """Sequence shards to `[rows * tokens, d_model]`, tokens of the context rank."""
    return gathered(hidden, view).reshape(-1, hidden.shape[-1])
