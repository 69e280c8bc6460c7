"""LLaVA-1.5 (arXiv 2310.03744): CLIP up to one of its last layers, two linear layers, a decoder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.clip.release import clip_rules, read_clip, write_clip
from mllm_jax.families.releases import decoder_rules, read_text_decoder, write_decoder
from mllm_jax.hf_format.configs import merge_aliases, read_activation, write_activation
from mllm_jax.hf_format.connector_rules import connector_rules
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import (
    MODEL_MODULE_NAMES,
    ReleasedModel,
    ReleaseFormat,
    Values,
    identity_norm,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig

#: Prefix of the tensors of the vision encoder.
VISION = "vision_tower.vision_model."
#: `ReleaseFormat.alternative_names` of models with such an encoder.
ALTERNATIVE_NAMES = (
    (r"^model\.(language_model|vision_tower|multi_modal_projector)\.", r"\1."),
    (r"^lm_head\.", "language_model.lm_head."),
    (r"^language_model\.(?!model\.|lm_head\.)", "language_model.model."),
    (r"^vision_tower\.(?!vision_model\.)", VISION),
)
_TOKEN = 32000  # where a configuration does not say


def _read_model(values: Values) -> ReleasedModel:
    decoder = read_text_decoder(values, "llama")
    released = read_clip(values)
    changes = {
        "layers": feature_layers(values, released.layers, default=-2),
        "class_token": _class_token(values),
    }
    vision = ClipConfig.model_validate({**released.model_dump(), **changes})
    token = placeholder_token(values, "image", _TOKEN)
    connectors = {"vision": read_projector(values)}
    return ReleasedModel(decoder, {"vision": vision}, {"vision": token}, connectors)


def read_projector(values: Values) -> ConnectorConfig:
    """The connector, two linear layers. Raises PretrainedError: its activation is unknown."""
    activation = read_activation(values.get("projector_hidden_act", "gelu"), "projector_hidden_act")
    keys = {"activation": activation, "bias": values.get("multimodal_projector_bias", True)}
    return ConnectorConfig.model_validate(keys)


def write_projector(connector: ConnectorConfig, d_decoder: int, name: str) -> dict[str, Any]:
    """The inverse of `read_projector`.

    Args:
        d_decoder: width of the decoder.
        name: name of the model, for messages.

    Raises:
        PretrainedError: the connector is not the two linear layers of the model.
    """
    if (
        connector.kind != "mlp"
        or connector.joined != 1
        or connector.hidden not in (None, d_decoder)
    ):
        raise PretrainedError(
            f"a connector of kind {connector.kind}, stack {connector.stack} and hidden "
            f"{connector.hidden} is not {name}'s; valid: mlp, 1, {d_decoder}"
        )
    return {
        "multimodal_projector_bias": connector.bias,
        "projector_hidden_act": write_activation(connector.activation),
    }


def projector_rules(model: ReleasedModel, decoder: DecoderConfig) -> list[TensorRule]:
    """Rules of the connector of images."""
    names = (f"multi_modal_projector.linear_{number}" for number in (1, 2))
    width = model.encoders["vision"].d_model
    return connector_rules(model.require_connector("vision"), width, decoder.d_model, *names)


def placeholder_token(values: Values, kind: str, default: int) -> int:
    """Id of the token of an image or clip, under either of its names.

    Raises:
        PretrainedError: both names are given, with different values.
    """
    name = f"{kind}_token_index"
    token: int | None = merge_aliases(values, {f"{kind}_token_id": name}).get(name)
    return default if token is None else token


def feature_layers(values: Values, released: int, default: int) -> int:
    """Number of layers up to the one whose outputs are the features; embeddings are layer 0.

    Args:
        values: configuration of the model.
        released: layers of its tower.
        default: value if the configuration has none.

    Raises:
        PretrainedError: features of several layers, or of one that there is not.
    """
    chosen = values.get("vision_feature_layer", default)
    if isinstance(chosen, list) and len(chosen) == 1:
        (chosen,) = chosen
    if not isinstance(chosen, int):
        raise PretrainedError(f"vision_feature_layer: {chosen} is not supported; valid: one layer")
    layers = chosen if chosen >= 0 else released + 1 + chosen
    if not 0 < layers <= released:
        raise PretrainedError(
            f"vision_feature_layer: {chosen} is none of {released} layers; valid: {-released} to "
            f"-1, or 1 to {released}"
        )
    return layers


def unused_layers(values: Values, released: int, default: int, prefix: str) -> tuple[str, ...]:
    """A pattern of the tensors of the tower's layers after the features; none if all are used.

    Args:
        values, released, default: as of `feature_layers`.
        prefix: prefix of the names of the tower's tensors.
    """
    used = feature_layers(values, released, default)
    numbers = "|".join(map(str, range(used, released)))
    return (rf"{re.escape(prefix)}encoder\.layers\.({numbers})\..*",) if numbers else ()


def _class_token(values: Values) -> str:
    chosen = values.get("vision_feature_select_strategy", "default")
    known = {"default": "dropped", "full": "kept"}
    if chosen not in known:
        raise PretrainedError(
            f"vision_feature_select_strategy: {chosen!r} is not supported; valid: default, full"
        )
    return known[chosen]


def _tensor_rules(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    decoder, vision = model.require_pair("vision", ClipConfig)
    return {
        "decoder": decoder_rules(decoder, "language_model.model.", "language_model.lm_head."),
        "vision": [*clip_rules(vision, VISION), *projector_rules(model, decoder)],
    }


def _write_config(model: ReleasedModel) -> dict[str, Any]:
    decoder, vision = model.require_pair("vision", ClipConfig)
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "image_seq_length": vision.grid[0] * vision.grid[1] + (vision.class_token == "kept"),
        "image_token_index": model.placeholders.get("vision", _TOKEN),
        **write_projector(model.require_connector("vision"), decoder.d_model, "LLaVA"),
        "text_config": write_decoder(decoder),
        "tie_word_embeddings": decoder.tie_embeddings,
        "vision_config": write_clip(vision),
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": _feature_strategy(vision),
    }


def _processor_config(model: ReleasedModel) -> dict[str, Any]:
    _, vision = model.require_pair("vision", ClipConfig)
    return {
        "processor_class": "LlavaProcessor",
        "num_additional_image_tokens": 1,
        "patch_size": vision.patch[0],
        "vision_feature_select_strategy": _feature_strategy(vision),
    }


def _feature_strategy(vision: ClipConfig) -> str:
    return "full" if vision.class_token == "kept" else "default"


def _unused_patterns(values: Values) -> tuple[str, ...]:
    """Layers after the features, and the norm after all layers."""
    layers = unused_layers(values, read_clip(values).layers, -2, VISION)
    return (*layers, rf"{re.escape(VISION)}post_layernorm\.(weight|bias)")


def last_norm(model: ReleasedModel) -> Mapping[str, NDArray[np.float32]]:
    """The norm after the encoder's layers, which the public implementation has and never uses."""
    return identity_norm(f"{VISION}post_layernorm", model.encoders["vision"])


LLAVA = ReleaseFormat(
    "llava",
    {"decoder": DecoderConfig, "vision": ClipConfig},
    _read_model,
    _tensor_rules,
    _write_config,
    _unused_patterns,
    alternative_names=ALTERNATIVE_NAMES,
    filler_tensors=last_norm,
    auto_class="AutoModelForImageTextToText",
    module_names=MODEL_MODULE_NAMES,
    processor=_processor_config,
)

FORMATS = (LLAVA,)
