"""Typed configuration of the decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class MineConfig(DecoderConfig):
    """A decoder with biases on q and o, and RMSNorm on q and k.

    Args:
        family: `mine` (llama with biases on q and o, and RMSNorm on q and k).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(biases="qo", qk_norm=True)

    family: Literal["mine"]
