"""The whole model as pure functions; the exchange between encode and decode is the caller's.

    encode -> (exchange) -> decode_hidden -> loss or greedy_tokens

All run inside a fully manual `jax.shard_map` on local shards, or outside it with `View()`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mllm_jax.models import decoder, vocabulary
from mllm_jax.models.config import EncoderConfig, ModelConfig
from mllm_jax.models.connector import connect, connector_block
from mllm_jax.models.encoders import vision, whisper
from mllm_jax.models.layers import gathered
from mllm_jax.models.parameters import Params, Tower, init_tower, run_layers, tower_axes
from mllm_jax.models.work import model_flops, tower_work
from sharding.grid import View

__all__ = [
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

_FAMILIES: dict[str, Any] = {"siglip": vision, "vit22b": vision, "whisper": whisper}


def init_parameters(config: ModelConfig, key: jax.Array) -> Params:
    """Initial float32 parameters of the whole model; independent of any parallel plan."""
    keys = dict(zip(_names(config), jax.random.split(key, len(config.encoders) + 1), strict=True))
    return {
        "decoder": init_tower(_decoder(config), keys["decoder"]),
        "encoders": {
            name: init_tower(_encoder(config, name), keys[name]) for name in config.encoders
        },
    }


def parameter_axes(config: ModelConfig) -> Params:
    """Logical axes of every leaf of `init_parameters`, in the same structure."""
    return {
        "decoder": tower_axes(_decoder(config)),
        "encoders": {name: tower_axes(_encoder(config, name)) for name in config.encoders},
    }


def abstract_parameters(config: ModelConfig) -> tuple[Params, Params]:
    """Shapes of all parameters, and their logical axes, without computing anything."""
    shapes = jax.eval_shape(lambda: init_parameters(config, jax.random.key(0)))
    return shapes, parameter_axes(config)


def encode(
    params: Params, name: str, batch: dict[str, jax.Array], config: ModelConfig, view: View
) -> jax.Array:
    """Run one encoder and its connector.

    Args:
        params: local shards of this encoder, `parameters["encoders"][name]`.
        batch: local rows of `batch["encoders"][name]`.

    Returns:
        `[rows, positions / reduction / tensor, d_model of the decoder]`.
    """
    settings, tower = config.encoders[name], _encoder(config, name)
    family = _FAMILIES[settings.family]
    x, segments = family.embed(tower, params, batch, settings, view, compute_dtype(config))
    x = run_layers(tower["layers"], params["layers"], x, segments, view, config.remat)
    x = tower["norm"].bind(params["norm"], view)(x)
    joint = tower["connector"], params["connector"]
    return connect(*joint, x, segments.ids, settings.stack, view)


def decode_hidden(
    params: Params,
    batch: dict[str, Any],
    media: jax.Array | None,
    config: ModelConfig,
    view: View,
) -> jax.Array:
    """Run the decoder up to its last norm.

    Args:
        params: local shards, `parameters["decoder"]`.
        batch: local rows of `batch["decoder"]`.
        media: `[rows, tokens / tensor, d_model]`, encoder outputs where they land and zero
            elsewhere; None if the batch has none.

    Returns:
        `[rows, tokens / tensor, d_model]`.
    """
    tower, dtype = _decoder(config), compute_dtype(config)
    is_media = jnp.zeros(batch["tokens"].shape, bool)
    for index in batch["media"].values():
        is_media |= index >= 0
    positions = batch["positions"]
    x = decoder.embed(tower, params, batch["tokens"], positions, is_media, view, dtype)
    if media is not None:
        x = x + media.astype(dtype)
    segments = decoder.segments_of(config.decoder, batch["segment_ids"], positions)
    x = run_layers(tower["layers"], params["layers"], x, segments, view, config.remat)
    return tower["norm"].bind(params["norm"], view)(x)


def loss(
    params: Params, hidden: jax.Array, batch: dict[str, Any], config: ModelConfig, view: View
) -> jax.Array:
    """Weighted sum of cross entropies over the local rows.

    A float32 scalar, equal on all tensor ranks and different on batch ranks.
    """
    return vocabulary.cross_entropy(
        _flat(hidden, view),
        decoder.head_kernel(_decoder(config), params, view),
        batch["targets"].reshape(-1),
        batch["loss_weight"].reshape(-1),
        config.loss_chunk,
        view,
    )


def greedy_tokens(params: Params, hidden: jax.Array, config: ModelConfig, view: View) -> jax.Array:
    """Most likely next token at every position, `[rows, tokens]` int32, equal on tensor ranks."""
    kernel = decoder.head_kernel(_decoder(config), params, view)
    best = vocabulary.argmax(_flat(hidden, view), kernel, config.loss_chunk, view)
    return best.reshape(hidden.shape[0], -1)


def compute_dtype(config: ModelConfig) -> jnp.dtype:
    """Type of activations; `auto` is bfloat16 but on CPU."""
    if config.dtype == "auto":
        return jnp.dtype("float32" if jax.default_backend() == "cpu" else "bfloat16")
    return jnp.dtype(config.dtype)


def _names(config: ModelConfig) -> tuple[str, ...]:
    return ("decoder", *sorted(config.encoders))


def _decoder(config: ModelConfig) -> Tower:
    return decoder.decoder_tower(config.decoder, config.attention)


def _encoder(config: ModelConfig, name: str) -> Tower:
    settings: EncoderConfig = config.encoders[name]
    tower = _FAMILIES[settings.family].tower(settings, config.attention)
    return {**tower, "connector": connector_block(settings, config.decoder.d_model)}


def _flat(hidden: jax.Array, view: View) -> jax.Array:
    """Sequence shards to `[rows * tokens, d_model]`."""
    return gathered(hidden, view).reshape(-1, hidden.shape[-1])
