"""The modules of AIMv2; its batches and positions are made like those of all image encoders."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.layers import vision_transformer as patches
from mllm_jax.layers.config.kinds import LayerKind
from mllm_jax.layers.dense import Dense, normal_parameter
from mllm_jax.layers.modules import GatedMLP, LayerContext, RMSNorm, SelfAttention, residual_gain
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from mllm_jax.layers.positions import grid_positions
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux

from .config import Aimv2Config


class Embedding(nnx.Module):
    """The layer of the patches, its norm, and the learned grid of positions."""

    def __init__(self, config: Aimv2Config, rngs: nnx.Rngs) -> None:
        d_model, entries = config.d_model, config.grid[0] * config.grid[1]
        self.patch_embed = Dense(((None, config.features),), (("embed", d_model),), rngs, bias=True)
        self.rms_norm = RMSNorm(d_model, config.norm_eps, rngs)
        self.position_embedding = normal_parameter(
            rngs, (entries, d_model), (None, "embed"), d_model**-0.5
        )


class Layer(nnx.Module):
    """Pre-norm attention, then a gated MLP; names follow the released weights."""

    def __init__(self, config: Aimv2Config, backend: str, kind: LayerKind, rngs: nnx.Rngs) -> None:
        gain = residual_gain(config.layers)
        self.rms_norm1 = RMSNorm(config.d_model, config.norm_eps, rngs)
        self.attention = SelfAttention(patches.attention_spec(config, backend, kind), rngs)
        self.rms_norm2 = RMSNorm(config.d_model, config.norm_eps, rngs)
        self.ffn = GatedMLP(config.d_model, config.d_ff, rngs, gain)

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """Map activations `[rows, patches / shards, d_model]` to the same; no auxiliary losses."""
        x = x + self.attention(self.rms_norm1(x), context, view)
        return x + self.ffn(self.rms_norm2(x), view), {}


def make_blocks(config: Aimv2Config, backend: str) -> ModuleBlocks:
    """Blocks of the encoder, without the connector."""
    return {
        "embeddings": ParameterBlock(lambda rngs: Embedding(config, rngs)),
        "layers": layer_block(partial(Layer, config, backend), config.layer_kinds, config.layers),
        "norm": ParameterBlock(lambda rngs: RMSNorm(config.d_model, config.norm_eps, rngs)),
    }


def embed(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: Aimv2Config,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Embed patches as `[rows, patches / shards, d_model]`; each rank embeds its own share."""
    module = blocks["embeddings"].bind(params["embeddings"], view)
    inputs, positions, sizes = patches.patches_of(rows, view)
    x = module.rms_norm(module.patch_embed(inputs.astype(dtype)))
    learned = grid_positions(module.position_embedding[...], config.grid, positions, sizes)
    return x + learned.astype(dtype)


FUNCTIONS = ModuleFunctions(make_blocks, embed, patches.layer_context)
