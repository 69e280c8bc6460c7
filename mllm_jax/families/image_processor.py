"""The processor of images that vision transformers share: patches of images, or of their tiles."""

from __future__ import annotations

from dataclasses import replace

from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import ImageTiling
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import ImageEncoderConfig


def make_row_spec(
    name: str, encoder: ImageEncoderConfig, connector: ConnectorConfig, decoder: DecoderConfig
) -> ImageRowSpec:
    """The description of an encoder's images; the decoder's extra token ends a row of tiles."""
    image = ImageRowSpec(
        name,
        patch=encoder.patch,
        channels=encoder.channels,
        block=connector.block,
        class_token=encoder.class_tokens,
    )
    tiles, outputs = encoder.tiles, encoder.tile_outputs(connector)
    if tiles is None or outputs is None:
        return image
    tiling = ImageTiling(tiles.pinpoints, tiles.pixels, outputs, tiles.most)
    return replace(image, tiling=tiling, newline=decoder.vocab_size)
