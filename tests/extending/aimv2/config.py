"""The typed configuration of AIMv2 (arXiv 2411.14402), and the counts of its parameters."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.encoder import ImageEncoderConfig


class Aimv2Config(ImageEncoderConfig):
    """A vision transformer with RMSNorm and SwiGLU; only the layer of the patches has a bias."""

    products: ClassVar[int] = 3

    family: Literal["aimv2"]
    norm_eps: float = Field(1e-5, gt=0)

    @property
    def layer_elements(self) -> elements.Elements:
        """Elements of two norms, attention and a gated MLP."""
        attention, mlp = self.attention_elements(""), elements.gated_mlp(self.d_model, self.d_ff)
        return elements.norm(2 * self.d_model, layer_norm=False) + attention + mlp

    @property
    def rest_elements(self) -> elements.Elements:
        """Elements of the patches' layer, its norm, the positions and the last norm."""
        return self.stem_elements() + elements.norm(2 * self.d_model, layer_norm=False)
