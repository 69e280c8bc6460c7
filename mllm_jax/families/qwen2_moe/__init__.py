"""Qwen2-MoE (arXiv 2407.10671)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.qwen2_moe.config import Qwen2MoeConfig

FAMILY = Family(
    "qwen2_moe",
    {"qwen2_moe": FamilyModule(Qwen2MoeConfig)},
    decoder=f"{__name__}.release:DECODER",
)
