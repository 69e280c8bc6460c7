"""Plain numpy versions of the published layers of every family, for one text, image or clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import erf

Tree = dict[str, Any]


def rms(x: np.ndarray, weights: Tree, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weights["scale"]


def layer_norm(x: np.ndarray, weights: Tree, eps: float) -> np.ndarray:
    centred = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return centred * weights["scale"] + weights["bias"]


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def dense(x: np.ndarray, weights: Tree, contracted: int = 1) -> np.ndarray:
    return np.tensordot(x, weights["kernel"], contracted) + weights.get("bias", 0)


def rope(x: np.ndarray, theta: float) -> np.ndarray:
    """Complex multiplication of element i and i + half: `[tokens, heads, width]`."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)[None]
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)[:, None]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def rotate_pairs(
    x: np.ndarray, positions: np.ndarray, theta: float, axes: Sequence[int]
) -> np.ndarray:
    """Every pair of elements as a complex number, turned one by one; the others stay.

    Args:
        x: `[..., heads, width]`.
        positions: `[..., number of axes]`.
        axes: axis of each frequency.
    """
    out, half = x.astype(np.float64), len(axes)
    for number, axis in enumerate(axes):
        angle = positions[..., axis] * theta ** (-number / half)
        pair = (x[..., number] + 1j * x[..., number + half]) * np.exp(1j * angle)[..., None]
        out[..., number], out[..., number + half] = pair.real, pair.imag
    return out


def attend(x: np.ndarray, weights: Tree, causal: bool, eps: float, theta: float = 0) -> np.ndarray:
    q, k, v = (dense(x, weights[f"{name}_proj"]) for name in "qkv")
    if "q_norm" in weights:
        q, k = rms(q, weights["q_norm"], eps), rms(k, weights["k_norm"], eps)
    if theta:
        q, k = rope(q, theta), rope(k, theta)
    return mix_values(q, k, v, np.tri(len(x), dtype=bool) | (not causal), weights)


def mix_values(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray, weights: Tree
) -> np.ndarray:
    """Attention to the keys that are seen, `[queries, keys]`, and the product after it."""
    k, v = (np.repeat(y, q.shape[1] // k.shape[1], axis=1) for y in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(seen, scores, -np.inf)
    probabilities = np.exp(scores - scores.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    return dense(np.einsum("hqk,khd->qhd", probabilities, v), weights["o_proj"], 2)


def gated_mlp(x: np.ndarray, weights: Tree) -> np.ndarray:
    gate = dense(x, weights["gate_proj"])
    hidden = gate / (1 + np.exp(-gate)) * dense(x, weights["up_proj"])
    return dense(hidden, weights["down_proj"])


def first_layer(params: Tree) -> Tree:
    """Parameters of the first of the stacked layers."""
    first: Tree = jax.tree.map(lambda leaf: leaf[0], params["layers"])
    return first


def decoder(tokens: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """Logits `[tokens, vocab]` of one text, for every choice of the parts of a family."""
    parts, eps = config.parts, config.norm_eps
    norm = layer_norm if parts.layer_norm else rms
    theta = config.rope_theta if parts.rotary else 0
    x = params["embed_tokens"]["embedding"][tokens]
    if not parts.rotary:
        x = x + params["embed_positions"]["embedding"][: len(tokens)]
    layer = first_layer(params)
    normed = norm(x, layer["input_layernorm"], eps)
    x, mlp = x + attend(normed, layer["self_attn"], True, eps, theta), layer["mlp"]
    if not config.parallel_block:
        normed = norm(x, layer["post_attention_layernorm"], eps)
    if parts.gated_mlp:
        x = x + gated_mlp(normed, mlp)
    else:
        x = x + dense(gelu_tanh(dense(normed, mlp["fc1"])), mlp["fc2"])
    return dense(norm(x, params["norm"], eps), params["lm_head"])


def vision(patches: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """One image of the learned grid's size: `[patches, d_model]`."""
    stem, eps = params["embeddings"], config.norm_eps
    x = dense(patches, stem["patch_embedding"]) + stem["position_embedding"][: len(patches)]
    layer = first_layer(params)
    if config.family == "vit22b":
        normed = rms(x, layer["layer_norm"], eps)
        mlp = dense(gelu_tanh(dense(normed, layer["mlp"]["fc1"])), layer["mlp"]["fc2"])
        x = x + attend(normed, layer["self_attn"], False, eps) + mlp
        return rms(x, params["norm"], eps)
    x = x + attend(layer_norm(x, layer["layer_norm1"], eps), layer["self_attn"], False, eps)
    hidden = gelu_tanh(dense(layer_norm(x, layer["layer_norm2"], eps), layer["mlp"]["fc1"]))
    return layer_norm(x + dense(hidden, layer["mlp"]["fc2"]), params["norm"], eps)


def clip(patches: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """One image of the learned grid's size, its class token after the patches."""
    stem, eps = params["embeddings"], config.norm_eps
    patches = dense(patches[:-1], stem["patch_embedding"]) + stem["position_embedding"][1:]
    token = stem["class_embedding"] + stem["position_embedding"][0]
    x = layer_norm(np.concatenate([patches, token[None]]), stem["pre_layrnorm"], eps)
    layer = first_layer(params)
    x = x + attend(layer_norm(x, layer["layer_norm1"], eps), layer["self_attn"], False, eps)
    hidden = dense(layer_norm(x, layer["layer_norm2"], eps), layer["mlp"]["fc1"])
    return x + dense(hidden / (1 + np.exp(-1.702 * hidden)), layer["mlp"]["fc2"])


def convolve(x: np.ndarray, weights: Tree, stride: int) -> np.ndarray:
    padded = np.pad(x, ((1, 1), (0, 0)))
    windows = [padded[start : start + 3] for start in range(0, len(x), stride)]
    return gelu(dense(np.stack(windows), weights, 2))


def whisper_stem(frames: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    half = config.d_model // 2
    x = convolve(frames, params["embeddings"]["conv1"], 1)
    x = convolve(x, params["embeddings"]["conv2"], 2)
    angle = np.arange(len(x))[:, None] * 10_000.0 ** (-np.arange(half) / (half - 1))[None]
    return x + np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def whisper(frames: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """One clip: `[frames / 2, d_model]`."""
    eps, layer = config.norm_eps, first_layer(params)
    x = whisper_stem(frames, params, config)
    normed = layer_norm(x, layer["self_attn_layer_norm"], eps)
    x = x + attend(normed, layer["self_attn"], False, eps)
    hidden = gelu(dense(layer_norm(x, layer["final_layer_norm"], eps), layer["mlp"]["fc1"]))
    return layer_norm(x + dense(hidden, layer["mlp"]["fc2"]), params["norm"], eps)


def connect(x: np.ndarray, weights: Tree, stack: int) -> np.ndarray:
    padded = np.pad(x, ((0, -len(x) % stack), (0, 0)))
    stacked = padded.reshape(-1, stack * x.shape[1])
    return dense(gelu_tanh(dense(stacked, weights["fc1"])), weights["fc2"])


#: What the tower of an encoder computes of one medium, without the connector: `function(inputs
#: [length, features], parameters, configuration)` gives `[outputs, d_model]`. A family without one
#: needs a folder of its public implementation's values in tests/parity.
ENCODERS: dict[str, Callable[[np.ndarray, Tree, Any], np.ndarray]] = {
    "siglip": vision,
    "clip": clip,
    "vit22b": vision,
    "whisper": whisper,
}
