"""Parts that vision transformers share; patches of several images are packed in one row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.layers.config.connector import Activation
from mllm_jax.layers.config.encoder import EncoderConfig, ImageEncoderConfig
from mllm_jax.layers.config.kinds import LayerKind, rotary_number
from mllm_jax.layers.dense import Dense, normal_parameter
from mllm_jax.layers.modules import (
    MLP,
    AttentionSpec,
    LayerContext,
    LayerNorm,
    SelfAttention,
    residual_gain,
)
from mllm_jax.layers.parameters import ModuleBlocks, Params
from mllm_jax.layers.positions import grid_positions
from sharding.collectives import shard_slice
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux


class PatchEmbedding(nnx.Module):
    """Patches `[.., height * width * channels]` to `d_model`, and the learned position grid."""

    def __init__(self, config: ImageEncoderConfig, rngs: nnx.Rngs) -> None:
        d_model, entries = config.d_model, config.grid[0] * config.grid[1]
        self.patch_embedding = Dense(
            ((None, config.features),), (("embed", d_model),), rngs, bias=True
        )
        self.position_embedding = normal_parameter(
            rngs, (entries, d_model), (None, "embed"), d_model**-0.5
        )


class PreNormLayer(nnx.Module):
    """Pre-norm attention, then MLP, biases everywhere: a layer of SigLIP and of CLIP.

    Names of the parameters follow the released weights.
    """

    def __init__(
        self,
        config: ImageEncoderConfig,
        backend: str,
        activation: Activation,
        kind: LayerKind,
        rngs: nnx.Rngs,
    ) -> None:
        gain = residual_gain(config.layers)
        widths = (config.d_model, config.d_ff, config.d_model)
        self.layer_norm1 = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.self_attn = SelfAttention(attention_spec(config, backend, kind, bias=True), rngs)
        self.layer_norm2 = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.mlp = MLP(widths, rngs, gain, activation)

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """`[rows, patches / shards, d_model]` to the same; no auxiliary losses."""
        x = x + self.self_attn(self.layer_norm1(x), context, view)
        return x + self.mlp(self.layer_norm2(x), view), {}


def embed_patches(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: ImageEncoderConfig,
    view: MeshView,
    dtype: jnp.dtype,
    antialias: bool = False,
) -> jax.Array:
    """Patches to `[rows, patches / shards, d_model]`; each rank embeds its own share.

    Args:
        rows: `inputs [rows, patches, features]`, `segment_ids [rows, patches]`, `positions` and
            the array `sizes`, both `[rows, patches, 2]`, replicated over the ranks of the row.
        antialias: as in `grid_positions`.
    """
    module = blocks["embeddings"].bind(params["embeddings"], view)
    inputs, positions, sizes = patches_of(rows, view)
    x = module.patch_embedding(inputs.astype(dtype))
    learned = module.position_embedding[...], config.grid
    return x + grid_positions(*learned, positions, sizes, antialias).astype(dtype)


def patches_of(rows: ModuleRows, view: MeshView) -> tuple[jax.Array, jax.Array, jax.Array]:
    """This rank's share of the patches, of their positions and of the sizes of their images."""
    full = rows.inputs, rows.positions, rows.array("sizes")
    inputs, positions, sizes = (shard_slice(array, view.sequence_axes, dim=1) for array in full)
    return inputs, positions, sizes


def layer_context(rows: ModuleRows, config: EncoderConfig) -> LayerContext:
    """What the layers read of packed rows, computed once."""
    arrays = rows.segment_ids, rows.positions, None, rows.arrays
    return LayerContext.of(config.layer_kinds, config.head_dim, *arrays)


def attention_spec(
    config: EncoderConfig,
    backend: str,
    kind: LayerKind,
    bias: bool = False,
    qk_norm: float | None = None,
) -> AttentionSpec:
    """Attention of the patches of an image, in a layer of this kind.

    Args:
        bias: whether the projections have biases.
        qk_norm: as in `AttentionSpec`.
    """
    return AttentionSpec(
        d_model=config.d_model,
        heads=config.heads,
        kv_heads=config.heads,
        head_dim=config.head_dim,
        mask=kind.mask,
        backend=backend,
        rotary=rotary_number(config.layer_kinds, kind),
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        o_bias=bias,
        qk_norm=qk_norm,
        gain=residual_gain(config.layers),
    )
