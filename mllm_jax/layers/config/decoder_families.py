"""The decoder families and the blocks of their layers; see docs/extending/decoder.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class DecoderFamily:
    """Parts of a decoder's layers.

    Attributes:
        centred: LayerNorm with a bias, not RMSNorm.
        gated: SwiGLU without biases, not Linear, GELU, Linear with them.
        rotary: rotary positions, not a learned table of them.
        biases: letters of the projections `q`, `k`, `v` and `o` that have a bias.
        qk_norm: an RMSNorm over every head of q and k.
        experts: some layers have a choice of experts in place of an MLP.
    """

    centred: bool = False
    gated: bool = True
    rotary: bool = True
    biases: str = ""
    qk_norm: bool = False
    experts: bool = False


FAMILIES: Mapping[str, DecoderFamily] = MappingProxyType(
    {
        "llama": DecoderFamily(),
        "qwen2": DecoderFamily(biases="qkv"),
        "qwen3": DecoderFamily(qk_norm=True),
        "mixtral": DecoderFamily(experts=True),
        "qwen2_moe": DecoderFamily(biases="qkv", experts=True),
        "qwen3_moe": DecoderFamily(qk_norm=True, experts=True),
        "gpt": DecoderFamily(centred=True, gated=False, rotary=False, biases="qkvo"),
    }
)
