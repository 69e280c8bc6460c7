"""Attention kernels of libraries: cuDNN's on GPUs, splash attention on TPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash_kernel,
)
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as splash_mask

from mllm_jax.layers.attention.masks import TokenIds, visible_keys
from mllm_jax.layers.attention.untyped_kernel import untyped_kernel
from mllm_jax.layers.config.kinds import MaskKind


def cudnn_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    tokens: TokenIds,
    mask: MaskKind,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> jax.Array:
    """cuDNN's flash attention with an explicit mask `[rows, 1, tokens, tokens]`.

    The mask is held in memory, and all pairs of a row are computed, whatever it or a window hides:
    for long rows prefer `pallas_gpu`.

    Args:
        implementation: what computes it; `xla` takes the same arguments on any platform.
    """

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        seen = visible_keys(tokens, tokens, mask)[:, None]
        ordered = mask.causal and not mask.spans
        return jax.nn.dot_product_attention(
            q, k, v, mask=seen, is_causal=ordered, implementation=implementation
        )

    return untyped_kernel(kernel)(q, k, v, tokens)


def splash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    tokens: TokenIds,
    mask: MaskKind,
    interpret: bool = False,
) -> jax.Array:
    """Splash attention for TPUs: blocks that the causal mask or a window hides are skipped.

    Its masks are known when it is compiled, and spans are not: `limits` refuses them.
    """

    def kernel(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        attend = _splash_kernel(q.shape[1], q.shape[2], mask, interpret)
        by_head = (x.swapaxes(1, 2) for x in (q * q.shape[-1] ** -0.5, k, v))
        ids = splash_kernel.SegmentIds(tokens.boundary_ids, tokens.boundary_ids)
        return jax.vmap(attend)(*by_head, ids).swapaxes(1, 2)

    return untyped_kernel(kernel)(q, k, v, tokens)


def _splash_kernel(tokens: int, heads: int, kind: MaskKind, interpret: bool) -> Callable[..., Any]:
    shape = (tokens, tokens)
    mask: Any = splash_mask.CausalMask(shape) if kind.causal else splash_mask.FullMask(shape)
    if kind.window is not None:
        mask = splash_mask.LocalMask(shape, window_size=(kind.window - 1, 0), offset=0)
    block = next(size for size in (512, 256, 128) if tokens % size == 0)
    return splash_kernel.make_splash_mha(
        splash_mask.MultiHeadMask([mask] * heads),
        head_shards=1,
        q_seq_shards=1,
        block_sizes=splash_kernel.BlockSizes(
            block_q=block,
            block_kv=block,
            block_kv_compute=block,
            block_q_dkv=block,
            block_kv_dkv=block,
            block_kv_dkv_compute=block,
            block_q_dq=block,
            block_kv_dq=block,
        ),
        interpret=interpret,
    )
