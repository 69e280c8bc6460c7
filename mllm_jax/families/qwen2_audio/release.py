"""Qwen2-Audio (arXiv 2407.10759): Whisper's encoder, averages of pairs, a linear layer, Qwen2."""

from __future__ import annotations

from typing import Any

from mllm_jax.families.llava.release import placeholder_token
from mllm_jax.families.releases import decoder_rules, read_text_decoder, write_decoder
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.families.whisper.release import read_whisper, whisper_rules, write_whisper
from mllm_jax.hf_format.connector_rules import connector_rules
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import (
    MODEL_MODULE_NAMES,
    ReleasedModel,
    ReleaseFormat,
    Values,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig

_TOKEN = 151646  # where a configuration does not say
#: The average of two positions, and a linear layer.
CONNECTOR = ConnectorConfig(kind="average", stack=2)
#: Frames after a clip that its last position hears.
_LOOKAHEAD = 2


def _read_model(values: Values) -> ReleasedModel:
    encoder = values.get("audio_config") or {}
    released = read_whisper({"model_type": "qwen2_audio_encoder", **encoder})
    audio = released.model_copy(update={"lookahead": _LOOKAHEAD})
    token = placeholder_token(values, "audio", _TOKEN)
    decoder, connectors = read_text_decoder(values, "qwen2"), {"audio": CONNECTOR}
    return ReleasedModel(decoder, {"audio": audio}, {"audio": token}, connectors)


def _tensor_rules(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    decoder, audio = model.require_pair("audio", WhisperConfig)
    name = "multi_modal_projector.linear"
    connector = model.require_connector("audio")
    rules = connector_rules(connector, audio.d_model, decoder.d_model, name)
    return {
        "decoder": decoder_rules(decoder, "language_model.model.", "language_model.lm_head."),
        "audio": [*whisper_rules(audio, "audio_tower."), *rules],
    }


def _write_config(model: ReleasedModel) -> dict[str, Any]:
    decoder, audio = model.require_pair("audio", WhisperConfig)
    _check_connector(model.require_connector("audio"))
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "audio_config": write_whisper(audio, "qwen2_audio_encoder"),
        "audio_token_index": model.placeholders.get("audio", _TOKEN),
        "text_config": write_decoder(decoder),
        "tie_word_embeddings": decoder.tie_embeddings,
        "vocab_size": decoder.vocab_size,
    }


def _check_connector(connector: ConnectorConfig) -> None:
    if (connector.kind, connector.stack, connector.bias) != ("average", 2, True):
        raise PretrainedError(
            f"a connector of kind {connector.kind}, stack {connector.stack} and bias "
            f"{connector.bias} is not Qwen2-Audio's; valid: average, 2, true"
        )


QWEN2_AUDIO = ReleaseFormat(
    "qwen2_audio",
    {"decoder": DecoderConfig, "audio": WhisperConfig},
    _read_model,
    _tensor_rules,
    _write_config,
    auto_class="Qwen2AudioForConditionalGeneration",
    alternative_names=(
        (r"^model\.(language_model|audio_tower|multi_modal_projector)\.", r"\1."),
        (r"^lm_head\.", "language_model.lm_head."),
        (r"^language_model\.(?!model\.|lm_head\.)", "language_model.model."),
    ),
    module_names=MODEL_MODULE_NAMES,
    processor=lambda model: {"processor_class": "Qwen2AudioProcessor"},
)

FORMATS = (QWEN2_AUDIO,)
