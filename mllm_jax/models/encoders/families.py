"""The encoder families, by the name that a configuration gives; see docs/extending.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mllm_jax.models.config.model import EncoderConfig
from mllm_jax.models.encoders import clip, vision, whisper
from mllm_jax.models.encoders.family import EncoderFamily

FAMILIES: Mapping[str, EncoderFamily] = MappingProxyType(
    {
        "siglip": EncoderFamily(vision.tower, vision.embed, vision.segments),
        "clip": EncoderFamily(clip.tower, clip.embed, clip.segments),
        "vit22b": EncoderFamily(vision.tower, vision.embed, vision.segments),
        "whisper": EncoderFamily(whisper.tower, whisper.embed, whisper.segments),
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
