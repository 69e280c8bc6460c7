"""The release format of Qwen3."""

from __future__ import annotations

from mllm_jax.families.qwen3.config import Qwen3Config
from mllm_jax.hf_format.decoder_rules import DecoderRelease

DECODER = DecoderRelease(
    "qwen3",
    Qwen3Config,
    "Qwen3ForCausalLM",
    text_defaults={
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32768,
        "vocab_size": 151936,
        "head_dim": 128,
    },
)
