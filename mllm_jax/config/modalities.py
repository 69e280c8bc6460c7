"""What the data pipeline must know of a model's encoders."""

from __future__ import annotations

from dataclasses import replace

from data.kinds.modality import Modality
from data.kinds.tiles import Tiling
from mllm_jax.models.config.model import (
    AudioEncoderConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
)


def modalities(model: ModelConfig) -> list[Modality]:
    """What the data pipeline must know of the encoders."""
    return [_modality(name, encoder, model.decoder) for name, encoder in model.encoders.items()]


def _modality(name: str, encoder: EncoderConfig, decoder: DecoderConfig) -> Modality:
    if isinstance(encoder, AudioEncoderConfig):
        return Modality(
            name,
            "audio",
            mels=encoder.mels,
            stride=encoder.reduction,
            pool=encoder.stack if encoder.connector.kind == "average" else 1,
            lookahead=encoder.lookahead,
            longest=encoder.longest,
        )
    patch, channels, block = encoder.patch, encoder.channels, encoder.block
    token = encoder.class_tokens
    image = Modality(name, "image", patch=patch, channels=channels, block=block, class_token=token)
    if encoder.tiles is None or encoder.tile_outputs is None:
        return image
    tiles = encoder.tiles
    tiling = Tiling(tiles.pinpoints, tiles.pixels, encoder.tile_outputs, tiles.most)
    return replace(image, tiling=tiling, newline=decoder.vocab_size)
