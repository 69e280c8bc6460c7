"""All formats in which models are released, by the `model_type` of their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mllm_jax.families import registry
from mllm_jax.families.family import load_reference
from mllm_jax.hf_format.connector_rules import CONNECTOR_FORMAT
from mllm_jax.hf_format.decoder_rules import DecoderRelease
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.release_format import ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.decoder import DecoderConfig


def release_formats() -> dict[str, ReleaseFormat]:
    """The formats of all families, by `model_type`; imports what releases need of each."""
    decoders = [release.release_format for release in decoder_releases().values()]
    references = (registry.find_family(name).formats for name in registry.family_names())
    others = [
        release for reference in references if reference for release in load_reference(reference)
    ]
    every = (*decoders, *others, CONNECTOR_FORMAT)
    return {release_format.name: release_format for release_format in every}


def format_named(model_type: Any) -> ReleaseFormat:
    """The format of a `model_type`.

    Raises:
        PretrainedError: there is none.
    """
    every = release_formats()
    if not isinstance(model_type, str) or model_type not in every:
        valid = list_names(list(every), len(every))
        raise PretrainedError(f"model_type {model_type!r} is not supported; valid: {valid}")
    return every[model_type]


# ---- decoders, which are released alone and in multimodal models ---------------------------------


def decoder_releases() -> dict[str, DecoderRelease]:
    """The releases of all families of decoders, by `model_type`."""
    references = (registry.find_family(name).decoder for name in registry.family_names())
    releases = (load_reference(reference) for reference in references if reference)
    return {release.model_type: release for release in releases}


def read_decoder(values: Mapping[str, Any]) -> DecoderConfig:
    """The decoder of a released configuration.

    Raises:
        PretrainedError: no decoder is released so, or as in `DecoderRelease.read_config`.
    """
    return _decoder_named(values.get("model_type")).read_config(values)


def read_text_decoder(values: Mapping[str, Any], default: str) -> DecoderConfig:
    """The decoder of a multimodal model, from its `text_config`.

    Args:
        values: configuration of the model, which may tie the embeddings as well.
        default: `model_type` of a decoder that does not say its own.

    Raises:
        PretrainedError: as in `read_decoder`.
    """
    text = values.get("text_config") or {}
    release = _decoder_named(text.get("model_type", default))
    tied = any(bool(part.get("tie_word_embeddings")) for part in (values, text))
    return release.read_config(
        {
            "model_type": release.model_type,
            **release.text_defaults,
            **text,
            "tie_word_embeddings": tied,
        }
    )


def write_decoder(config: DecoderConfig) -> dict[str, Any]:
    """`config.json` of a decoder, or the `text_config` of a multimodal model.

    Raises:
        PretrainedError: the decoder has no released format.
    """
    return _release_of(config).write_config(config)


def decoder_rules(
    config: DecoderConfig, body: str = "model.", head: str = "lm_head."
) -> list[TensorRule]:
    """Rules of a decoder's parameters.

    Args:
        body, head: prefixes of the names of the transformer's tensors, and of the head's.

    Raises:
        PretrainedError: the decoder has no released format.
    """
    return _release_of(config).tensor_rules(config, body, head)


def _decoder_named(model_type: Any) -> DecoderRelease:
    releases = decoder_releases()
    if not isinstance(model_type, str) or model_type not in releases:
        valid = list_names(list(releases))
        raise PretrainedError(f"model_type {model_type!r} is not that of a decoder; valid: {valid}")
    return releases[model_type]


def _release_of(config: DecoderConfig) -> DecoderRelease:
    releases = decoder_releases().values()
    release = next(
        (candidate for candidate in releases if isinstance(config, candidate.config)), None
    )
    if release is None:
        valid = list_names([candidate.model_type for candidate in releases])
        raise PretrainedError(f"family {config.family} has no released format; valid: {valid}")
    return release
