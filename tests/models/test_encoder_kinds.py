"""An encoder with masks and rotary positions by kind of layer, against plain numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from sharding.grid import MeshView
from tests.models import towers
from tests.models.layer_kinds import windowed
from tests.models.references import (
    Tree,
    connect,
    dense,
    gelu_tanh,
    layer_norm,
    mix_values,
    rotate_pairs,
)

#: Number of patches of two images, and their columns.
LENGTHS, COLUMNS = [12, 8], [4, 4]
#: Base and axis of each frequency, by layer.
TURNS = ((1e4, [0, 1, 0, 1]), (1e2, [0, 0]))


def encode_image(patches: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """An image of four columns: `[patches, d_model]`."""
    stem, eps, place = params["embeddings"], config.norm_eps, np.arange(len(patches))
    positions = np.stack(np.divmod(place, 4), axis=-1)
    x = dense(patches, stem["patch_embedding"])
    for number, size in enumerate((4, 5)):  # windows of four patches, then chunks of five
        layer = jax.tree.map(lambda leaf, number=number: leaf[number], params["layers"])
        weights, normed = layer["self_attn"], layer_norm(x, layer["layer_norm1"], eps)
        q, k, v = (dense(normed, weights[f"{name}_proj"]) for name in "qkv")
        q, k = (rotate_pairs(heads, positions, *TURNS[number]) for heads in (q, k))
        seen = place[:, None] // size == place // size
        x = x + mix_values(q, k, v, seen, weights)
        hidden = gelu_tanh(dense(layer_norm(x, layer["layer_norm2"], eps), layer["mlp"]["fc1"]))
        x = x + dense(hidden, layer["mlp"]["fc2"])
    return layer_norm(x, params["norm"], eps)


@pytest.mark.parametrize("backend", ["reference", "blockwise"])
def test_each_layer_sees_and_turns_as_its_kind_says(backend: str) -> None:
    """Two images in one row, and each alone in plain numpy."""
    config = windowed(towers.model(encoder="siglip", attention=backend))
    settings, params = config.encoders["media"], towers.parameters(config)["media"]
    stem = params["embeddings"]  # whose learned positions would be interpolated
    stem["position_embedding"] = np.zeros_like(stem["position_embedding"])
    media, rows = towers.signals(LENGTHS, settings.features), towers.lay([LENGTHS], 24)
    windows = np.where(rows.ids > 0, 1 + np.arange(24) - rows.index % 4, 0)
    batch = towers.media_rows(config, rows, media, COLUMNS)
    batch = replace(batch, arrays={**batch.arrays, "window_ids": windows})
    run = towers.quick(lambda own: towers.encode(own, "media", batch, config, MeshView()))
    found, unit = np.asarray(run(params))[0], settings.stack
    for (_, start, length), image in zip(rows.spans, media, strict=True):
        outputs = encode_image(image, params, settings)
        expected = connect(outputs, params["connector"], unit)
        here = slice(start // unit, (start + length) // unit)
        np.testing.assert_allclose(found[here], expected, atol=1e-4)
