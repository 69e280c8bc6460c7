"""GPT-3 (arXiv 2005.14165)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.gpt.config import GptConfig

FAMILY = Family(
    "gpt",
    {"gpt": FamilyModule(GptConfig)},
)
