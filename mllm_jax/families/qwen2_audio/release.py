"""Qwen2-Audio (arXiv 2407.10759): Whisper's encoder, averages of pairs, a linear layer, Qwen2."""

from __future__ import annotations

from typing import Any

from mllm_jax.families.llava.release import placeholder
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.families.whisper.release import released_whisper, whisper_config, whisper_rules
from mllm_jax.hf_format.connector_rules import connector_rules
from mllm_jax.hf_format.decoder_rules import decoder_rules, released_decoder, text_config
from mllm_jax.hf_format.family import WHOLE_MODULES, Composition, Family, Values
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.rules import Rule
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig

_TOKEN = 151646  # where a configuration does not say
#: Frames behind a clip that its last position hears.
_LOOKAHEAD = 2


def _read(values: Values) -> Composition:
    encoder = values.get("audio_config") or {}
    whole = whisper_config({"model_type": "qwen2_audio_encoder", **encoder})
    own = {"lookahead": _LOOKAHEAD, "connector": {"kind": "average", "stack": 2}}
    audio = WhisperConfig.model_validate({**whole.model_dump(), **own})
    token = placeholder(values, "audio", _TOKEN)
    return Composition(text_config(values, "qwen2"), {"audio": audio}, {"audio": token})


def _rules(composition: Composition) -> dict[str, list[Rule]]:
    decoder, audio = composition.decoder, composition.encoders["audio"]
    assert decoder is not None
    assert isinstance(audio, WhisperConfig)
    name = "multi_modal_projector.linear"
    connector = connector_rules(audio.connector, audio.connected, decoder.d_model, name)
    return {
        "decoder": decoder_rules(decoder, "language_model.model.", "language_model.lm_head."),
        "audio": [*whisper_rules(audio, "audio_tower."), *connector],
    }


def _write(composition: Composition) -> dict[str, Any]:
    decoder, audio = composition.decoder, composition.encoders["audio"]
    assert decoder is not None
    assert isinstance(audio, WhisperConfig)
    _check_encoder(audio)
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "audio_config": released_whisper(audio, "qwen2_audio_encoder"),
        "audio_token_index": composition.placeholders.get("audio", _TOKEN),
        "text_config": released_decoder(decoder),
        "tie_word_embeddings": decoder.tie_embeddings,
        "vocab_size": decoder.vocab_size,
    }


def _check_encoder(audio: EncoderConfig) -> None:
    own = audio.connector
    if (own.kind, own.stack, own.bias) != ("average", 2, True):
        raise PretrainedError(
            f"a connector of kind {own.kind}, stack {own.stack} and bias {own.bias} is not "
            "Qwen2-Audio's; valid: average, 2, true"
        )


QWEN2_AUDIO = Family(
    "qwen2_audio",
    {"decoder": DecoderConfig, "audio": WhisperConfig},
    _read,
    _rules,
    _write,
    renames=(
        (r"^model\.(language_model|audio_tower|multi_modal_projector)\.", r"\1."),
        (r"^lm_head\.", "language_model.lm_head."),
        (r"^language_model\.(?!model\.|lm_head\.)", "language_model.model."),
    ),
    modules_of=WHOLE_MODULES,
    processor=lambda composition: {"processor_class": "Qwen2AudioProcessor"},
)
