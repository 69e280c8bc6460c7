"""A released model of SigLIP, one linear layer and a decoder with positions on three axes."""

from mllm_jax.families.family import Family, FamilyModule

from .config import DuoConfig

FAMILY = Family(
    "duo",
    {"duo": FamilyModule(DuoConfig)},
    formats=f"{__name__}.release:FORMATS",
    decoder=f"{__name__}.release:DECODER",
    released_processors={"DuoImageProcessor": f"{__name__}.processor:DuoImages"},
    placeholders={"DuoProcessor": {"image": "<image>"}},
)
