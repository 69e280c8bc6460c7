"""The processor of point clouds."""

from __future__ import annotations

# The folder of the medium, which the page adds to `data`.
from data.media.cloud.row_spec import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    CloudRowSpec,
)
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig

from .config import PointsConfig


def make_row_spec(
    name: str, encoder: PointsConfig, connector: ConnectorConfig, decoder: DecoderConfig
) -> CloudRowSpec:
    """The description of an encoder's clouds."""
    del decoder
    return CloudRowSpec(name, encoder.reduction(connector))
