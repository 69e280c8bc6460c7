"""Typed configuration of SigLIP's vision transformer, and what its parameters count."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.elements import Elements
from mllm_jax.layers.config.encoder import ImageEncoderConfig


class SiglipConfig(ImageEncoderConfig):
    """SigLIP's vision transformer (arXiv 2303.15343) without its pooling head.

    Args:
        antialias: whether positions are averaged where an image has fewer patches than the learned
            grid, as in SigLIP 2's NaFlex (arXiv 2502.14786); else they are interpolated.
        final_norm: whether there is a norm after the last layer; LLaVA-OneVision has none.
    """

    family: Literal["siglip"]
    norm_eps: float = Field(1e-6, gt=0)
    antialias: bool = False
    final_norm: bool = True

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention and MLP, with all biases."""
        parts = self.attention_elements("qkvo"), elements.mlp(self.d_model, self.d_ff, self.d_model)
        return sum(parts, elements.norm(2 * self.d_model, layer_norm=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of the patches, positions and, if there is one, the last norm."""
        stem = self.stem_elements()
        return stem + elements.norm(self.d_model, layer_norm=True) if self.final_norm else stem
