"""All formats in which models are released, by the `model_type` of their configuration."""

from __future__ import annotations

from typing import Any

from mllm_jax.families import registry
from mllm_jax.families.family import load_reference
from mllm_jax.hf_format.connector_rules import CONNECTOR_FORMAT
from mllm_jax.hf_format.decoder_rules import (
    DECODERS,
    decoder_rules,
    read_decoder,
    write_decoder,
)
from mllm_jax.hf_format.files import OtherModulesError, PretrainedError, list_names
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.decoder import DecoderConfig


def _decoder(name: str) -> ReleaseFormat:
    """A decoder alone."""

    def rules(composition: ReleasedModel) -> dict[str, list[TensorRule]]:
        assert composition.decoder is not None
        return {"decoder": decoder_rules(composition.decoder)}

    def write(composition: ReleasedModel) -> dict[str, Any]:
        assert composition.decoder is not None
        if composition.decoder.family in {*DECODERS} - {name}:
            raise OtherModulesError(
                f"{name} is not the form of a decoder of family {composition.decoder.family}"
            )
        return write_decoder(composition.decoder)

    read, modules = lambda values: ReleasedModel(read_decoder(values)), {"decoder": DecoderConfig}
    return ReleaseFormat(name, modules, read, rules, write)


def formats() -> dict[str, ReleaseFormat]:
    """The formats of all families, by `model_type`; imports what releases need of each."""
    references = (registry.family(name).formats for name in registry.names())
    released = [own for reference in references if reference for own in load_reference(reference)]
    every = (*map(_decoder, DECODERS), *released, CONNECTOR_FORMAT)
    return {release_format.name: release_format for release_format in every}


def format_named(model_type: Any) -> ReleaseFormat:
    """The format of a `model_type`.

    Raises:
        PretrainedError: there is none.
    """
    every = formats()
    if not isinstance(model_type, str) or model_type not in every:
        valid = list_names(list(every), len(every))
        raise PretrainedError(f"model_type {model_type!r} is not supported; valid: {valid}")
    return every[model_type]
