"""Typed configuration of Mixtral's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class MixtralConfig(DecoderConfig):
    """Mixtral (arXiv 2401.04088).

    Args:
        family: `mixtral` (llama with `experts`).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(experts=True)

    family: Literal["mixtral"]
