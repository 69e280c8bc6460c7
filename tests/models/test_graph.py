"""Impossible models are refused with the reason and the valid choices."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mllm_jax.families.choice import DECODERS, AnyDecoder
from mllm_jax.models.graph import ModelConfig
from tests.models import towers

DECODER_TYPE: TypeAdapter[Any] = TypeAdapter(AnyDecoder)
DECODER: dict[str, Any] = {"layers": 1, "d_model": 32, "heads": 4, "d_ff": 64}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"heads": 5}, r"d_model 32 is not divisible by heads 5; choose heads from \[1, 2, 4"),
        ({"kv_heads": 3}, r"heads 4 is not divisible by kv_heads 3; .* from \[1, 2, 4\]"),
        ({"family": "gpt", "kv_heads": 2}, "no grouped heads; set kv_heads to 4"),
        ({"head_dim": 7}, "head_dim 7 must be even"),
        ({"family": "mamba"}, ", ".join(map(repr, DECODERS.valid_classes()))),
        ({"layers": 0}, "greater than 0"),
        ({"width": 3}, "Extra inputs"),
        (
            {"rope_scaling": {"low_freq_factor": 4.0, "high_freq_factor": 4.0}},
            "must exceed low_freq_factor",
        ),
    ],
)
def test_decoder_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        DECODER_TYPE.validate_python({**DECODER, **changes})


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("siglip", {"connector": {"stack": 4}}, "must be a block of patches"),
        ("siglip", {"connector": {"stack": [0, 2]}}, r"at least \[1, 1\]"),
        ("whisper", {"connector": {"stack": [2, 2]}}, "number of frames, for example 4"),
        ("whisper", {"d_model": 33, "heads": 3}, "must be even for sinusoidal"),
        ("vit22b", {"heads": 7}, "not divisible by heads 7"),
    ],
)
def test_encoder_is_refused(family: str, changes: dict[str, Any], reason: str) -> None:
    values = towers.model(encoder=family).model_dump()
    media = {**values["encoders"]["media"], **changes}
    media.pop("head_dim")
    values["encoders"]["media"] = media
    with pytest.raises(ValidationError, match=reason):
        ModelConfig.model_validate(values)


def test_defaults_follow_from_the_widths() -> None:
    config = DECODER_TYPE.validate_python(DECODER)
    assert (config.kv_heads, config.head_dim) == (4, 8)
    with pytest.raises(ValueError, match="set it to the tokenizer's size"):
        _ = config.vocab_size


def test_requirements_name_what_a_plan_must_divide() -> None:
    config = towers.model(encoder="whisper")
    decoder = {(need.name, need.size, need.axis) for need in config.requirements("decoder")}
    assert ("heads", 4, "sequence") in decoder
    # Heads of keys and values are copied, and the vocabulary is padded.
    assert not {"kv_heads", "vocab"} & {name for name, _, _ in decoder}
    media = {(need.name, need.size, need.axis) for need in config.requirements("media")}
    assert ("connector.hidden", 40, "tensor") in media
    assert config.encoders["media"].reduction == 4
