"""All forms in which models are released, by the `model_type` of their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.families.clip.release import CLIP
from mllm_jax.families.llava.release import LLAVA
from mllm_jax.families.llava_onevision.release import LLAVA_ONEVISION
from mllm_jax.families.qwen2_audio.release import QWEN2_AUDIO
from mllm_jax.families.siglip.release import SIGLIP
from mllm_jax.families.whisper.release import WHISPER
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


FAMILIES: Mapping[str, ReleaseFormat] = MappingProxyType(
    {
        family.name: family
        for family in (
            *map(_decoder, DECODERS),
            *SIGLIP,
            *CLIP,
            WHISPER,
            LLAVA,
            LLAVA_ONEVISION,
            QWEN2_AUDIO,
            CONNECTOR_FORMAT,
        )
    }
)


def family_named(name: Any) -> ReleaseFormat:
    """The family of a `model_type`.

    Raises:
        PretrainedError: there is none.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise PretrainedError(
            f"model_type {name!r} is not supported; valid: "
            f"{list_names(list(FAMILIES), len(FAMILIES))}"
        )
    return FAMILIES[name]
