"""The release format of Mixtral."""

from __future__ import annotations

from mllm_jax.families.mixtral.config import MixtralConfig
from mllm_jax.hf_format.decoder_rules import DecoderRelease
from mllm_jax.hf_format.expert_rules import ExpertFormat

DECODER = DecoderRelease(
    "mixtral",
    MixtralConfig,
    "MixtralForCausalLM",
    aliases={"num_experts": "num_local_experts"},
    fixed={"sliding_window": (None,), "router_jitter_noise": (0, None)},
    rope_theta=1e6,
    experts=ExpertFormat(
        "block_sparse_moe.",
        {"count": "num_local_experts", "top_k": "num_experts_per_tok", "d_ff": "intermediate_size"},
        {"normalise": True},
        lists_layers=False,
        projections={"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    ),
)
