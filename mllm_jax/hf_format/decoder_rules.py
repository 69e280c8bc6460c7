"""Released decoders: their configuration both ways, and where their parameters come from.

A released configuration says more than ours does; what would change the result is checked, and
refused where this framework does something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from mllm_jax.hf_format.configs import merge_aliases
from mllm_jax.hf_format.expert_rules import ExpertFormat, mlp_rules, read_experts, write_experts
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.release_format import RELEASED_DECODER, ReleasedModel, ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import (
    TensorTransform,
    dense_kernel,
    flat_vector,
    identity_transform,
)
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.parts import RopeScaling

#: The parameter that a tied head is.
EMBEDDING = "embed_tokens.embedding"

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
    "partial_rotary_factor": (1, None),
    "attention_dropout": (0, None),
    "pretraining_tp": (1, None),
    "quantization_config": (None,),
}
#: The attention of every layer here, as newer configurations list it.
_FULL = "full_attention"
_ROPE = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_positions": "original_max_position_embeddings",
}


@dataclass(frozen=True)
class DecoderRelease:
    """How the decoders of a family are released, alone and in multimodal models.

    Attributes:
        model_type: `model_type` of the configuration.
        config: class of the configuration here.
        architecture: class of the public implementation.
        text_defaults: keys that the decoder of a multimodal model may leave out, with their values.
        aliases: other names of keys, see `merge_aliases`.
        fixed: further keys for which there is one value here, with the values that mean it.
        rope_theta: base of rotary positions where a configuration says none.
        experts: how experts are released, of families that have them.
    """

    model_type: str
    config: type[DecoderConfig]
    architecture: str
    text_defaults: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rope_theta: float = 10_000.0
    experts: ExpertFormat | None = None

    def read_config(self, values: Mapping[str, Any]) -> DecoderConfig:
        """The decoder of a released configuration.

        Raises:
            PretrainedError: a key is missing, or has a value that decoders here do not support.
        """
        values = merge_aliases(values, self.aliases)
        missing = [key for key in _KEYS.values() if values.get(key) is None]
        if missing:
            names = list_names(missing)
            raise PretrainedError(f"the configuration of {self.model_type} lacks {names}")
        self._check_fixed(values)
        return self.config.model_validate(
            {
                "family": get_args(self.config.model_fields["family"].annotation)[0],
                "kv_heads": values.get("num_key_value_heads"),
                "head_dim": values.get("head_dim", self.text_defaults.get("head_dim")),
                "tie_embeddings": values.get("tie_word_embeddings", False),
                "experts": read_experts(values, self.experts) if self.experts else None,
                **_read_rope(values, self.rope_theta),
                **{key: values[released] for key, released in _KEYS.items()},
            }
        )

    def write_config(self, config: DecoderConfig) -> dict[str, Any]:
        """The inverse of `read_config`, as the public implementation reads it.

        Raises:
            PretrainedError: the configuration has a value that no release has.
        """
        _check_written(config)
        values: dict[str, Any] = {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            **{released: getattr(config, key) for key, released in _KEYS.items()},
            "num_key_value_heads": config.kv_heads,
            "head_dim": config.head_dim,
            "rope_theta": config.rope_theta,
            "tie_word_embeddings": config.tie_embeddings,
            "hidden_act": "silu",
            "attention_bias": bool(config.parts.biases),
        }
        if config.experts is not None and self.experts is not None:
            values |= write_experts(config, config.experts, self.experts)
        if config.rope_scaling is not None:
            scaling = {
                key: getattr(config.rope_scaling, attribute) for attribute, key in _ROPE.items()
            }
            values["rope_scaling"] = {"rope_type": "llama3", **scaling}
        return values

    def tensor_rules(
        self, config: DecoderConfig, body: str = "model.", head: str = "lm_head."
    ) -> list[TensorRule]:
        """Rules of a decoder with RMSNorm, rotary positions and SwiGLU or experts, as Llama's.

        Args:
            body, head: prefixes of the names of the transformer's tensors, and of the head's.
        """
        width = (config.d_model,)
        embedding = identity_transform((config.vocab_size, config.d_model))
        rules = [
            TensorRule(EMBEDDING, f"{body}embed_tokens.weight", embedding),
            TensorRule("norm.scale", f"{body}norm.weight", identity_transform(width)),
            *_layer_rules(config, f"{body}layers.{{layer}}."),
            *mlp_rules(config, f"{body}layers.{{layer}}.", self.experts),
        ]
        if not config.tie_embeddings:
            kernel = dense_kernel(width, (config.vocab_size,))
            rules.append(TensorRule("lm_head.kernel", f"{head}weight", kernel))
        return rules

    @cached_property
    def release_format(self) -> ReleaseFormat:
        """The format of a decoder alone."""

        def decoder_of(model: ReleasedModel) -> DecoderConfig:
            assert model.decoder is not None
            return model.decoder

        return ReleaseFormat(
            self.model_type,
            {RELEASED_DECODER: self.config},
            lambda values: ReleasedModel(self.read_config(values)),
            lambda model: {RELEASED_DECODER: self.tensor_rules(decoder_of(model))},
            lambda model: self.write_config(decoder_of(model)),
            auto_class="AutoModelForCausalLM",
        )

    def _check_fixed(self, values: Mapping[str, Any]) -> None:
        fixed = {**_FIXED, **self.fixed}
        if not self.config.parts.biases:  # other families have biases whatever it says
            fixed["attention_bias"] = (False, None)
        for key, valid in fixed.items():
            if values.get(key, valid[0]) not in valid:
                raise PretrainedError(
                    f"{key}: {values[key]!r} is not supported; valid: {valid[0]!r}"
                )
        kinds = values.get("layer_types")
        if kinds is not None and any(kind != _FULL for kind in kinds):
            raise PretrainedError(
                f"layer_types: {kinds!r:.120} is not supported; valid: {_FULL!r} for every layer"
            )


def _check_written(config: DecoderConfig) -> None:
    """Raise PretrainedError for what no released decoder has."""
    if config.extra_tokens:
        raise PretrainedError(
            f"extra_tokens: {config.extra_tokens} have no place in the released format of a "
            "decoder; valid: 0"
        )
    if config.window is not None:
        raise PretrainedError(
            f"window: {config.window} has no place in the released format of a decoder; valid: null"
        )
    if config.parallel_block:
        raise PretrainedError(
            "parallel_block has no place in the released format of a decoder; valid: false"
        )


def _read_rope(values: Mapping[str, Any], default_theta: float) -> dict[str, Any]:
    """Base and scaling; newer configurations have both in `rope_parameters`.

    If a configuration has two keys for one setting, the one of the public implementation counts.
    """
    rope = values.get("rope_scaling") or values.get("rope_parameters") or {}
    theta = rope.get("rope_theta", values.get("rope_theta", default_theta))
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
    if rope.get("mrope_section") is not None:
        raise PretrainedError(
            f"mrope_section: {rope['mrope_section']} is not supported, as positions of released "
            "decoders have one axis; valid: null"
        )
    if rope.get("partial_rotary_factor", 1) not in (1, None):
        raise PretrainedError(
            f"partial_rotary_factor: {rope['partial_rotary_factor']} is not supported; valid: 1"
        )


def _layer_rules(config: DecoderConfig, prefix: str) -> Iterator[TensorRule]:
    width = (config.d_model,)
    query, keys = (config.heads, config.head_dim), (config.kv_heads, config.head_dim)

    def rule(parameter: str, released: str, transform: TensorTransform) -> TensorRule:
        return TensorRule(f"layers.{parameter}", f"{prefix}{released}", transform, config.layers)

    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield rule(f"{norm}.scale", f"{norm}.weight", identity_transform(width))
    for name, outputs in (("q", query), ("k", keys), ("v", keys)):
        projection = f"self_attn.{name}_proj"
        yield rule(f"{projection}.kernel", f"{projection}.weight", dense_kernel(width, outputs))
        if name in config.parts.biases:
            yield rule(f"{projection}.bias", f"{projection}.bias", flat_vector(outputs))
    yield rule("self_attn.o_proj.kernel", "self_attn.o_proj.weight", dense_kernel(query, width))
    if "o" in config.parts.biases:
        yield rule("self_attn.o_proj.bias", "self_attn.o_proj.bias", identity_transform(width))
    if config.parts.qk_norm:
        for name in ("q_norm", "k_norm"):
            norm = f"self_attn.{name}"
            yield rule(f"{norm}.scale", f"{norm}.weight", identity_transform((config.head_dim,)))
