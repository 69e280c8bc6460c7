"""Typed configuration of Qwen2-MoE's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class Qwen2MoeConfig(DecoderConfig):
    """Qwen2-MoE (arXiv 2407.10671).

    Args:
        family: `qwen2_moe` (qwen2 with `experts`).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(biases="qkv", experts=True)

    family: Literal["qwen2_moe"]
