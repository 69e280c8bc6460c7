"""A decoder with biases on q and o, and RMSNorm on q and k."""

from mllm_jax.families.family import Family, FamilyModule

from .config import MineConfig

FAMILY = Family(
    "mine",
    {"mine": FamilyModule(MineConfig)},
    decoder=f"{__name__}.release:DECODER",
)
