"""Typed configuration of Whisper's audio encoder, and what its parameters count."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.elements import Elements
from mllm_jax.layers.config.encoder import AudioEncoderConfig
from sharding.plan import PlanRequirement

#: Taps of Whisper's convolutions.
CONVOLUTION = 3


class WhisperConfig(AudioEncoderConfig):
    """Whisper's audio encoder (arXiv 2212.04356): two convolutions, then a transformer.

    Args:
        strides: strides of the two convolutions.
        max_positions: number of rows of a table of positions, which is loaded with released
            weights and never trained; it bounds the length of clips after the convolutions. null:
            sinusoids of any length.
    """

    family: Literal["whisper"]
    strides: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = (1, 2)
    norm_eps: float = Field(1e-5, gt=0)
    max_positions: int | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _check_even(self) -> WhisperConfig:
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} must be even for sinusoidal positions")
        return self

    @property
    def stride(self) -> int:
        """Input frames per position of the transformer."""
        return math.prod(self.strides)

    @property
    def longest(self) -> int | None:
        """Number of frames of the longest clip; None if every length has positions."""
        return None if self.max_positions is None else self.max_positions * self.stride

    @property
    def stem_flops(self) -> float:
        """FLOPs of both convolutions, per frame."""
        first = 2 * CONVOLUTION * self.mels * self.d_model / self.strides[0]
        return first + 2 * CONVOLUTION * self.d_model**2 / self.stride

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention without a bias on k, and MLP."""
        heads = self.heads, self.heads, self.head_dim
        parts = (
            elements.attention(self.d_model, *heads, "qvo"),
            elements.mlp(self.d_model, self.d_ff, self.d_model),
        )
        return sum(parts, elements.norm(2 * self.d_model, layer_norm=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of both convolutions, the last norm and any table of positions."""
        channels, taps = self.d_model, (None, CONVOLUTION)
        between: elements.Dims = (("mlp", channels),)
        first = elements.dense((taps, (None, self.mels)), between, bias=True)
        second = elements.dense((taps, *between), (("embed", channels),), bias=True)
        without_table = first + second + elements.norm(channels, layer_norm=True)
        entries = self.max_positions
        return (
            without_table
            if entries is None
            else without_table + elements.table(entries, None, channels)
        )

    def requirements(self) -> tuple[PlanRequirement, ...]:
        """The shared requirements; tensor must also divide the channels of the convolutions."""
        channels = PlanRequirement("d_model", self.d_model, "tensor")
        return (channels, *super().requirements())
