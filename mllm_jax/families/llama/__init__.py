"""Llama (arXiv 2302.13971, 2307.09288, 2407.21783)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.llama.config import LlamaConfig

FAMILY = Family(
    "llama",
    {"llama": FamilyModule(LlamaConfig)},
    decoder=f"{__name__}.release:DECODER",
)
