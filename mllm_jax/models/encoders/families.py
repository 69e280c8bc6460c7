"""The encoder families, by the name that a configuration gives; see docs/extending/encoder.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mllm_jax.models.config.encoder import EncoderConfig
from mllm_jax.models.encoders.clip.model import CLIP
from mllm_jax.models.encoders.family import EncoderFamily
from mllm_jax.models.encoders.siglip.model import SIGLIP
from mllm_jax.models.encoders.vit22b.model import VIT22B
from mllm_jax.models.encoders.whisper.model import WHISPER

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
            f"{', '.join(FAMILIES)}; others are added in mllm_jax/models/encoders/families.py"
        )
    return FAMILIES[config.family]
