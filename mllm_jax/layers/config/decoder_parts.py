"""The parts of which a family of decoders makes its layers; see docs/extending/decoder.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecoderParts:
    """The parts of the layers of a family.

    Attributes:
        layer_norm: LayerNorm with a bias, not RMSNorm.
        gated_mlp: SwiGLU without biases, not Linear, GELU, Linear with them.
        rotary: rotary positions, not a learned table of them.
        biases: letters of the projections `q`, `k`, `v` and `o` that have a bias.
        qk_norm: an RMSNorm over every head of q and k.
        experts: some layers have a choice of experts in place of an MLP.
    """

    layer_norm: bool = False
    gated_mlp: bool = True
    rotary: bool = True
    biases: str = ""
    qk_norm: bool = False
    experts: bool = False
