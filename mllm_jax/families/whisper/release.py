"""Whisper's release format: its configuration both ways, and where its parameters come from.

Qwen2-Audio's encoder has this format, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mllm_jax.families.whisper.config import CONVOLUTION, WhisperConfig
from mllm_jax.hf_format.configs import check_head_dim, check_value, encoder_values
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.release_format import encoder_format
from mllm_jax.hf_format.tensor_rules import TensorRule, encoder_layer_rules, norm_rules
from mllm_jax.hf_format.transforms import convolution_kernel, identity_transform
from mllm_jax.layers.trainable import FIXED

#: Defaults that configurations may leave out, by their class.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "whisper": {"activation_function": "gelu", "scale_embedding": False},
        "qwen2_audio_encoder": {
            "d_model": 1280,
            "encoder_ffn_dim": 5120,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "num_mel_bins": 128,
            "max_source_positions": 1500,
            "activation_function": "gelu",
            "scale_embedding": False,
        },
    }
)
_NAMES = {
    "layers": "encoder_layers",
    "d_model": "d_model",
    "heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "mels": "num_mel_bins",
    "max_positions": "max_source_positions",
}
#: Other names of keys, which transformers reads as well.
_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
_NORMS = ("self_attn_layer_norm", "final_layer_norm")


def read_whisper(values: Mapping[str, Any]) -> WhisperConfig:
    """The encoder of a released Whisper, or of Qwen2-Audio.

    Raises:
        PretrainedError: the configuration is of another kind, lacks a key, or has a wrong value.
    """
    encoder = encoder_values(values, "audio_config", _DEFAULTS, _ALIASES)
    check_value(encoder, "activation_function", "gelu")
    check_value(encoder, "scale_embedding", False)
    missing = [key for key in _NAMES.values() if encoder.get(key) is None]
    if missing:
        raise PretrainedError(
            f"the configuration of {encoder['model_type']} lacks {list_names(missing)}"
        )
    return WhisperConfig.model_validate(
        {"family": "whisper", **{key: encoder[released] for key, released in _NAMES.items()}}
    )


def write_whisper(config: WhisperConfig, kind: str = "whisper") -> dict[str, Any]:
    """The inverse of `read_whisper`; of a Whisper, its decoder's keys are those of its class.

    Args:
        config: configuration of the encoder.
        kind: `whisper`, or `qwen2_audio_encoder`.

    Raises:
        PretrainedError: strides or positions that no released encoder has.
    """
    if config.strides != (1, 2) or config.max_positions is None:
        raise PretrainedError(
            f"an encoder with strides {list(config.strides)} and max_positions "
            f"{config.max_positions} has no released format; valid: [1, 2] and a number"
        )
    check_head_dim(config)
    classes = {"architectures": ["WhisperForConditionalGeneration"]}
    return {
        **(classes if kind == "whisper" else {}),
        "model_type": kind,
        "activation_function": "gelu",
        "scale_embedding": False,
        **{released: getattr(config, key) for key, released in _NAMES.items()},
    }


def whisper_rules(config: WhisperConfig, prefix: str = "model.encoder.") -> list[TensorRule]:
    """Rules of Whisper's encoder.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width = (config.d_model,)
    rules = []
    for name, inputs in (("conv1", config.mels), ("conv2", config.d_model)):
        kernel = convolution_kernel(CONVOLUTION, inputs, config.d_model)
        rules += [
            TensorRule(f"embeddings.{name}.kernel", f"{prefix}{name}.weight", kernel),
            TensorRule(
                f"embeddings.{name}.bias", f"{prefix}{name}.bias", identity_transform(width)
            ),
        ]
    if config.max_positions is not None:
        table = identity_transform((config.max_positions, config.d_model))
        rules.append(TensorRule(f"positions.{FIXED}", f"{prefix}embed_positions.weight", table))
    return [
        *rules,
        *norm_rules("norm", f"{prefix}layer_norm", width),
        *encoder_layer_rules(config, f"{prefix}layers.{{layer}}.", _NORMS, mlp="", biases="qvo"),
    ]


WHISPER = encoder_format(
    "whisper",
    "audio",
    WhisperConfig,
    read_whisper,
    whisper_rules,
    write_whisper,
    unused_patterns=(r"model\.decoder\..*", r"proj_out\..*"),
    alternative_names=((r"^(encoder|decoder)\.", r"model.\1."),),
)

FORMATS = (WHISPER,)
