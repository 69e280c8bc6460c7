"""The encoder families, by the name that a configuration gives; see docs/extending/encoder.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mllm_jax.families.clip.model import CLIP
from mllm_jax.families.family import EncoderFamily
from mllm_jax.families.siglip.model import SIGLIP
from mllm_jax.families.vit22b.model import VIT22B
from mllm_jax.families.whisper.model import WHISPER
from mllm_jax.layers.config.encoder import EncoderConfig

FAMILIES: Mapping[str, EncoderFamily] = MappingProxyType(
    {
        "siglip": SIGLIP,
        "clip": CLIP,
        "vit22b": VIT22B,
        "whisper": WHISPER,
    }
)


def family_of(config: EncoderConfig) -> EncoderFamily:
    """The family of an encoder.

    Raises:
        TypeError: there is a configuration of that name, but no family.
    """
    if config.family not in FAMILIES:
        raise TypeError(
            f"encoder family {config.family!r} has no layers; valid: "
            f"{', '.join(FAMILIES)}; others are added in mllm_jax/families/registry.py"
        )
    return FAMILIES[config.family]
