"""The typed configuration of an encoder of point clouds, and the counts of its parameters."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.encoder import EncoderConfig


class PointsConfig(EncoderConfig):
    """A transformer over the points of a cloud."""

    media_kind: ClassVar[str] = "cloud"
    features: ClassVar[int] = 3

    family: Literal["points"]
    norm_eps: float = Field(1e-5, gt=0)

    def usual_row(self, media: int, connector: ConnectorConfig) -> int:
        """Positions of so many clouds of a thousand points."""
        reduction = self.reduction(connector)
        return media * 1000 // reduction * reduction

    @property
    def stem_flops(self) -> float:
        """FLOPs of the layer of the coordinates."""
        return 2 * self.features * self.d_model

    @property
    def layer_elements(self) -> elements.Elements:
        """Elements of two norms, attention and an MLP."""
        heads = ("heads", self.heads * self.head_dim)
        inputs = elements.dense((("embed", self.d_model),), (heads,), False)
        output = elements.dense((heads,), (("embed", self.d_model),), False)
        mlp = elements.mlp(self.d_model, self.d_ff, self.d_model, True)
        norms = elements.norm(2 * self.d_model, layer_norm=False)
        return inputs + inputs + inputs + output + mlp + norms

    @property
    def rest_elements(self) -> elements.Elements:
        """Elements of the layer of the coordinates and of the last norm."""
        stem = elements.dense(((None, self.features),), (("embed", self.d_model),), True)
        return stem + elements.norm(self.d_model, layer_norm=False)
