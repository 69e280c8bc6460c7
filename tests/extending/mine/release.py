"""The release format of the decoder."""

from __future__ import annotations

from mllm_jax.hf_format.decoder_rules import DecoderRelease

from .config import MineConfig

DECODER = DecoderRelease("mine", MineConfig, "MineForCausalLM")
