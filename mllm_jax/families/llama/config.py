"""Typed configuration of Llama's decoder."""

from __future__ import annotations

from typing import Literal

from mllm_jax.layers.config.decoder import DecoderConfig


class LlamaConfig(DecoderConfig):
    """Llama (arXiv 2302.13971, 2307.09288, 2407.21783).

    Args:
        family: `llama` (RMSNorm, RoPE, SwiGLU, grouped-query attention).
    """

    family: Literal["llama"] = "llama"
