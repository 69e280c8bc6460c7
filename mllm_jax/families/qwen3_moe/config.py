"""Typed configuration of Qwen3-MoE's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class Qwen3MoeConfig(DecoderConfig):
    """Qwen3-MoE (arXiv 2505.09388).

    Args:
        family: `qwen3_moe` (qwen3 with `experts`).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(qk_norm=True, experts=True)

    family: Literal["qwen3_moe"]
