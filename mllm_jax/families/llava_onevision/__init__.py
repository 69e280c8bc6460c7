"""LLaVA-OneVision: SigLIP on tiles of images, and Qwen2, as released."""

from mllm_jax.families.family import Family

FAMILY = Family("llava_onevision", formats=f"{__name__}.release:FORMATS")
