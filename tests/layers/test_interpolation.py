"""Tiled images and tokens after the vocabulary, as the model computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from data.media.image.tiles import ImageTiling, interpolation_of, layout_of
from mllm_jax.layers.interpolation import interpolate_outputs
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import module_work
from sharding.grid import MeshView
from tests.models import towers

#: Blocks of 1 x 2 patches of 4 x 4 pixels: 2 x 2 outputs.
TILES = {"pixels": [9, 16], "pinpoints": [[9, 16], [18, 16]], "most": 2}


def tiled(family: str = "siglip", **changes: Any) -> ModelConfig:
    values = towers.model(encoder=family).model_dump(mode="json")
    values["encoders"]["media"]["tiles"] = {**TILES, **changes.pop("tiles", {})}
    values["decoder"] |= {"extra_tokens": 2, **changes}
    return ModelConfig.model_validate(values)


# ---- outputs -------------------------------------------------------------------------------------


def run(x: Any, indices: np.ndarray, weights: np.ndarray) -> jax.Array:
    return interpolate_outputs(
        jnp.asarray(x), jnp.asarray(indices), jnp.asarray(weights), MeshView()
    )


def test_outputs_are_sums_of_their_taps() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 3)).astype(np.float32)
    indices = rng.integers(0, 6, (2, 6, 4)).astype(np.int32)
    weights = rng.normal(size=(2, 6, 4)).astype(np.float32)
    weights[1, 4:] = 0
    found = run(x, indices, weights)
    for row in range(2):
        expected = [weights[row, j] @ x[row, indices[row, j]] for j in range(6)]
        np.testing.assert_allclose(found[row], expected, atol=1e-6)
    assert not found[1, 4:].any()


def test_halves_are_as_they_are_where_nothing_is_shrunk() -> None:
    """Shares of one change no bit of an output in bfloat16."""
    x = jax.random.normal(jax.random.key(0), (1, 4, 8), jnp.bfloat16)
    indices, weights = np.zeros((1, 4, 4), np.int32), np.zeros((1, 4, 4), np.float32)
    indices[0, :, 0], weights[..., 0] = [3, 1, 0, 2], 1
    found = run(x, indices, weights)
    assert found.dtype == jnp.bfloat16
    assert (found[0] == x[0, jnp.array([3, 1, 0, 2])]).all()


@pytest.mark.parametrize("family", ["siglip", "vit22b"])
def test_tiles_do_not_see_each_other(family: str) -> None:
    """Outputs of an image in a row are those of its tiles, each encoded alone, put together."""
    config = tiled(family)
    settings, params = config.encoders["media"], towers.parameters(config)["media"]
    count = config.tile_inputs("media")
    size = settings.tile_outputs(config.connector("media"))
    assert size is not None
    tiling = ImageTiling(((9, 16), (18, 16)), (9, 16), size, most=1)
    layout = layout_of((18, 16), tiling)
    assert layout.grid != layout.unpadded
    media = towers.signals([count] * 3, settings.features)
    go = towers.quick(lambda batch: towers.encode(params, "media", batch, config, MeshView()))
    rows = towers.lay([[count] * 3], 4 * count, config.reduction("media"))
    batch = towers.media_rows(config, rows, media, [4] * 3)
    alone = np.asarray(go(batch))[0]
    indices, weights = (np.zeros((1, len(alone), 4), kind) for kind in (np.int32, np.float32))
    own = interpolation_of(layout, tiling)
    indices[0, : len(own[0])], weights[0, : len(own[0])] = own
    mixed = replace(
        batch,
        arrays={**batch.arrays, "resize_indices": indices, "resize_weights": weights},
    )
    found = np.asarray(go(mixed))[0]
    expected = np.einsum("jk,jkd->jd", own[1], alone[own[0]])
    np.testing.assert_allclose(found[: len(expected)], expected, atol=1e-5)
    for number in range(3):
        one = towers.lay([[count]], 4 * count, config.reduction("media"))
        single = np.asarray(go(towers.media_rows(config, one, media[number : number + 1], [4])))
        at = number * tiling.tile_outputs
        np.testing.assert_allclose(
            single[0, : tiling.tile_outputs], alone[at : at + tiling.tile_outputs], atol=1e-5
        )


# ---- tokens after the vocabulary ----------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
def test_tokens_after_the_vocabulary_are_read_and_never_written(tied: bool) -> None:
    config = tiled(tie_embeddings=tied)
    params = towers.parameters(config)["decoder"]
    text = np.array([3, towers.VOCAB, towers.VOCAB + 1, 0], np.int32)
    batch = towers.text_rows(towers.lay([[4]], 6), [text])
    embedded = multimodal.ShardedModule(config, "decoder", MeshView()).embed(params, batch)[0]
    table, extra = params["embed_tokens"]["embedding"], params["extra_embedding"]["embedding"]
    np.testing.assert_allclose(embedded[:4], [table[3], extra[0], extra[1], table[0]], rtol=1e-6)
    # However large their embeddings are, none of them is the likeliest next token.
    large = params | {"extra_embedding": {"embedding": 1e3 * extra}}
    hidden, _ = towers.decode_hidden(large, batch, None, config, MeshView())
    best = np.asarray(multimodal.greedy_tokens(large, hidden, config, MeshView()))
    assert best.max() < towers.VOCAB


def test_models_without_them_have_no_such_parameter() -> None:
    plain = towers.model(encoder="siglip")
    assert "extra_embedding" not in multimodal.abstract_parameters(plain)[0]["decoder"]
    assert "extra_embedding" in multimodal.abstract_parameters(tiled())[0]["decoder"]


# ---- work ----------------------------------------------------------------------------------------


def test_work_grows_with_the_number_of_tiles() -> None:
    config = tiled()
    count = config.tile_inputs("media")
    assert count == 8
    work = module_work(config, "media")
    assert work.forward_flops([5 * count]) == pytest.approx(5 * work.forward_flops([count]))
    plain = module_work(towers.model(encoder="siglip"), "media")
    assert work.forward_flops([count]) == pytest.approx(plain.forward_flops([count]))
    assert plain.forward_flops([5 * count]) > 5 * plain.forward_flops([count])


# ---- bad input -----------------------------------------------------------------------------------


def test_tiles_with_a_class_token_are_refused() -> None:
    values = towers.model(encoder="clip").model_dump(mode="json")
    values["encoders"]["media"]["tiles"] = TILES
    values["decoder"]["extra_tokens"] = 1
    with pytest.raises(ValidationError, match=r"class token are not supported; valid: .* siglip"):
        ModelConfig.model_validate(values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"extra_tokens": 0}, "media.tiles need a newline token: set decoder.extra_tokens to 1"),
        ({"extra_tokens": -1}, "greater than or equal to 0"),
        ({"tiles": {"pinpoints": []}}, "at least 1 item"),
        (
            {"tiles": {"pinpoints": [[9, 12]]}},
            r"\[9, 12\] is not a whole number of tiles of \[9, 16",
        ),
        ({"tiles": {"pixels": [3, 16], "pinpoints": [[3, 16]]}}, "no whole blocks of"),
        ({"tiles": {"pixels": [9, 12], "pinpoints": [[9, 12]]}}, r"no whole blocks of \[1, 2\]"),
        ({"tiles": {"most": 0}}, "greater than 0"),
    ],
    ids=str,
)
def test_impossible_tiles_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        tiled(**changes)
