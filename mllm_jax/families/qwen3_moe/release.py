"""The release format of Qwen3-MoE."""

from __future__ import annotations

from mllm_jax.families.qwen3_moe.config import Qwen3MoeConfig
from mllm_jax.hf_format.decoder_rules import DecoderRelease
from mllm_jax.hf_format.expert_rules import QWEN_ALIASES, QWEN_KEYS, ExpertFormat

DECODER = DecoderRelease(
    "qwen3_moe",
    Qwen3MoeConfig,
    "Qwen3MoeForCausalLM",
    aliases=QWEN_ALIASES,
    experts=ExpertFormat("mlp.", QWEN_KEYS),
)
