"""Whisper's processor: log-mel frames of clips."""

from __future__ import annotations

from data.media.audio.row_spec import AudioRowSpec
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.layers.config.decoder import DecoderConfig


def make_row_spec(name: str, encoder: WhisperConfig, decoder: DecoderConfig) -> AudioRowSpec:
    """The description of an encoder's clips."""
    del decoder
    return AudioRowSpec(
        name,
        mels=encoder.mels,
        stride=encoder.reduction,
        pool=encoder.stack if encoder.connector.kind == "average" else 1,
        lookahead=encoder.lookahead,
        longest=encoder.longest,
    )
