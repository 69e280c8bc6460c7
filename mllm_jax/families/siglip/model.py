"""SigLIP's vision transformer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from data.batch import ModuleRows
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.layers import vision_transformer as patches
from mllm_jax.layers.modules import LayerNorm
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, Params, layer_block
from sharding.grid import MeshView


def build_blocks(config: SiglipConfig, backend: str) -> ModuleBlocks:
    """Blocks of the encoder, without the connector; not all have a norm after the layers."""
    blocks = {
        "embeddings": ParameterBlock(lambda rngs: patches.PatchEmbedding(config, rngs)),
        "layers": layer_block(
            partial(patches.PreNormLayer, config, backend, "gelu_tanh"),
            config.layer_kinds,
            config.layers,
        ),
    }
    if config.final_norm:
        blocks["norm"] = ParameterBlock(
            lambda rngs: LayerNorm(config.d_model, config.norm_eps, rngs)
        )
    return blocks


def embed_images(
    blocks: ModuleBlocks,
    params: Params,
    rows: ModuleRows,
    config: SiglipConfig,
    view: MeshView,
    dtype: jnp.dtype,
) -> jax.Array:
    """Patches to `[rows, patches / shards, d_model]`; as in `patches.embed`."""
    return patches.embed_patches(blocks, params, rows, config, view, dtype, config.antialias)


FUNCTIONS = ModuleFunctions(build_blocks, embed_images, patches.layer_context)
