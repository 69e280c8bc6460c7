"""ViT-22B (arXiv 2302.05442): parallel attention and MLP, normalised queries and keys."""

from __future__ import annotations

from functools import partial

import jax
from flax import nnx

from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.families.vit22b.config import Vit22bConfig
from mllm_jax.layers import vision_transformer as patches
from mllm_jax.layers.config.kinds import LayerKind
from mllm_jax.layers.modules import (
    MLP,
    LayerContext,
    RMSNorm,
    SelfAttention,
    residual_gain,
    side_by_side,
)
from mllm_jax.layers.parameters import ModuleBlocks, ParameterBlock, layer_block
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux


class Vit22bLayer(nnx.Module):
    """`x + attention(norm(x)) + mlp(norm(x))` (ViT-22B, section 2).

    Queries and keys are normalised per head; projections of attention and norms have no biases
    (and the norms no centring), the MLP has. The two branches share one gather and one scatter.
    """

    def __init__(self, config: Vit22bConfig, backend: str, kind: LayerKind, rngs: nnx.Rngs) -> None:
        gain = residual_gain(config.layers)
        widths = (config.d_model, config.d_ff, config.d_model)
        spec = patches.attention_spec(config, backend, kind, qk_norm=config.norm_eps)
        self.layer_norm = RMSNorm(config.d_model, config.norm_eps, rngs)
        self.self_attn = SelfAttention(spec, rngs)
        self.mlp = MLP(widths, rngs, gain)

    def __call__(
        self, x: jax.Array, context: LayerContext, view: MeshView
    ) -> tuple[jax.Array, Aux]:
        """`[rows, patches / shards, d_model]` to the same; no auxiliary losses."""
        update, _ = side_by_side(self.self_attn, self.mlp, self.layer_norm(x), context, view)
        return x + update, {}


def build_blocks(config: Vit22bConfig, backend: str) -> ModuleBlocks:
    """Blocks of the encoder, without the connector."""
    return {
        "embeddings": ParameterBlock(lambda rngs: patches.PatchEmbedding(config, rngs)),
        "layers": layer_block(
            partial(Vit22bLayer, config, backend), config.layer_kinds, config.layers
        ),
        "norm": ParameterBlock(lambda rngs: RMSNorm(config.d_model, config.norm_eps, rngs)),
    }


FUNCTIONS = ModuleFunctions(build_blocks, patches.embed_patches, patches.layer_context)
