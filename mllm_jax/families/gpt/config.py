"""Typed configuration of GPT-3's decoder."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_parts import DecoderParts


class GptConfig(DecoderConfig):
    """GPT-3 (arXiv 2005.14165).

    Args:
        family: `gpt` (GPT-3: LayerNorm, GELU, learned positions, biases everywhere).
    """

    parts: ClassVar[DecoderParts] = DecoderParts(
        layer_norm=True, gated_mlp=False, rotary=False, biases="qkvo"
    )

    family: Literal["gpt"]

    @model_validator(mode="after")
    def _no_grouped_heads(self) -> GptConfig:
        if self.kv_heads != self.heads:
            raise ValueError(f"family gpt has no grouped heads; set kv_heads to {self.heads}")
        return self
