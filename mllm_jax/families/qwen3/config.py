"""Typed configuration of Qwen3's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class Qwen3Config(DecoderConfig):
    """Qwen3 (arXiv 2505.09388).

    Args:
        family: `qwen3` (llama with RMSNorm on q and k).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(qk_norm=True)

    family: Literal["qwen3"]
