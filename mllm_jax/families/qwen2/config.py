"""Typed configuration of Qwen2 and Qwen2.5's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class Qwen2Config(DecoderConfig):
    """Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115).

    Args:
        family: `qwen2` (llama with biases on q, k, v).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(biases="qkv")

    family: Literal["qwen2"]
