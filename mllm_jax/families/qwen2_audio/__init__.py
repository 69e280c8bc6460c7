"""Qwen2-Audio: Whisper's encoder, and Qwen2, as released."""

from mllm_jax.families.family import Family

FAMILY = Family(
    "qwen2_audio",
    formats=f"{__name__}.release:FORMATS",
    placeholders={"Qwen2AudioProcessor": {"audio": "<|AUDIO|>"}},
)
