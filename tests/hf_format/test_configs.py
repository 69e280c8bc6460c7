"""Released configurations become ours, and ours theirs; what would change the result is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mllm_jax.families.clip.release import read_clip
from mllm_jax.families.releases import read_decoder, write_decoder
from mllm_jax.families.siglip.release import read_siglip
from mllm_jax.families.whisper.release import read_whisper
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.models.model_config import ModelConfig

SIZES: dict[str, Any] = {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 96, "vocab": 128}
TYPE = {"rope_type": "llama3"}
SCALING: dict[str, Any] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    **TYPE,
}
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
    "rope_scaling": SCALING,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}


def read_values(values: dict[str, Any]) -> DecoderConfig:
    """The decoder of a configuration."""
    return ModelConfig.model_validate({"decoder": values}).decoder


def test_a_released_llama_is_ours() -> None:
    config = read_decoder(LLAMA)
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (32, 32, 8, 128)
    assert config.rope_theta == 5e5
    assert config.rope_scaling is not None
    assert config.rope_scaling.factor == 8
    newer = {key: value for key, value in LLAMA.items() if not key.startswith("rope")}
    rope = {**SCALING, "rope_theta": 5e5}
    assert read_decoder({**newer, "rope_parameters": rope}) == config


@pytest.mark.parametrize(
    ("changes", "theta", "trained"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, 5e5, 8192),
        ({"rope_scaling": None, "rope_parameters": {"rope_theta": 1e6}}, 1e6, None),
        ({"rope_scaling": {**SCALING, "rope_theta": 7e5}}, 7e5, 8192),
        ({"original_max_position_embeddings": 4096}, 5e5, 4096),
        ({"rope_scaling": {key: SCALING[key] for key in [*SCALING][:3]} | TYPE}, 5e5, 131072),
    ],
)
def test_of_what_is_said_twice_the_public_choice_counts(
    changes: dict[str, Any], theta: float, trained: int | None
) -> None:
    config = read_decoder({**LLAMA, **changes})
    assert config.rope_theta == theta
    scaling = config.rope_scaling
    assert (scaling.original_max_positions if scaling else None) == trained


def test_a_qwen3_that_does_not_say_the_width_of_its_heads() -> None:
    own = {key: value for key, value in LLAMA.items() if key != "rope_scaling"}
    assert read_decoder({**own, "model_type": "qwen3", "hidden_size": 1024}).head_dim == 128


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
    config = read_values(SIZES | changes)
    assert read_decoder(write_decoder(config)) == config


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"model_type": "mamba"},
            "model_type 'mamba' is not that of a decoder; valid: llama, mixtral, qwen2",
        ),
        ({"hidden_size": None}, "the configuration of llama lacks hidden_size"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu' is not supported; valid: 'silu'"),
        ({"attention_bias": True}, "attention_bias: True is not supported; valid: False"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type 'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "the rope of type llama3 lacks 'factor'"),
        ({"rope_scaling": {"full_attention": {"rope_theta": 1e6}}}, "of full_attention are not"),
        ({"rope_scaling": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor: 0.5 is not"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5 is not supported; valid: 1"),
        ({"rope_scaling": {"mrope_section": [16, 24, 24]}}, "mrope_section: [16, 24, 24] is not"),
        (
            {
                "rope_scaling": None,
                "rope_parameters": {"rope_type": "default", "mrope_section": [24, 20, 20]},
            },
            "mrope_section: [24, 20, 20] is not supported, as positions of released decoders have",
        ),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [2]}}, "rope_type 'mrope' is not"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PretrainedError) as refused:
        read_decoder({**LLAMA, **changes})
    assert told in str(refused.value)


#: The small Qwen1.5-MoE: every layer has experts.
MOE = {
    **{key: value for key, value in LLAMA.items() if key != "rope_scaling"},
    "model_type": "qwen2_moe",
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "norm_topk_prob": False,
    "num_hidden_layers": 24,
}


#: The same as a Mixtral, whose format does not say whether weights are divided by their sum.
MIXTRAL = {
    "model_type": "mixtral",
    "num_experts": None,
    "num_local_experts": 8,
    "sliding_window": None,
}


def test_layers_with_experts_are_those_of_the_release() -> None:
    for step, dense, expected in ((1, [], 24), (3, [], 8), (1, [0, 1], 22), (5, [0], 4)):
        own = read_decoder({**MOE, "decoder_sparse_step": step, "mlp_only_layers": dense})
        assert own.expert_layers == expected


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"decoder_sparse_step": 5},
            "num_hidden_layers: 24 is not supported with decoder_sparse_step: 5, as the last",
        ),
        ({"mlp_only_layers": [3]}, "mlp_only_layers: [3] is not supported; valid: the first"),
        ({"num_experts": None}, "the configuration of qwen2_moe lacks num_experts"),
        (
            {"num_experts_per_tok": 61},
            "num_experts_per_tok: 61 is not supported; valid: 1 to 60, as num_experts is 60",
        ),
        (
            {"shared_expert_intermediate_size": 0},
            "shared_expert_intermediate_size: 0 is not supported; valid: 1 or more",
        ),
        ({"num_experts": 10_001}, "num_experts: 10001 is not supported; valid: 1 to 10000"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step: 0 is not supported; valid: 1 or more"),
        ({"norm_topk_prob": 2}, "norm_topk_prob: 2 is not supported; valid: true, false"),
        (
            {"norm_topk_prob": True, "num_experts_per_tok": 1},
            "num_experts_per_tok: 1 is not supported where weights are divided by their sum, as no "
            "gradient of the loss reaches the router; valid: 2 to 60, or norm_topk_prob false",
        ),
        (
            {"mlp_only_layers": [*range(24)]},
            "and decoder_sparse_step: 1 leave none of 24 layers with experts; valid: mlp_",
        ),
        (
            {"mlp_only_layers": [0], "decoder_sparse_step": 25},
            "decoder_sparse_step: 25 leave none of 24 layers with experts; valid: a step up to 24",
        ),
        ({"mlp_only_layers": [-1]}, "mlp_only_layers: [-1] is not supported; valid: numbers"),
        ({"mlp_only_layers": ["a"]}, "mlp_only_layers: ['a'] is not supported; valid: numbers"),
        (
            {"output_router_logits": True, "router_aux_loss_coef": -1},
            "router_aux_loss_coef: -1 is not supported; valid: 0 or more",
        ),
    ],
    ids=str,
)
def test_experts_that_are_not_supported_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PretrainedError) as refused:
        read_decoder({**MOE, **changes})
    assert told in str(refused.value)
    assert "choose" not in str(refused.value)
    assert "experts." not in str(refused.value)


def test_mixtral_offers_no_key_that_its_format_lacks() -> None:
    """It always divides weights by their sum."""
    with pytest.raises(PretrainedError, match=r"num_experts_per_tok: 1 is .*; valid: 2 to 8$"):
        read_decoder({**MOE, **MIXTRAL, "num_experts_per_tok": 1})


def test_towers_of_old_clips_are_what_their_dictionaries_say() -> None:
    own = {"model_type": "clip_vision_model", "hidden_size": 64, "hidden_act": "gelu"}
    whole = {"model_type": "clip", "vision_config": own, "vision_config_dict": {"hidden_size": 96}}
    for values in (whole, whole | {"vision_config": None}):
        config = read_clip(values)
        assert (config.d_model, config.activation) == (96, "quick_gelu")


@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_a_tower_that_does_not_say_its_kind(kind: str) -> None:
    config = read_siglip({"model_type": kind, "vision_config": {"hidden_size": 96}})
    assert (config.d_model, config.antialias) == (96, kind == "siglip2")


def test_a_clip_within_a_model_that_does_not_say_its_kind() -> None:
    assert read_clip({"model_type": "llava", "vision_config": {"hidden_size": 96}}).d_model == 96
    with pytest.raises(PretrainedError, match="no vision_config is there, and model_type 'llava'"):
        read_clip({"model_type": "llava"})


def test_a_whisper_with_two_numbers_of_layers_is_refused() -> None:
    sizes = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2}
    rest = {"encoder_ffn_dim": 64, "num_mel_bins": 8, "max_source_positions": 12}
    values = {"model_type": "whisper", **sizes, **rest}
    assert read_whisper({**values, "num_hidden_layers": 2}).layers == 2
    told = "num_hidden_layers: 3 and encoder_layers: 2 are two names of one setting"
    with pytest.raises(PretrainedError, match=told):
        read_whisper({**values, "num_hidden_layers": 3})


def test_keys_of_a_whisper_under_their_other_names() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    rest = {"intermediate_size": 64, "num_mel_bins": 8, "max_source_positions": 12}
    config = read_whisper({"model_type": "qwen2_audio_encoder", **sizes, **rest})
    assert (config.d_model, config.layers, config.heads, config.d_ff) == (32, 2, 2, 64)


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe"])
def test_the_number_of_experts_has_two_names(family: str) -> None:
    own = {**MOE, "model_type": family}
    experts = own.pop("num_experts")
    found = {name: {**own, name: experts} for name in ("num_experts", "num_local_experts")}
    older, newer = (read_decoder(values) for values in found.values())
    assert older == newer
    assert older.experts is not None
    assert older.experts.count == experts
    assert read_decoder({**found["num_experts"], "num_local_experts": experts}) == older
    with pytest.raises(PretrainedError, match=r"experts: 6. and num_.* two names of one setting"):
        read_decoder({**found["num_experts"], "num_local_experts": experts + 4})


def test_layers_with_a_window_are_refused() -> None:
    kinds = ["full_attention"] * 32
    assert read_decoder({**LLAMA, "layer_types": kinds}) == read_decoder(LLAMA)
    with pytest.raises(
        PretrainedError, match=r"layer_types: .*; valid: 'full_attention' for every"
    ):
        read_decoder({**LLAMA, "layer_types": ["sliding_attention", *kinds[1:]]})


def test_the_base_of_rotary_positions_that_nobody_says_is_that_of_the_class() -> None:
    own = {key: value for key, value in MOE.items() if key != "rope_theta"}
    assert read_decoder(own).rope_theta == 1e4
    assert read_decoder({**own, **MIXTRAL}).rope_theta == 1e6


@pytest.mark.parametrize("own", [{"window": 4}, {"parallel_block": True}, {"extra_tokens": 1}])
def test_a_decoder_without_a_place_in_the_released_format_is_refused(own) -> None:
    config = read_values(SIZES | own)
    with pytest.raises(PretrainedError, match=f"{next(iter(own))}.* (has|have) no place"):
        write_decoder(config)


def test_a_family_without_a_released_format_is_refused() -> None:
    config = read_values(SIZES | {"family": "gpt"})
    with pytest.raises(PretrainedError, match="gpt has no released format; valid: llama"):
        write_decoder(config)


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
