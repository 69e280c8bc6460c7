"""LLaVA: CLIP and a decoder of the Llama or Qwen families, as released."""

from mllm_jax.families.family import Family

FAMILY = Family(
    "llava",
    formats=f"{__name__}.release:FORMATS",
    released_processors={"LlavaImageProcessor": f"{__name__}.processor:LlavaImages"},
    placeholders={"LlavaProcessor": {"image": "<image>"}},
)
