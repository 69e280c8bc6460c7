"""LLaVA-OneVision: SigLIP on tiles of images, and Qwen2, as released."""

from mllm_jax.families.family import Family

FAMILY = Family(
    "llava_onevision",
    formats=f"{__name__}.release:FORMATS",
    released_processors={
        "LlavaOnevisionImageProcessor": f"{__name__}.processor:OnevisionImages",
        "LlavaOnevisionVideoProcessor": f"{__name__}.processor:OnevisionVideos",
    },
    placeholders={"LlavaOnevisionProcessor": {"image": "<image>"}},
)
