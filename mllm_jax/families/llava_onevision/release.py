"""LLaVA-OneVision (arXiv 2408.03326): SigLIP over tiles, two linear layers, Qwen2, a newline."""

from __future__ import annotations

import re
from typing import Any

from mllm_jax.families.llava.release import (
    ALTERNATIVE_NAMES,
    VISION,
    feature_layers,
    last_norm,
    placeholder_token,
    projector_rules,
    read_projector,
    unused_layers,
    write_projector,
)
from mllm_jax.families.releases import decoder_rules, read_text_decoder, write_decoder
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.families.siglip.release import read_siglip, siglip_rules, write_siglip
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import (
    MODEL_MODULE_NAMES,
    ReleasedModel,
    ReleaseFormat,
    Values,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import TensorTransform
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import ImageEncoderConfig
from mllm_jax.layers.config.parts import TilesConfig

_TOKEN = 151646  # where a configuration does not say
#: The tower of a configuration that says nothing of it.
_TOWER = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "num_attention_heads": 16,
}
#: Tiles of a configuration that lists no resolutions, along either side.
_MOST_TILES = 6
#: Keys for which one value is supported here, with the released default.
_FIXED = {"vision_feature_select_strategy": "full", "use_image_newline_parameter": True}


def _read_model(values: Values) -> ReleasedModel:
    _check_fixed(values)
    decoder = read_text_decoder(values, "qwen2").model_copy(update={"extra_tokens": 1})
    tower = _read_tower(values)
    released = read_siglip(tower)
    changes = {
        "layers": feature_layers(values, released.layers, default=-1),
        "final_norm": False,
        "tiles": _read_tiles(values, tower["image_size"]),
    }
    vision = SiglipConfig.model_validate({**released.model_dump(), **changes})
    token = placeholder_token(values, "image", _TOKEN)
    connectors = {"vision": read_projector(values)}
    return ReleasedModel(decoder, {"vision": vision}, {"vision": token}, connectors)


def _check_fixed(values: Values) -> None:
    for key, valid in _FIXED.items():
        if (value := values.get(key, valid)) != valid:
            raise PretrainedError(f"{key}: {value!r} is not supported; valid: {valid!r}")


def _read_tower(values: Values) -> dict[str, Any]:
    """The configuration of the tower; missing keys have the defaults of SigLIP's class."""
    tower = values.get("vision_config") or _TOWER
    return {"model_type": "siglip_vision_model", "image_size": 224, **tower}


def _read_tiles(values: Values, side: int) -> TilesConfig:
    ratio = str(values.get("vision_aspect_ratio", "anyres_max_9"))
    most = re.fullmatch(r"anyres_max_(\d+)", ratio)
    if most is None:
        raise PretrainedError(
            f"vision_aspect_ratio: {ratio!r} is not supported; valid: anyres_max_ and a number"
        )
    sides = [side * count for count in range(1, _MOST_TILES + 1)]
    every = [(height, width) for height in sides for width in sides]
    pinpoints = values.get("image_grid_pinpoints") or every
    try:
        return TilesConfig.model_validate(
            {"pixels": (side, side), "pinpoints": pinpoints, "most": int(most[1])}
        )
    except ValueError as error:
        raise PretrainedError(f"image_grid_pinpoints or vision_aspect_ratio: {error}") from error


def _tensor_rules(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    decoder, vision = model.require_pair("vision", SiglipConfig)
    return {
        "decoder": [
            *decoder_rules(decoder, "language_model.model.", "language_model.lm_head."),
            _newline_rule(decoder.d_model),
        ],
        "vision": [*siglip_rules(vision, VISION), *projector_rules(model, decoder)],
    }


def _newline_rule(width: int) -> TensorRule:
    """The only token after the vocabulary."""
    form = TensorTransform((width,), (1, width), (0, 1), (1, width))
    return TensorRule("extra_embedding.embedding", "image_newline", form)


def _write_config(model: ReleasedModel) -> dict[str, Any]:
    decoder, vision = model.require_pair("vision", SiglipConfig)
    connector = model.require_connector("vision")
    projector = write_projector(connector, decoder.d_model, "LLaVA-OneVision")
    tiles = _released_tiles(decoder, vision, connector)
    text = write_decoder(decoder.model_copy(update={"extra_tokens": 0}))
    return {
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
        "model_type": "llava_onevision",
        "image_grid_pinpoints": [list(pinpoint) for pinpoint in tiles.pinpoints],
        "image_token_index": model.placeholders.get("vision", _TOKEN),
        **projector,
        "text_config": text,
        "tie_word_embeddings": decoder.tie_embeddings,
        "use_image_newline_parameter": True,
        "vision_aspect_ratio": f"anyres_max_{tiles.most}",
        "vision_config": {**write_siglip(vision), "image_size": tiles.pixels[0]},
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    }


def _processor_config(model: ReleasedModel) -> dict[str, Any]:
    _, vision = model.require_pair("vision", SiglipConfig)
    assert vision.tiles is not None
    return {
        "processor_class": "LlavaOnevisionProcessor",
        "num_image_tokens": vision.grid[0] * vision.grid[1],
        "vision_aspect_ratio": f"anyres_max_{vision.tiles.most}",
        "vision_feature_select_strategy": "full",
    }


def _released_tiles(
    decoder: DecoderConfig, vision: SiglipConfig, connector: ConnectorConfig
) -> TilesConfig:
    """The tiles of a model that can be released.

    Raises:
        PretrainedError: the model is not of LLaVA-OneVision's form.
    """
    if vision.tiles is None or vision.final_norm or decoder.extra_tokens != 1:
        raise PretrainedError(
            f"tiles {'null' if vision.tiles is None else 'given'}, final_norm "
            f"{vision.final_norm} and extra_tokens {decoder.extra_tokens} are not "
            "LLaVA-OneVision's; valid: tiles, false, 1"
        )
    _check_square(vision, vision.tiles, connector)
    return vision.tiles


def _check_square(
    vision: ImageEncoderConfig, tiles: TilesConfig, connector: ConnectorConfig
) -> None:
    """A tile is a square of as many patches as there are positions."""
    outputs = vision.tile_outputs(connector)
    if tiles.pixels[0] != tiles.pixels[1] or outputs != vision.grid:
        raise PretrainedError(
            f"tiles of {list(tiles.pixels)} pixels and {outputs} patches beside a grid "
            f"of {vision.grid} positions have no released format; valid: squares of one size"
        )


def _unused_patterns(values: Values) -> tuple[str, ...]:
    """Layers after the features, the norm after all layers, and the pooling head."""
    layers = unused_layers(values, read_siglip(_read_tower(values)).layers, -1, VISION)
    return (*layers, rf"{re.escape(VISION)}(post_layernorm|head)\..*")


LLAVA_ONEVISION = ReleaseFormat(
    "llava_onevision",
    {"decoder": DecoderConfig, "vision": SiglipConfig},
    _read_model,
    _tensor_rules,
    _write_config,
    _unused_patterns,
    alternative_names=((r"^model\.image_newline$", "image_newline"), *ALTERNATIVE_NAMES),
    filler_tensors=last_norm,
    auto_class="AutoModelForImageTextToText",
    note="`AutoProcessor` of this type has a processor of videos, too, and so needs torchvision, "
    "of the same build as torch.",
    module_names=MODEL_MODULE_NAMES,
    processor=_processor_config,
)

FORMATS = (LLAVA_ONEVISION,)
