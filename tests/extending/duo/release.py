"""The release formats of the decoder, and of the model: an encoder, a linear layer, the decoder."""

from __future__ import annotations

from typing import Any

from mllm_jax.families.releases import decoder_rules, read_text_decoder, write_decoder
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.families.siglip.release import read_siglip, siglip_rules, write_siglip
from mllm_jax.hf_format.connector_rules import connector_rules
from mllm_jax.hf_format.decoder_rules import DecoderRelease
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat, Values
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.connector import ConnectorConfig

from .config import DuoConfig

DECODER = DecoderRelease("duo_text", DuoConfig, "DuoForCausalLM")
_CONNECTOR = ConnectorConfig(kind="linear")


def _read_model(values: Values) -> ReleasedModel:
    decoder, encoders = read_text_decoder(values, "duo_text"), {"vision": read_siglip(values)}
    placeholders, connectors = {"vision": values["image_token_id"]}, {"vision": _CONNECTOR}
    return ReleasedModel(decoder, encoders, placeholders, connectors)


def _tensor_rules(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    decoder, vision = model.require_pair("vision", SiglipConfig)
    connector = model.require_connector("vision")
    projector = connector_rules(connector, vision.d_model, decoder.d_model, "projector")
    return {
        "decoder": decoder_rules(decoder, "text.model.", "text.lm_head."),
        "vision": [*siglip_rules(vision, "vision."), *projector],
    }


def _write_config(model: ReleasedModel) -> dict[str, Any]:
    decoder, vision = model.require_pair("vision", SiglipConfig)
    connector = model.require_connector("vision")
    if connector.kind != "linear" or connector.joined != 1:
        raise PretrainedError(f"connector {connector} is not supported; valid: linear")
    return {
        "model_type": "duo",
        "image_token_id": model.placeholders["vision"],
        "text_config": write_decoder(decoder),
        "vision_config": write_siglip(vision),
    }


DUO = ReleaseFormat(
    "duo",
    {"decoder": DuoConfig, "vision": SiglipConfig},
    _read_model,
    _tensor_rules,
    _write_config,
    processor=lambda model: {"processor_class": "DuoProcessor"},
)
FORMATS = (DUO,)
