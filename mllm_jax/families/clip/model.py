"""CLIP's vision transformer: patches of several images in a row, each with its class token.

A class token is a position like a patch, marked by -1 as its row and column::

    kept      c p p p p          its output is merged before those of the patches
    dropped   p p p p c          so that the merged outputs are the first ones
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from data.batch import ModuleRows
from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.layers import vision_transformer as patches
from mllm_jax.layers.dense import Dense, align_dims, normal_parameter
from mllm_jax.layers.modules import LayerNorm
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from mllm_jax.layers.positions import grid_positions
from sharding.grid import MeshView


class ClipEmbedding(nnx.Module):
    """Patches without a bias, the class token, positions of both, and a norm over the sum.

    The first row of `position_embedding` is the class token's, the others are the grid's.
    """

    def __init__(self, config: ClipConfig, rngs: nnx.Rngs) -> None:
        d_model, entries = config.d_model, config.grid[0] * config.grid[1]
        self.patch_embedding = Dense(((None, config.features),), (("embed", d_model),), rngs)
        self.class_embedding = normal_parameter(rngs, (d_model,), (None,), d_model**-0.5)
        self.position_embedding = normal_parameter(
            rngs, (1 + entries, d_model), (None, "embed"), d_model**-0.5
        )
        self.pre_layrnorm = LayerNorm(d_model, config.norm_eps, rngs)


def build_blocks(config: ClipConfig, backend: str) -> ModuleBlocks:
    """Blocks of the encoder, without the connector; there is no norm after the layers."""
    return {
        "embeddings": ParameterBlock(lambda rngs: ClipEmbedding(config, rngs)),
        "layers": layer_block(
            partial(patches.PreNormLayer, config, backend, config.activation),
            config.layer_kinds,
            config.layers,
        ),
    }


def embed_images(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: ClipConfig,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Patches and class tokens to `[rows, positions / shards, d_model]`; as in `patches.embed`."""
    module = blocks["embeddings"].bind(params["embeddings"], view)
    inputs, positions, sizes = patches.patches_of(rows, view)
    table = module.position_embedding[...]
    grid = grid_positions(table[1:], config.grid, positions, sizes)
    x = module.patch_embedding(inputs.astype(dtype)) + grid.astype(dtype)
    of_class = (module.class_embedding[...] + table[0]).astype(dtype)
    x = jnp.where(positions[..., :1] < 0, align_dims(of_class, x), x)
    return module.pre_layrnorm(x)


FUNCTIONS = ModuleFunctions(build_blocks, embed_images, patches.layer_context)
