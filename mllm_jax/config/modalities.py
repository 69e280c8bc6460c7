"""What the data pipeline must know of a model's encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from numpy.typing import DTypeLike

from data.kinds.audio.modality import AudioModality
from data.kinds.image.modality import ImageModality
from data.kinds.image.tiles import Tiling
from data.kinds.modality import Modality
from data.kinds.rows import DECODER, row_shapes
from mllm_jax.models.config.model import (
    AudioEncoderConfig,
    DecoderConfig,
    ImageEncoderConfig,
    ModelConfig,
)

#: What tells the layers of a tower how its rows are packed.
PACKING = ("segment_ids", "positions")


def modalities(model: ModelConfig) -> list[Modality]:
    """What the data pipeline must know of the encoders."""
    return [
        MODALITIES[encoder.modality](name, encoder, model.decoder)
        for name, encoder in model.encoders.items()
    ]


def packing(
    model: ModelConfig, module: str, rows: int, positions: int
) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
    """Shape and type of `PACKING`, for rows of `decoder` or of an encoder.

    Args:
        positions: of a row, input positions of an encoder.
    """
    if module == "decoder":
        return {name: ((rows, positions), DECODER[name]) for name in PACKING}
    (own,) = (modality for modality in modalities(model) if modality.name == module)
    found = row_shapes(own, rows, positions)
    return {name: found[name] for name in PACKING}


def _audio(name: str, encoder: AudioEncoderConfig, decoder: DecoderConfig) -> AudioModality:
    return AudioModality(
        name,
        mels=encoder.mels,
        stride=encoder.reduction,
        pool=encoder.stack if encoder.connector.kind == "average" else 1,
        lookahead=encoder.lookahead,
        longest=encoder.longest,
    )


def _image(name: str, encoder: ImageEncoderConfig, decoder: DecoderConfig) -> ImageModality:
    image = ImageModality(
        name,
        patch=encoder.patch,
        channels=encoder.channels,
        block=encoder.block,
        class_token=encoder.class_tokens,
    )
    if encoder.tiles is None or encoder.tile_outputs is None:
        return image
    tiles = encoder.tiles
    tiling = Tiling(tiles.pinpoints, tiles.pixels, encoder.tile_outputs, tiles.most)
    return replace(image, tiling=tiling, newline=decoder.vocab_size)


#: By kind of media, from an encoder's name and configuration, and that of the decoder.
MODALITIES: Mapping[str, Callable[[str, Any, DecoderConfig], Modality]] = MappingProxyType(
    {"image": _image, "audio": _audio}
)
