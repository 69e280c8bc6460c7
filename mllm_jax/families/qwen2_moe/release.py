"""The release format of Qwen2-MoE."""

from __future__ import annotations

from mllm_jax.families.qwen2_moe.config import Qwen2MoeConfig
from mllm_jax.hf_format.decoder_rules import DecoderRelease
from mllm_jax.hf_format.expert_rules import QWEN_ALIASES, QWEN_KEYS, ExpertFormat

DECODER = DecoderRelease(
    "qwen2_moe",
    Qwen2MoeConfig,
    "Qwen2MoeForCausalLM",
    aliases=QWEN_ALIASES,
    fixed={"qkv_bias": (True, None)},
    experts=ExpertFormat(
        "mlp.",
        {**QWEN_KEYS, "shared_d_ff": "shared_expert_intermediate_size"},
        {"shared_gate": True},
    ),
)
