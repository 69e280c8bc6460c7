"""Qwen3-MoE (arXiv 2505.09388)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.qwen3_moe.config import Qwen3MoeConfig

FAMILY = Family(
    "qwen3_moe",
    {"qwen3_moe": FamilyModule(Qwen3MoeConfig)},
    decoder=f"{__name__}.release:DECODER",
)
