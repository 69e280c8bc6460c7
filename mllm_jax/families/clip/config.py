"""Typed configuration of CLIP's vision transformer, and what its parameters count."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.connector import Activation, ConnectorConfig
from mllm_jax.layers.config.elements import Elements
from mllm_jax.layers.config.encoder import ImageEncoderConfig


class ClipConfig(ImageEncoderConfig):
    """CLIP's vision transformer (arXiv 2103.00020): a class token, and a norm before the layers.

    The outputs of the last layer go to the connector without a norm, as in LLaVA. LLaVA reads an
    earlier layer of the released model than the last, so `layers` is smaller there.

    Args:
        activation: activation of the MLP.
        class_token: whether the output of the class token is `dropped`, or `kept` and merged before
            those of the patches.
    """

    family: Literal["clip"]
    norm_eps: float = Field(1e-5, gt=0)
    activation: Activation = "quick_gelu"
    class_token: Literal["dropped", "kept"] = "dropped"

    def check_connector(self, connector: ConnectorConfig) -> None:
        """See `EncoderConfig.check_connector`; a class token is joined with nothing."""
        super().check_connector(connector)
        if self.class_token == "kept" and connector.joined > 1:
            raise ValueError(
                f"class_token kept is no block of patches, which connector.stack {connector.block} "
                "joins; valid: class_token dropped, or connector.stack [1, 1]"
            )

    @property
    def class_tokens(self) -> Literal["none", "dropped", "kept"]:
        """Whether every image has a class token, and whether its output is merged."""
        return self.class_token

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention and MLP, with all biases."""
        parts = self.attention_elements("qkvo"), elements.mlp(self.d_model, self.d_ff, self.d_model)
        return sum(parts, elements.norm(2 * self.d_model, layer_norm=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of patches without a bias, positions, class token and the first norm."""
        stem = self.stem_elements(bias=False, class_token=True)
        return stem + elements.norm(self.d_model, layer_norm=True)
