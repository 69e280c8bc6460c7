"""All forms in which models are released, by the `model_type` of their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mllm_jax.models.config import EncoderConfig
from mllm_jax.models.pretrained import encoder_configs as encoders
from mllm_jax.models.pretrained.configs import DECODERS, decoder_config, released_decoder
from mllm_jax.models.pretrained.family import Composition, Family, Values, idle_norm
from mllm_jax.models.pretrained.files import PretrainedError, listed
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

    def release(composition: Composition) -> dict[str, Any]:
        if composition.decoder is None or composition.encoders:
            raise PretrainedError(f"{name} is a decoder alone; {_what(composition)}")
        return released_decoder(composition.decoder)

    return Family(name, lambda values: Composition(decoder_config(values)), rules, release)


def _encoder(
    name: str,
    module: str,
    read: Callable[[Values], EncoderConfig],
    rules: Callable[[Any], list[Rule]],
    release: Callable[[Any], dict[str, Any]],
    unused: tuple[str, ...],
    renames: tuple[tuple[str, str], ...],
    norm: str | None = None,
) -> Family:
    """An encoder alone, which is called `module` here.

    Args:
        norm: one behind the layers that is released with it and not used.
    """

    def released(composition: Composition) -> dict[str, Any]:
        if composition.decoder is not None or [*composition.encoders] != [module]:
            raise PretrainedError(f"{name} is an encoder {module!r} alone; {_what(composition)}")
        return release(composition.encoders[module])

    return Family(
        name,
        lambda values: Composition(encoders={module: read(values)}),
        lambda composition: {module: rules(composition.encoders[module])},
        released,
        lambda values: unused,
        renames,
        lambda composition: idle_norm(norm, composition.encoders[module]) if norm else {},
    )


def _what(composition: Composition) -> str:
    has = ["a decoder"] * (composition.decoder is not None) + [*composition.encoders]
    return f"this is {listed(has)}"


#: Everything of CLIP and SigLIP but their vision towers.
_TEXT = (r"text_model\..*", r"logit_(scale|bias)", r"(visual|text)_projection\..*")
_BARE = ((r"^(embeddings|encoder|pre_layrnorm|post_layernorm|head)\.", r"vision_model.\1."),)
_siglip = partial(
    _encoder,
    module="vision",
    read=encoders.siglip_config,
    rules=siglip_rules,
    release=encoders.released_siglip,
    unused=(*_TEXT, r"vision_model\.head\..*"),
    renames=_BARE,
)
_clip = partial(
    _encoder,
    module="vision",
    read=encoders.clip_config,
    rules=clip_rules,
    release=encoders.released_clip,
    unused=(*_TEXT, r"vision_model\.post_layernorm\..*"),
    renames=_BARE,
    norm="vision_model.post_layernorm",
)
_whisper = partial(
    _encoder,
    module="audio",
    read=encoders.whisper_config,
    rules=whisper_rules,
    release=encoders.released_whisper,
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
