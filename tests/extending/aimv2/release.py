"""The released form of AIMv2: how `config.json` and tensors are read and written."""

from __future__ import annotations

from typing import Any

from mllm_jax.hf_format.family import Composition, Family, Values
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.forms import dense, patches, same
from mllm_jax.hf_format.rules import Rule

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


def _read(values: Values) -> Composition:
    for key, valid in _FIXED.items():
        if values.get(key, valid) != valid:
            raise PretrainedError(f"{key}: {values[key]!r} is not supported; valid: {valid!r}")
    own = {**_DEFAULTS, **values}
    patch, side = own["patch_size"], own["image_size"] // own["patch_size"]
    sizes = {ours: own[theirs] for ours, theirs in _SIZES.items()}
    squares = {"patch": (patch, patch), "grid": (side, side)}
    vision = Aimv2Config.model_validate({"family": "aimv2", **sizes, **squares})
    return Composition(encoders={"vision": vision})


def _write(composition: Composition) -> dict[str, Any]:
    vision = composition.encoders["vision"]
    assert isinstance(vision, Aimv2Config)
    return {
        "architectures": ["Aimv2VisionModel"],
        "model_type": "aimv2_vision_model",
        "patch_size": vision.patch[0],
        "image_size": vision.patch[0] * vision.grid[0],
        "use_head": False,
        **_FIXED,
        **{theirs: getattr(vision, ours) for ours, theirs in _SIZES.items()},
    }


def _rules(composition: Composition) -> dict[str, list[Rule]]:
    vision = composition.encoders["vision"]
    assert isinstance(vision, Aimv2Config)
    return {"vision": [*_stem(vision), *_layers(vision)]}


def _stem(config: Aimv2Config) -> list[Rule]:
    width = (config.d_model,)
    kernel = patches(*config.patch, config.channels, config.d_model)
    table = same((config.grid[0] * config.grid[1], config.d_model))
    return [
        Rule("embeddings.patch_embed.kernel", "embeddings.patch_embed.weight", kernel),
        Rule("embeddings.patch_embed.bias", "embeddings.patch_embed.bias", same(width)),
        Rule("embeddings.rms_norm.scale", "embeddings.rms_norm.weight", same(width)),
        Rule("embeddings.position_embedding", "embeddings.position_embedding.weight", table),
        Rule("norm.scale", "rms_norm.weight", same(width)),
    ]


def _layers(config: Aimv2Config) -> list[Rule]:
    width, hidden, heads = (config.d_model,), (config.d_ff,), (config.heads, config.head_dim)
    forms = {
        **{f"attention.{name}_proj": dense(width, heads) for name in "qkv"},
        "attention.o_proj": dense(heads, width),
        "ffn.gate_proj": dense(width, hidden),
        "ffn.up_proj": dense(width, hidden),
        "ffn.down_proj": dense(hidden, width),
    }
    prefix = "encoder.layers.{layer}."
    linear = [
        Rule(
            f"layers.{name}.kernel",
            f"{prefix}{name.replace('o_proj', 'out_proj')}.weight",
            form,
            config.layers,
        )
        for name, form in forms.items()
    ]
    norms = [
        Rule(f"layers.{name}.scale", f"{prefix}{name}.weight", same(width), config.layers)
        for name in ("rms_norm1", "rms_norm2")
    ]
    return [*linear, *norms]


AIMV2 = Family(
    "aimv2_vision_model",
    {"vision": Aimv2Config},
    _read,
    _rules,
    _write,
    unused=lambda values: (r"head\..*",),
)
