"""Released configurations become ours, and ours theirs; what would change the result is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mllm_jax.models.config import DecoderConfig
from mllm_jax.models.pretrained.configs import decoder_config, read_config, released_decoder
from mllm_jax.models.pretrained.files import PretrainedError

SIZES: dict[str, Any] = {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 96, "vocab": 128}
#: Llama 3.1 8B's, as it is released.
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}


def test_a_released_llama_is_ours() -> None:
    config = decoder_config(LLAMA)
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (32, 32, 8, 128)
    assert config.rope_theta == 5e5
    assert config.rope_scaling is not None
    assert config.rope_scaling.factor == 8
    newer = {key: value for key, value in LLAMA.items() if not key.startswith("rope")}
    rope = {**LLAMA["rope_scaling"], "rope_theta": 5e5}  # type: ignore[dict-item]
    assert decoder_config({**newer, "rope_parameters": rope}) == config


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "llama", "rope_scaling": {"factor": 4.0}},
        {"family": "qwen2", "kv_heads": 2, "tie_embeddings": True, "rope_theta": 1e6},
        {"family": "qwen3", "head_dim": 32, "norm_eps": 1e-6, "max_positions": 40960},
    ],
    ids=lambda changes: changes["family"],
)
def test_ours_becomes_what_it_came_from(changes: dict[str, Any]) -> None:
    config = DecoderConfig.model_validate(SIZES | changes)
    assert decoder_config(released_decoder(config)) == config


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is no decoder's; valid: llama, qwen2, qwen3"),
        ({"hidden_size": None}, "the configuration of llama lacks hidden_size"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu' is not supported; valid: 'silu'"),
        ({"attention_bias": True}, "attention_bias: True is not supported; valid: False"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type 'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "the rope of type llama3 lacks 'factor'"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PretrainedError) as refused:
        decoder_config({**LLAMA, **changes})
    assert told in str(refused.value)


def test_a_family_without_a_released_format_is_refused() -> None:
    config = DecoderConfig.model_validate(SIZES | {"family": "gpt"})
    with pytest.raises(PretrainedError, match="gpt has no released format; valid: llama"):
        released_decoder(config)


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot be read"), ("[]", "not an object"), ("[" * 100_000, "cannot be read")],
)
def test_files_that_are_no_configuration_are_refused(
    content: str | None, told: str, tmp_path: Any
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(PretrainedError, match=told):
        read_config(tmp_path)
