"""The encoder families, by the name that a configuration gives; see docs/extending.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax

from mllm_jax.models.config import EncoderConfig
from mllm_jax.models.encoders import clip, vision, whisper
from mllm_jax.models.layers import Segments
from mllm_jax.models.parameters import Tower


@dataclass(frozen=True)
class EncoderFamily:
    """What an encoder computes, and what that costs.

    Attributes:
        tower: its blocks, of a configuration and an attention backend: `embeddings`, `layers` and
            perhaps `norm`; the connector is not its own.
        embed: a batch to `[rows, positions / shards, d_model]`, as in `vision.embed`.
        segments: of a batch, which positions between the layers belong together.
        stem_flops: of what `embed` multiplies, per input position.
        blocks: of a layer, each of which gathers a row's positions once and scatters them once.
        products: of a layer's MLP; three where it is gated.
    """

    tower: Callable[[Any, str], Tower]
    embed: Callable[..., jax.Array]
    segments: Callable[[dict[str, jax.Array], Any], Segments]
    stem_flops: Callable[[Any], float]
    blocks: int = 2
    products: int = 2


FAMILIES: Mapping[str, EncoderFamily] = MappingProxyType(
    {
        "siglip": EncoderFamily(vision.tower, vision.embed, vision.segments, vision.stem_flops),
        "clip": EncoderFamily(clip.tower, clip.embed, clip.segments, vision.stem_flops),
        "vit22b": EncoderFamily(vision.tower, vision.embed, vision.segments, vision.stem_flops, 1),
        "whisper": EncoderFamily(
            whisper.tower, whisper.embed, whisper.segments, whisper.stem_flops
        ),
    }
)


def family_of(config: EncoderConfig) -> EncoderFamily:
    """The family of an encoder.

    Raises:
        TypeError: there is a configuration of that name, but no family.
    """
    if config.family not in FAMILIES:
        raise TypeError(
            f"encoder family {config.family!r} has neither layers nor a cost; valid: "
            f"{', '.join(FAMILIES)}; others are added in mllm_jax/models/encoders/families.py"
        )
    return FAMILIES[config.family]
