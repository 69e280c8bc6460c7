"""The release format of AIMv2: how `config.json` and tensors are read and written."""

from __future__ import annotations

from typing import Any

from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel, ReleaseFormat, Values
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import dense_kernel, identity_transform, patch_kernel

from .config import Aimv2Config

_SIZES = {
    "layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "channels": "num_channels",
    "norm_eps": "rms_norm_eps",
}
_DEFAULTS = {"num_channels": 3, "rms_norm_eps": 1e-5}
#: The only values of settings that this framework computes as the public implementation does.
_FIXED = {"is_native": False, "qkv_bias": False, "mlp_bias": False, "hidden_act": "silu"}


def _read_model(values: Values) -> ReleasedModel:
    for key, valid in _FIXED.items():
        if values.get(key, valid) != valid:
            raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid!r}")
    values = {**_DEFAULTS, **values}
    patch, side = values["patch_size"], values["image_size"] // values["patch_size"]
    sizes = {key: values[released] for key, released in _SIZES.items()}
    squares = {"patch": (patch, patch), "grid": (side, side)}
    vision = Aimv2Config.model_validate({"family": "aimv2", **sizes, **squares})
    return ReleasedModel(encoders={"vision": vision})


def _write_config(model: ReleasedModel) -> dict[str, Any]:
    vision = model.encoders["vision"]
    assert isinstance(vision, Aimv2Config)
    return {
        "architectures": ["Aimv2VisionModel"],
        "model_type": "aimv2_vision_model",
        "patch_size": vision.patch[0],
        "image_size": vision.patch[0] * vision.grid[0],
        "use_head": False,
        **_FIXED,
        **{released: getattr(vision, key) for key, released in _SIZES.items()},
    }


def _tensor_rules(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    vision = model.encoders["vision"]
    assert isinstance(vision, Aimv2Config)
    return {"vision": [*_stem(vision), *_layers(vision)]}


def _stem(config: Aimv2Config) -> list[TensorRule]:
    width = (config.d_model,)
    kernel = patch_kernel(*config.patch, config.channels, config.d_model)
    table = identity_transform((config.grid[0] * config.grid[1], config.d_model))
    return [
        TensorRule("embeddings.patch_embed.kernel", "embeddings.patch_embed.weight", kernel),
        TensorRule(
            "embeddings.patch_embed.bias", "embeddings.patch_embed.bias", identity_transform(width)
        ),
        TensorRule(
            "embeddings.rms_norm.scale", "embeddings.rms_norm.weight", identity_transform(width)
        ),
        TensorRule("embeddings.position_embedding", "embeddings.position_embedding.weight", table),
        TensorRule("norm.scale", "rms_norm.weight", identity_transform(width)),
    ]


def _layers(config: Aimv2Config) -> list[TensorRule]:
    width, hidden, heads = (config.d_model,), (config.d_ff,), (config.heads, config.head_dim)
    transforms = {
        **{f"attention.{name}_proj": dense_kernel(width, heads) for name in "qkv"},
        "attention.o_proj": dense_kernel(heads, width),
        "ffn.gate_proj": dense_kernel(width, hidden),
        "ffn.up_proj": dense_kernel(width, hidden),
        "ffn.down_proj": dense_kernel(hidden, width),
    }
    prefix = "encoder.layers.{layer}."
    linear = [
        TensorRule(
            f"layers.{name}.kernel",
            f"{prefix}{name.replace('o_proj', 'out_proj')}.weight",
            transform,
            config.layers,
        )
        for name, transform in transforms.items()
    ]
    norms = [
        TensorRule(
            f"layers.{name}.scale",
            f"{prefix}{name}.weight",
            identity_transform(width),
            config.layers,
        )
        for name in ("rms_norm1", "rms_norm2")
    ]
    return [*linear, *norms]


AIMV2 = ReleaseFormat(
    "aimv2_vision_model",
    {"vision": Aimv2Config},
    _read_model,
    _tensor_rules,
    _write_config,
    unused_patterns=lambda values: (r"head\..*",),
)
FORMATS = (AIMV2,)
