"""All forms in which models are released, by the `model_type` of their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.models.config.model import (
    ClipConfig,
    DecoderConfig,
    EncoderConfig,
    SiglipConfig,
    WhisperConfig,
)
from mllm_jax.models.pretrained import encoder_configs as encoders
from mllm_jax.models.pretrained.configs import DECODERS, decoder_config, released_decoder
from mllm_jax.models.pretrained.connector import CONNECTOR_ALONE
from mllm_jax.models.pretrained.family import Composition, Family, Values, idle_norm
from mllm_jax.models.pretrained.files import OtherModulesError, PretrainedError, listed
from mllm_jax.models.pretrained.llava import LLAVA
from mllm_jax.models.pretrained.llava_onevision import LLAVA_ONEVISION
from mllm_jax.models.pretrained.qwen2_audio import QWEN2_AUDIO
from mllm_jax.models.pretrained.rules import (
    Rule,
    clip_rules,
    decoder_rules,
    siglip_rules,
    whisper_rules,
)


def _decoder(name: str) -> Family:
    """A decoder alone."""

    def rules(composition: Composition) -> dict[str, list[Rule]]:
        assert composition.decoder is not None
        return {"decoder": decoder_rules(composition.decoder)}

    def write(composition: Composition) -> dict[str, Any]:
        assert composition.decoder is not None
        if composition.decoder.family in {*DECODERS} - {name}:
            raise OtherModulesError(
                f"{name} is not the form of a decoder of family {composition.decoder.family}"
            )
        return released_decoder(composition.decoder)

    read, modules = lambda values: Composition(decoder_config(values)), {"decoder": DecoderConfig}
    return Family(name, modules, read, rules, write)


def _encoder(
    name: str,
    module: str,
    kind: type[Any],
    read: Callable[[Values], EncoderConfig],
    rules: Callable[[Any], list[Rule]],
    write: Callable[[Any], dict[str, Any]],
    unused: tuple[str, ...],
    renames: tuple[tuple[str, str], ...],
    norm: str | None = None,
) -> Family:
    """The form of an encoder alone, of class `kind`, which is called `module` here.

    Args:
        norm: name of a released norm behind the layers; some models have none there.
    """

    def idle(composition: Composition) -> Mapping[str, NDArray[np.float32]]:
        encoder = composition.encoders[module]
        used = isinstance(encoder, SiglipConfig) and encoder.final_norm
        return {} if norm is None or used else idle_norm(norm, encoder)

    return Family(
        name,
        {module: kind},
        lambda values: Composition(encoders={module: read(values)}),
        lambda composition: {module: rules(composition.encoders[module])},
        lambda composition: write(composition.encoders[module]),
        lambda values: unused,
        renames,
        idle,
    )


#: Everything of CLIP and SigLIP but their vision towers.
_TEXT = (r"text_model\..*", r"logit_(scale|bias)", r"(visual|text)_projection\..*")
_BARE = ((r"^(embeddings|encoder|pre_layrnorm|post_layernorm|head)\.", r"vision_model.\1."),)
_siglip = partial(
    _encoder,
    module="vision",
    kind=SiglipConfig,
    read=encoders.siglip_config,
    rules=siglip_rules,
    write=encoders.released_siglip,
    unused=(*_TEXT, r"vision_model\.head\..*"),
    renames=_BARE,
    norm="vision_model.post_layernorm",
)
_clip = partial(
    _encoder,
    module="vision",
    kind=ClipConfig,
    read=encoders.clip_config,
    rules=clip_rules,
    write=encoders.released_clip,
    unused=(*_TEXT, r"vision_model\.post_layernorm\..*"),
    renames=_BARE,
    norm="vision_model.post_layernorm",
)
_whisper = partial(
    _encoder,
    module="audio",
    kind=WhisperConfig,
    read=encoders.whisper_config,
    rules=whisper_rules,
    write=encoders.released_whisper,
    unused=(r"model\.decoder\..*", r"proj_out\..*"),
    renames=((r"^(encoder|decoder)\.", r"model.\1."),),
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            *map(_decoder, DECODERS),
            *map(_siglip, ("siglip", "siglip_vision_model", "siglip2", "siglip2_vision_model")),
            *map(_clip, ("clip", "clip_vision_model")),
            _whisper("whisper"),
            LLAVA,
            LLAVA_ONEVISION,
            QWEN2_AUDIO,
            CONNECTOR_ALONE,
        )
    }
)


def family_named(name: Any) -> Family:
    """The family of a `model_type`.

    Raises:
        PretrainedError: there is none.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise PretrainedError(
            f"model_type {name!r} is not supported; valid: {listed(list(FAMILIES), len(FAMILIES))}"
        )
    return FAMILIES[name]
