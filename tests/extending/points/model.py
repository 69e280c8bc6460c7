"""The modules of an encoder of point clouds."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.layers import vision_transformer as patches
from mllm_jax.layers.config.kinds import LayerKind
from mllm_jax.layers.dense import Dense
from mllm_jax.layers.modules import MLP, LayerContext, RMSNorm, SelfAttention, residual_gain
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from sharding.collectives import shard_slice
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux

from .config import PointsConfig


class Embedding(nnx.Module):
    """The layer of the coordinates."""

    def __init__(self, config: PointsConfig, rngs: nnx.Rngs) -> None:
        self.dense = Dense(
            ((None, config.features),), (("embed", config.d_model),), rngs, bias=True
        )


class Layer(nnx.Module):
    """Pre-norm attention of every point to all points of its cloud, then an MLP."""

    def __init__(self, config: PointsConfig, backend: str, kind: LayerKind, rngs: nnx.Rngs) -> None:
        widths = (config.d_model, config.d_ff, config.d_model)
        self.norm1 = RMSNorm(config.d_model, config.norm_eps, rngs)
        # The specification reads widths, heads and layers alone, which all encoders have.
        self.attention = SelfAttention(patches.attention_spec(config, backend, kind), rngs)
        self.norm2 = RMSNorm(config.d_model, config.norm_eps, rngs)
        self.mlp = MLP(widths, rngs, residual_gain(config.layers))

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """Map activations `[rows, points / shards, d_model]` to the same; no auxiliary losses."""
        x = x + self.attention(self.norm1(x), context, view)
        return x + self.mlp(self.norm2(x), view), {}


def make_blocks(config: PointsConfig, backend: str) -> ModuleBlocks:
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
    config: PointsConfig,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Embed points, with the radius of their cloud, which scales them."""
    module = blocks["embeddings"].bind(params["embeddings"], view)
    arrays = rows.inputs, rows.array("radius")
    inputs, radius = (shard_slice(array, view.sequence_axes, dim=1) for array in arrays)
    return module.dense((inputs / (1 + radius[..., None])).astype(dtype))


def layer_context(rows: ModuleRows, config: PointsConfig) -> LayerContext:
    """What the layers read of rows: which points belong together."""
    del config
    return LayerContext(rows.segment_ids)


FUNCTIONS = ModuleFunctions(make_blocks, embed, layer_context)
