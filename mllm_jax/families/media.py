"""The media that modules read, as the data pipeline sees them; nothing here loads jax."""

from __future__ import annotations

from data.rows.spec import MediaRowSpec
from mllm_jax.families import registry
from mllm_jax.families.family import load_reference
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig


def make_row_spec(
    name: str, encoder: EncoderConfig, connector: ConnectorConfig, decoder: DecoderConfig
) -> MediaRowSpec:
    """The description of an encoder's media.

    Args:
        name: name of the encoder in its model.
        encoder: its configuration.
        connector: joins its outputs; see `ModelGraph.connector`.
        decoder: configuration of the backbone.

    Raises:
        TypeError: the encoder's family reads no media.
    """
    reference = registry.find_module(encoder.family).processor
    if reference is None:
        raise TypeError(f"family {encoder.family} has no processor of media")
    spec = load_reference(reference)(name, encoder, connector, decoder)
    if not isinstance(spec, MediaRowSpec):
        raise TypeError(f"{reference} returned {spec!r:.80}; valid: a MediaRowSpec")
    return spec
