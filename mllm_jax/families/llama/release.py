"""The release format of Llama."""

from __future__ import annotations

from mllm_jax.families.llama.config import LlamaConfig
from mllm_jax.hf_format.decoder_rules import DecoderRelease

DECODER = DecoderRelease(
    "llama",
    LlamaConfig,
    "LlamaForCausalLM",
    text_defaults={
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "vocab_size": 32000,
    },
)
