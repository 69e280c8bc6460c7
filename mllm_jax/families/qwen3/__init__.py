"""Qwen3 (arXiv 2505.09388)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.qwen3.config import Qwen3Config

FAMILY = Family(
    "qwen3",
    {"qwen3": FamilyModule(Qwen3Config)},
    decoder=f"{__name__}.release:DECODER",
)
