"""Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.qwen2.config import Qwen2Config

FAMILY = Family(
    "qwen2",
    {"qwen2": FamilyModule(Qwen2Config)},
    decoder=f"{__name__}.release:DECODER",
)
