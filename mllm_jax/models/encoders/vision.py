"""Vision transformers: SigLIP and ViT-22B. Patches of several images are packed in one row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.models.config.model import ClipConfig, SiglipConfig, Vit22bConfig
from mllm_jax.models.layers import (
    MLP,
    AttentionSpec,
    Dense,
    LayerNorm,
    RMSNorm,
    Segments,
    SelfAttention,
    gathered,
    normal,
    residual_gain,
    scattered_sum,
)
from mllm_jax.models.parameters import Block, Params, Tower
from mllm_jax.models.positions import grid_positions
from sharding.collectives import shard_slice
from sharding.grid import View

VisionConfig = SiglipConfig | Vit22bConfig


class PatchEmbedding(nnx.Module):
    """Patches `[.., height * width * channels]` to `d_model`, and the learned position grid."""

    def __init__(self, config: VisionConfig, rngs: nnx.Rngs) -> None:
        d_model, entries = config.d_model, config.grid[0] * config.grid[1]
        self.patch_embedding = Dense(
            ((None, config.features),), (("embed", d_model),), rngs, bias=True
        )
        self.position_embedding = normal(rngs, (entries, d_model), (None, "embed"), d_model**-0.5)


class SiglipLayer(nnx.Module):
    """Pre-norm attention, then MLP, biases everywhere; names follow the released weights.

    CLIP's layers are the same but for their activation.
    """

    def __init__(self, config: SiglipConfig | ClipConfig, backend: str, rngs: nnx.Rngs) -> None:
        gain = residual_gain(config.layers)
        widths = (config.d_model, config.d_ff, config.d_model)
        activation = config.activation if isinstance(config, ClipConfig) else "gelu_tanh"
        self.layer_norm1 = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.self_attn = SelfAttention(_spec(config, backend, bias=True), rngs)
        self.layer_norm2 = LayerNorm(config.d_model, config.norm_eps, rngs)
        self.mlp = MLP(widths, rngs, gain, activation)

    def __call__(self, x: jax.Array, segments: Segments, view: View) -> jax.Array:
        """`[rows, patches / shards, d_model]` to the same."""
        x = x + self.self_attn(gathered(self.layer_norm1(x), view), segments, view)
        return x + self.mlp(gathered(self.layer_norm2(x), view), view)


class Vit22bLayer(nnx.Module):
    """`x + attention(norm(x)) + mlp(norm(x))` (ViT-22B, section 2).

    Queries and keys are normalised per head; projections of attention and norms have no biases
    (and the norms no centring), the MLP has. The two branches share one gather and one scatter.
    """

    def __init__(self, config: Vit22bConfig, backend: str, rngs: nnx.Rngs) -> None:
        gain = residual_gain(config.layers)
        widths = (config.d_model, config.d_ff, config.d_model)
        self.layer_norm = RMSNorm(config.d_model, config.norm_eps, rngs)
        self.self_attn = SelfAttention(_spec(config, backend, bias=False), rngs)
        self.mlp = MLP(widths, rngs, gain)

    def __call__(self, x: jax.Array, segments: Segments, view: View) -> jax.Array:
        """`[rows, patches / shards, d_model]` to the same."""
        whole = gathered(self.layer_norm(x), view)
        attended = self.self_attn.o_proj, self.self_attn.attended(whole, segments, view)
        activated = self.mlp.fc2, self.mlp.activated(whole)
        return x + self.mlp.fc2.add_bias(scattered_sum([attended, activated], view))


def tower(config: VisionConfig, backend: str) -> Tower:
    """Blocks of the encoder, without the connector; not all have a norm behind the layers."""

    def layer(rngs: nnx.Rngs) -> nnx.Module:
        if isinstance(config, SiglipConfig):
            return SiglipLayer(config, backend, rngs)
        return Vit22bLayer(config, backend, rngs)

    kind = LayerNorm if isinstance(config, SiglipConfig) else RMSNorm
    blocks = {
        "embeddings": Block(lambda rngs: PatchEmbedding(config, rngs)),
        "layers": Block(layer, config.layers),
    }
    if isinstance(config, Vit22bConfig) or config.final_norm:
        blocks["norm"] = Block(lambda rngs: kind(config.d_model, config.norm_eps, rngs))
    return blocks


def embed(
    tower: Tower,
    params: Params,
    batch: dict[str, jax.Array],
    config: VisionConfig,
    view: View,
    dtype: jnp.dtype,
) -> jax.Array:
    """Patches to `[rows, patches / shards, d_model]`; each rank embeds its own share.

    Args:
        batch: `inputs [rows, patches, features]`, `segment_ids [rows, patches]`, `positions` and
            `sizes [rows, patches, 2]`, whole on every rank of the row.
    """
    module = tower["embeddings"].bind(params["embeddings"], view)
    inputs, positions, sizes = (
        shard_slice(batch[name], view.sequence, dim=1) for name in ("inputs", "positions", "sizes")
    )
    x = module.patch_embedding(inputs.astype(dtype))
    antialias = isinstance(config, SiglipConfig) and config.antialias
    learned = module.position_embedding[...], config.grid
    return x + grid_positions(*learned, positions, sizes, antialias).astype(dtype)


def segments(batch: dict[str, jax.Array], config: VisionConfig | ClipConfig) -> Segments:
    """Which positions between the layers belong together."""
    del config
    return Segments(batch["segment_ids"])


def _spec(config: VisionConfig | ClipConfig, backend: str, bias: bool) -> AttentionSpec:
    return AttentionSpec(
        d_model=config.d_model,
        heads=config.heads,
        kv_heads=config.heads,
        head_dim=config.head_dim,
        causal=False,
        backend=backend,
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        o_bias=bias,
        qk_norm=None if bias else config.norm_eps,
        gain=residual_gain(config.layers),
    )
