"""A released model of SigLIP, one linear layer and a decoder of any family."""

from mllm_jax.families.family import Family

FAMILY = Family("duo", formats=f"{__name__}.release:FORMATS")
