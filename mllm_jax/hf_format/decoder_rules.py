"""Released decoders: their configuration both ways, and where their parameters come from.

A released configuration says more than ours does; what would change the result is checked, and
refused where this framework does something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mllm_jax.hf_format.configs import merge_aliases
from mllm_jax.hf_format.expert_rules import (
    ALIASES,
    FIXED,
    mlp_rules,
    read_experts,
    write_experts,
)
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import TensorTransform, dense_kernel, flat_vector, identity
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_families import FAMILIES
from mllm_jax.layers.config.parts import RopeScaling

#: The parameter that a tied head is.
EMBEDDING = "embed_tokens.embedding"

#: `model_type` of decoders, with the family and the class of the public implementation.
DECODERS: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
#: Keys of a decoder with their released names.
_KEYS = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "vocab": "vocab_size",
    "norm_eps": "rms_norm_eps",
    "max_positions": "max_position_embeddings",
}
#: Released keys for which decoders here support one value, with this value.
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "mlp_bias": (False, None),
    "use_sliding_window": (False, None),
    "attention_dropout": (0, None),
    "pretraining_tp": (1, None),
    "quantization_config": (None,),
}
#: The attention of every layer here, as newer configurations list it.
_FULL = "full_attention"
#: Base of rotary positions where a configuration says none, by family if it is another.
_THETA, _THETAS = 10_000.0, {"mixtral": 1e6}
_ROPE = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_positions": "original_max_position_embeddings",
}

#: Defaults that the decoder of a multimodal model may leave out, by its class.
_QWEN = {
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 32768,
    "vocab_size": 151936,
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "vocab_size": 32000,
    },
    "qwen2": _QWEN,
    "qwen3": {**_QWEN, "head_dim": 128},
}


def read_decoder(values: Mapping[str, Any]) -> DecoderConfig:
    """The decoder of a released configuration, or of its `text_config`.

    Raises:
        PretrainedError: a key is missing, or has a value that decoders here do not support.
    """
    family = values.get("model_type")
    if family not in DECODERS:
        valid = list_names(list(DECODERS))
        raise PretrainedError(f"model_type {family!r} is not that of a decoder; valid: {valid}")
    values = merge_aliases(values, ALIASES.get(str(family), {}))
    missing = [key for key in _KEYS.values() if values.get(key) is None]
    if missing:
        raise PretrainedError(f"the configuration of {family} lacks {list_names(missing)}")
    _check_fixed(values)
    return DecoderConfig(
        family=family,
        kv_heads=values.get("num_key_value_heads"),
        head_dim=values.get("head_dim", _DEFAULTS.get(str(family), {}).get("head_dim")),
        tie_embeddings=values.get("tie_word_embeddings", False),
        experts=read_experts(values),
        **_read_rope(values),
        **{key: values[released] for key, released in _KEYS.items()},
    )


def read_text_decoder(values: Mapping[str, Any], default: str) -> DecoderConfig:
    """The decoder of a multimodal model, from its `text_config`.

    Args:
        values: configuration of the model, which may tie the embeddings as well.
        default: `model_type` of a decoder that does not say its own.

    Raises:
        PretrainedError: as in `decoder_config`.
    """
    text = values.get("text_config") or {}
    kind = text.get("model_type", default)
    tied = any(bool(part.get("tie_word_embeddings")) for part in (values, text))
    defaults = _DEFAULTS.get(kind, {})
    return read_decoder({"model_type": kind, **defaults, **text, "tie_word_embeddings": tied})


def _check_fixed(values: Mapping[str, Any]) -> None:
    fixed = dict(_FIXED)
    if not FAMILIES[values["model_type"]].biases:  # other families have biases whatever it says
        fixed["attention_bias"] = (False, None)
    fixed |= FIXED.get(values["model_type"], {})
    for key, valid in fixed.items():
        if values.get(key, valid[0]) not in valid:
            raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid[0]!r}")
    kinds = values.get("layer_types")
    if kinds is not None and any(kind != _FULL for kind in kinds):
        raise PretrainedError(
            f"layer_types: {kinds!r:.120} is not supported; valid: {_FULL!r} for every layer"
        )


def _read_rope(values: Mapping[str, Any]) -> dict[str, Any]:
    """Base and scaling; newer configurations have both in `rope_parameters`.

    If a configuration has two keys for one setting, the one of the public implementation counts.
    """
    rope = values.get("rope_scaling") or values.get("rope_parameters") or {}
    usual = _THETAS.get(values["model_type"], _THETA)
    theta = rope.get("rope_theta", values.get("rope_theta", usual))
    kind = rope.get("rope_type", rope.get("type", "default"))
    _check_rope(rope, kind)
    if kind == "default":
        return {"rope_theta": theta, "rope_scaling": None}
    trained = {"original_max_position_embeddings": values["max_position_embeddings"]}
    stated = {key: values[key] for key in trained if values.get(key) is not None}
    rope = {**trained, **rope, **stated}
    try:
        scaling = RopeScaling(**{key: rope[released] for key, released in _ROPE.items()})
    except KeyError as error:
        raise PretrainedError(f"the rope of type llama3 lacks {error}") from error
    return {"rope_theta": theta, "rope_scaling": scaling}


def _check_rope(rope: Mapping[str, Any], kind: Any) -> None:
    """Raise PretrainedError for rotary positions that are not supported here."""
    if kind not in ("default", "llama3"):
        raise PretrainedError(f"rope_type {kind!r} is not supported; valid: 'default', 'llama3'")
    nested = [key for key, value in rope.items() if isinstance(value, Mapping)]
    if nested:
        raise PretrainedError(
            f"rope_parameters of {list_names(nested)} are not supported; valid: the same for all "
            "layers"
        )
    if rope.get("partial_rotary_factor", 1) not in (1, None):
        raise PretrainedError(
            f"partial_rotary_factor: {rope['partial_rotary_factor']} is not supported; valid: 1"
        )


def write_decoder(config: DecoderConfig) -> dict[str, Any]:
    """The inverse of `decoder_config`, as the public implementation reads it.

    Raises:
        PretrainedError: nothing released is of this family.
    """
    if config.extra_tokens:
        raise PretrainedError(
            f"model.decoder.extra_tokens: {config.extra_tokens} have no place in the released "
            "format of a decoder; valid: 0"
        )
    if config.window is not None:
        raise PretrainedError(
            f"model.decoder.window: {config.window} has no place in the released format of a "
            "decoder; valid: null"
        )
    if config.parallel_block:
        raise PretrainedError(
            "model.decoder.parallel_block has no place in the released format of a decoder; "
            "valid: false"
        )
    if config.family not in DECODERS:
        raise PretrainedError(
            f"model.decoder.family: {config.family} has no released format; valid: "
            f"{list_names(list(DECODERS))}"
        )
    values: dict[str, Any] = {
        "architectures": [DECODERS[config.family]],
        "model_type": config.family,
        **{released: getattr(config, key) for key, released in _KEYS.items()},
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_act": "silu",
        "attention_bias": bool(config.traits.biases),
        **write_experts(config),
    }
    if config.rope_scaling is not None:
        scaling = {released: getattr(config.rope_scaling, key) for key, released in _ROPE.items()}
        values["rope_scaling"] = {"rope_type": "llama3", **scaling}
    return values


def decoder_rules(
    config: DecoderConfig, body: str = "model.", head: str = "lm_head."
) -> list[TensorRule]:
    """Rules of a decoder with RMSNorm, rotary positions and SwiGLU or experts, named as Llama's.

    Args:
        body, head: prefixes of the names of the transformer's tensors, and of the head's.
    """
    width = (config.d_model,)
    rules = [
        TensorRule(
            EMBEDDING,
            f"{body}embed_tokens.weight",
            identity((config.vocab_size, config.d_model)),
        ),
        TensorRule("norm.scale", f"{body}norm.weight", identity(width)),
        *_layer_rules(config, f"{body}layers.{{layer}}."),
    ]
    if not config.tie_embeddings:
        kernel = dense_kernel(width, (config.vocab_size,))
        rules.append(TensorRule("lm_head.kernel", f"{head}weight", kernel))
    return rules


def _layer_rules(config: DecoderConfig, prefix: str) -> Iterator[TensorRule]:
    width = (config.d_model,)
    query, keys = (config.heads, config.head_dim), (config.kv_heads, config.head_dim)

    def rule(parameter: str, released: str, transform: TensorTransform) -> TensorRule:
        return TensorRule(f"layers.{parameter}", f"{prefix}{released}", transform, config.layers)

    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield rule(f"{norm}.scale", f"{norm}.weight", identity(width))
    for name, outputs in (("q", query), ("k", keys), ("v", keys)):
        projection = f"self_attn.{name}_proj"
        yield rule(f"{projection}.kernel", f"{projection}.weight", dense_kernel(width, outputs))
        if name in config.traits.biases:
            yield rule(f"{projection}.bias", f"{projection}.bias", flat_vector(outputs))
    yield rule("self_attn.o_proj.kernel", "self_attn.o_proj.weight", dense_kernel(query, width))
    if "o" in config.traits.biases:
        yield rule("self_attn.o_proj.bias", "self_attn.o_proj.bias", identity(width))
    if config.traits.qk_norm:
        for name in ("q_norm", "k_norm"):
            norm = f"self_attn.{name}"
            yield rule(f"{norm}.scale", f"{norm}.weight", identity((config.head_dim,)))
    yield from mlp_rules(config, prefix)
