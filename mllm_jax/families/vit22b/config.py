"""Typed configuration of ViT-22B, and what its parameters count."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.elements import Elements
from mllm_jax.layers.config.encoder import ImageEncoderConfig


class Vit22bConfig(ImageEncoderConfig):
    """ViT-22B (arXiv 2302.05442): parallel attention and MLP, normalised queries and keys."""

    #: Attention and MLP share one gather and one scatter.
    blocks: ClassVar[int] = 1

    family: Literal["vit22b"]
    norm_eps: float = Field(1e-6, gt=0)

    @property
    def layer_elements(self) -> Elements:
        """Elements of RMSNorm, attention with norms of queries and keys but no biases, and MLP."""
        parts = (
            self.attention_elements("", qk_norm=True),
            elements.mlp(self.d_model, self.d_ff, self.d_model),
        )
        return sum(parts, elements.norm(self.d_model, layer_norm=False))

    @property
    def rest_elements(self) -> Elements:
        """Elements of the patches, positions and the last norm."""
        return self.stem_elements() + elements.norm(self.d_model, layer_norm=False)
