"""Mixtral (arXiv 2401.04088)."""

from mllm_jax.families.family import Family, FamilyModule
from mllm_jax.families.mixtral.config import MixtralConfig

FAMILY = Family(
    "mixtral",
    {"mixtral": FamilyModule(MixtralConfig)},
    decoder=f"{__name__}.release:DECODER",
)
