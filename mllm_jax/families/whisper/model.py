"""Whisper's audio encoder over packed clips.

The convolutions see a clip as if it were alone: a tap that falls outside its clip reads zero. With
kernel 3 and stride 2 a clip of 5 frames at an even offset gives 3 outputs::

    frames   a0 a1 a2 a3 a4 .  b0 b1
    taps of output 2:  a3 a4 (zero)      not b0, and not the slack frame

Frames with a negative segment id lie after the clip of that number. The convolutions read them, as
released ones read on in the silence after a clip, but they are no positions.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.families.whisper.config import CONVOLUTION, WhisperConfig
from mllm_jax.layers.config.kinds import LayerKind, mask_ids, rotary_number
from mllm_jax.layers.dense import Dense
from mllm_jax.layers.modules import (
    MLP,
    AttentionSpec,
    LayerContext,
    LayerNorm,
    SelfAttention,
    residual_gain,
)
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from mllm_jax.layers.positions import make_sinusoids
from mllm_jax.layers.varying import gelu
from sharding.collectives import shard_slice
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux


class WhisperConvolutions(nnx.Module):
    """Two convolutions of three taps.

    The channels between them are split over tensor: the first is column-parallel, the second
    row-parallel. Kernels are `[3, inputs, outputs]`.
    """

    def __init__(self, config: WhisperConfig, rngs: nnx.Rngs) -> None:
        channels, taps = config.d_model, (None, CONVOLUTION)
        self.conv1 = Dense((taps, (None, config.mels)), (("mlp", channels),), rngs, bias=True)
        self.conv2 = Dense((taps, ("mlp", channels)), (("embed", channels),), rngs, bias=True)


class PositionTable(nnx.Module):
    """A table of positions, `[max_positions, d_model]`: sinusoids, if no other one is loaded.

    It does not train, as its name says (`mllm_jax.layers.trainable.FIXED`).
    """

    def __init__(self, entries: int, d_model: int, rngs: nnx.Rngs) -> None:
        del rngs
        table = make_sinusoids(jnp.arange(entries)[None], d_model)[0]
        self.fixed = nnx.Param(table, axes=(None, "embed"))

    def __call__(self, positions: jax.Array) -> jax.Array:
        """`[rows, positions]` to `[rows, positions, d_model]` float32."""
        return jax.lax.stop_gradient(self.fixed[...])[positions]


class WhisperLayer(nnx.Module):
    """Pre-norm attention (no bias on k), then MLP; names follow the released weights."""

    def __init__(
        self, config: WhisperConfig, backend: str, kind: LayerKind, rngs: nnx.Rngs
    ) -> None:
        gain = residual_gain(config.layers)
        widths = (config.d_model, config.d_ff, config.d_model)
        self.self_attn_layer_norm = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.self_attn = SelfAttention(_attention_spec(config, backend, kind), rngs)
        self.final_layer_norm = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.mlp = MLP(widths, rngs, gain, "gelu")

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """`[rows, frames / shards, d_model]` to the same; no auxiliary losses."""
        x = x + self.self_attn(self.self_attn_layer_norm(x), context, view)
        return x + self.mlp(self.final_layer_norm(x), view), {}


def build_blocks(config: WhisperConfig, backend: str) -> ModuleBlocks:
    """Blocks of the encoder, without the connector; `positions` where there is a table of them."""
    blocks = {
        "embeddings": ParameterBlock(lambda rngs: WhisperConvolutions(config, rngs)),
        "layers": layer_block(
            partial(WhisperLayer, config, backend), config.layer_kinds, config.layers
        ),
        "norm": ParameterBlock(lambda rngs: LayerNorm(config.d_model, config.norm_eps, rngs)),
    }
    if (entries := config.max_positions) is not None:
        blocks["positions"] = ParameterBlock(
            lambda rngs: PositionTable(entries, config.d_model, rngs)
        )
    return blocks


def embed_audio(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: WhisperConfig,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Mel frames to `[rows, frames / stride / shards, d_model]`.

    Args:
        rows: `inputs [rows, frames, mels]`, `segment_ids [rows, frames]` and `positions [rows,
            frames, 1]`, replicated over the ranks of the row; every clip starts at a multiple of
            the stride, and frames after it have its id negated.
    """
    module = blocks["embeddings"].bind(params["embeddings"], view)
    first, second = config.strides
    ids = jnp.abs(rows.segment_ids)
    x = module.conv1(convolution_taps(rows.inputs.astype(dtype), ids, first))
    ids = ids[:, ::first]
    x = jnp.where((ids > 0)[..., None], gelu(x), 0)
    x = module.conv2.scattered_product(
        shard_slice(convolution_taps(x, ids, second), view.context, dim=1), view
    )
    ids = clip_ids(rows, config)
    positions = rows.positions[:, :: config.stride, 0] // config.stride
    local, positions = (shard_slice(a, view.sequence_axes, dim=1) for a in (ids, positions))
    x = gelu(x) + _embed_positions(blocks, params, positions, config, view).astype(dtype)
    return jnp.where((local > 0)[..., None], x, 0)


def _embed_positions(
    blocks: ModuleBlocks,
    params: Params,
    positions: jax.Array,
    config: WhisperConfig,
    view: MeshView,
) -> jax.Array:
    """`[rows, positions]` to `[rows, positions, d_model]` float32."""
    if "positions" in blocks:
        return blocks["positions"].bind(params["positions"], view)(positions)
    return make_sinusoids(positions, config.d_model)


def layer_context(rows: ModuleRows, config: WhisperConfig) -> LayerContext:
    """What the layers read of packed rows; frames after a clip are padding there."""
    stride, kinds = config.stride, config.layer_kinds
    arrays = {name: rows.array(name)[:, ::stride] for name in mask_ids(kinds)}
    positions, ids = rows.positions[:, ::stride] // stride, clip_ids(rows, config)
    return LayerContext.of(kinds, config.head_dim, ids, positions, arrays=arrays)


def clip_ids(rows: ModuleRows, config: WhisperConfig) -> jax.Array:
    """Id of the clip of each position between the layers, `[rows, positions]`, 0 = padding."""
    return jnp.maximum(rows.segment_ids[:, :: config.stride], 0)


def convolution_taps(x: jax.Array, ids: jax.Array, stride: int) -> jax.Array:
    """The three inputs of every output of a convolution, zero outside the output's clip.

    Args:
        x: `[rows, frames, channels]`.
        ids: `[rows, frames]` segment ids, 0 = padding.

    Returns:
        `[rows, frames / stride, 3, channels]`: frames `stride * i - 1`, `stride * i`,
        `stride * i + 1` for output i.
    """
    frames = x.shape[1]
    centre = ids[:, ::stride]
    padded = jnp.pad(x, ((0, 0), (1, 1), (0, 0)))
    owners = jnp.pad(ids, ((0, 0), (1, 1)))
    read = [
        jnp.where(
            ((owners[:, k : k + frames : stride] == centre) & (centre > 0))[..., None],
            padded[:, k : k + frames : stride],
            0,
        )
        for k in range(CONVOLUTION)
    ]
    return jnp.stack(read, axis=2)


def _attention_spec(config: WhisperConfig, backend: str, kind: LayerKind) -> AttentionSpec:
    return AttentionSpec(
        d_model=config.d_model,
        heads=config.heads,
        kv_heads=config.heads,
        head_dim=config.head_dim,
        mask=kind.mask,
        backend=backend,
        rotary=rotary_number(config.layer_kinds, kind),
        q_bias=True,
        v_bias=True,
        o_bias=True,
        gain=residual_gain(config.layers),
    )


FUNCTIONS = ModuleFunctions(build_blocks, embed_audio, layer_context)
