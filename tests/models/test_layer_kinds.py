"""Masks and rotary positions by kind of layer, of a decoder and an encoder, against plain numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from data.rows.tokens import TextSpan
from mllm_jax.config.inputs import token_spec
from sharding.grid import MeshView
from tests.data.rows.three_axes import mrope
from tests.models import towers
from tests.models.layer_kinds import SAMPLES, three_axes, windowed
from tests.models.references import (
    Tree,
    connect,
    dense,
    gated_mlp,
    gelu,
    gelu_tanh,
    layer_norm,
    mix_values,
    rms,
    rotate_pairs,
    whisper_stem,
)

#: Base of a kind's rotary positions, and the axis of each of its frequencies.
Turn = tuple[float, list[int]]


def attend(x: np.ndarray, weights: Tree, positions: Any, turn: Turn, seen: Any) -> np.ndarray:
    q, k, v = (dense(x, weights[f"{name}_proj"]) for name in "qkv")
    q, k = (rotate_pairs(heads, positions, *turn) for heads in (q, k))
    return mix_values(q, k, v, seen, weights)


def layers_of(params: Tree, count: int) -> list[Tree]:
    """Parameters of each of the stacked layers."""
    stack = params["layers"]
    return [
        jax.tree.map(lambda leaf, number=number: leaf[number], stack) for number in range(count)
    ]


def decode_text(
    tokens: np.ndarray, spans: Sequence[TextSpan], params: Tree, eps: float
) -> np.ndarray:
    """Hidden states of one text: `[tokens, d_model]`."""
    positions, place = mrope(len(tokens), spans), np.arange(len(tokens))
    number, behind = np.zeros(len(tokens), int), place[:, None] - place
    for own, span in enumerate(spans, 1):
        number[span.start : span.start + span.count] = own
    ordered = (behind >= 0) | ((number[:, None] == number) & (number > 0))
    kinds: list[tuple[Turn, np.ndarray]] = [
        ((1e4, [0, 1, 2, 0]), ordered & (np.abs(behind) < 4)),
        ((1e5, [0, 1, 2]), ordered & (place[:, None] // 5 == place // 5)),
    ]
    x = params["embed_tokens"]["embedding"][tokens]
    for layer, (turn, seen) in zip(layers_of(params, 4), 2 * kinds, strict=True):
        normed = rms(x, layer["input_layernorm"], eps)
        x = x + attend(normed, layer["self_attn"], positions, turn, seen)
        x = x + gated_mlp(rms(x, layer["post_attention_layernorm"], eps), layer["mlp"])
    return rms(x, params["norm"], eps)


@pytest.mark.parametrize("backend", ["reference", "blockwise"])
def test_each_layer_of_a_decoder_sees_and_turns_as_its_kind_says(backend: str) -> None:
    """Two texts in one row, and each alone in plain numpy."""
    config = three_axes(attention=backend)
    params, spec = towers.parameters(config)["decoder"], token_spec(config)
    rows, texts = spec.empty_rows((1, 24), []), towers.texts([length for length, _ in SAMPLES])
    texts, starts = [text % config.decoder.vocab for text in texts], (0, SAMPLES[0][0])
    for segment, (start, text, (length, spans)) in enumerate(
        zip(starts, texts, SAMPLES, strict=True), 1
    ):
        spec.write(rows, 0, start, segment, length, spans)
        rows.inputs[0, start : start + length] = text
    run = towers.quick(lambda own: towers.decode_hidden(own, rows, None, config, MeshView())[0])
    found = np.asarray(run(params))[0]
    for start, text, (length, spans) in zip(starts, texts, SAMPLES, strict=True):
        expected = decode_text(text, spans, params, config.decoder.norm_eps)
        np.testing.assert_allclose(found[start : start + length], expected, atol=1e-4)


def seen_by_kind(count: int) -> list[np.ndarray]:
    """Which positions of one medium see which: windows of four, then chunks of five."""
    place = np.arange(count)
    return [place[:, None] // size == place // size for size in (4, 5)]


def encode_image(patches: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """Outputs of an image of four columns: `[patches, d_model]`."""
    eps = config.norm_eps
    positions = np.stack(np.divmod(np.arange(len(patches)), 4), axis=-1)
    turns, kinds = ((1e4, [0, 1, 0, 1]), (1e2, [0, 0])), seen_by_kind(len(patches))
    x = dense(patches, params["embeddings"]["patch_embedding"])
    for layer, turn, seen in zip(layers_of(params, 2), turns, kinds, strict=True):
        normed = layer_norm(x, layer["layer_norm1"], eps)
        x = x + attend(normed, layer["self_attn"], positions, turn, seen)
        hidden = gelu_tanh(dense(layer_norm(x, layer["layer_norm2"], eps), layer["mlp"]["fc1"]))
        x = x + dense(hidden, layer["mlp"]["fc2"])
    return layer_norm(x, params["norm"], eps)


def encode_clip(frames: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """Outputs of a clip: `[frames / 2, d_model]`."""
    x, eps = whisper_stem(frames, params, config), config.norm_eps
    positions, kinds = np.arange(len(x))[:, None], seen_by_kind(len(x))
    turns: tuple[Turn, ...] = ((1e4, [0, 0, 0, 0]), (1.0, []))
    for layer, turn, seen in zip(layers_of(params, 2), turns, kinds, strict=True):
        normed = layer_norm(x, layer["self_attn_layer_norm"], eps)
        x = x + attend(normed, layer["self_attn"], positions, turn, seen)
        normed = layer_norm(x, layer["final_layer_norm"], eps)
        x = x + dense(gelu(dense(normed, layer["mlp"]["fc1"])), layer["mlp"]["fc2"])
    return layer_norm(x, params["norm"], eps)


@pytest.mark.parametrize(
    ("family", "backend", "lengths", "encode"),
    [
        ("siglip", "reference", [12, 8], encode_image),
        ("siglip", "blockwise", [12, 8], encode_image),
        ("whisper", "reference", [16, 12], encode_clip),
    ],
)
def test_each_layer_of_an_encoder_sees_and_turns_as_its_kind_says(
    family: str, backend: str, lengths: list[int], encode: Callable[..., np.ndarray]
) -> None:
    """Two media in one row, and each alone in plain numpy."""
    config = windowed(towers.model(encoder=family, attention=backend))
    settings, params = config.encoders["media"], towers.parameters(config)["media"]
    if family == "siglip":  # whose learned positions would be interpolated
        stem = params["embeddings"]
        stem["position_embedding"] = np.zeros_like(stem["position_embedding"])
    media, rows = towers.signals(lengths, settings.features), towers.lay([lengths], 32, 4)
    window = 4 * settings.stride
    windows = np.where(rows.ids > 0, 1 + np.arange(32) - rows.index % window, 0)
    batch = towers.media_rows(config, rows, media, [4, 4])
    batch = replace(batch, arrays={**batch.arrays, "window_ids": windows})
    run = towers.quick(lambda own: towers.encode(own, "media", batch, config, MeshView()))
    found, unit = np.asarray(run(params))[0], config.reduction("media")
    for (_, start, length), medium in zip(rows.spans, media, strict=True):
        outputs = encode(medium, params, settings)
        expected = connect(outputs, params["connector"], config.connector("media").joined)
        here = slice(start // unit, (start + length) // unit)
        np.testing.assert_allclose(found[here], expected, atol=1e-4)
