"""Released checkpoints compute here what the public implementation computes; see `tests/parity`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.verify import relative_error
from mllm_jax.layers import transformer as decoder
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN, ModuleRows, NextTokenTargets
from sharding.grid import MeshView
from tests.models import towers
from tests.models.pretrained.stored import (
    LIMIT,
    arrays,
    check_gradients,
    close,
    cut,
    image_rows,
    imported,
    states,
)

DECODERS = ("llama3", "qwen2", "qwen2_5", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe")


def batch(inputs: dict[str, np.ndarray], case: str, nll: np.ndarray) -> ModuleRows:
    """Rows of a case; what is learnt is what has a loss."""
    tokens = inputs[f"{case}.input_ids"]
    counted = np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), tokens.shape)
    mask = inputs.get(f"{case}.attention_mask", np.ones_like(tokens))
    targets = NextTokenTargets(np.roll(tokens, -1, axis=1), (nll != 0).astype(np.float32))
    index = inputs.get(f"{case}.position_ids", counted)
    segment_ids = inputs.get(f"{case}.segment_ids", mask)
    own = {NEXT_TOKEN: targets}
    return ModuleRows(tokens, segment_ids, index[..., None], index, targets=own)


def run(config: ModelConfig, params: Any, rows: ModuleRows) -> tuple[jax.Array, ...]:
    """Hidden states, logits and the loss."""
    hidden, _ = towers.decode_hidden(params, rows, None, config, MeshView())
    tower = decoder.build_decoder_blocks(config.decoder, "reference")
    ((states, kernel),) = decoder.head_terms(tower, params, hidden, MeshView())
    return hidden, states @ kernel, towers.loss(params, hidden, rows, config, MeshView())


@pytest.mark.parametrize("family", DECODERS)
def test_decoders_give_the_same_logits(family: str) -> None:
    config, params, _ = imported(family)
    inputs, expected = arrays(family)
    go = jax.jit(partial(run, config))
    for case, last in (("single", [[18, 19]]), ("padded", [[19], [12], [6]]), ("packed", None)):
        rows = batch(inputs, case, expected[f"{case}.nll"])
        hidden, logits, loss = go(params["decoder"], rows)
        if last is None:
            last = [np.flatnonzero(np.diff(rows.segment_ids[0], append=0)).tolist()]
        picked = jnp.take_along_axis(logits, np.array(last)[..., None], axis=1)
        close(picked, expected[f"{case}.logits"], f"{case}.logits")
        if case != "padded":
            used = (rows.segment_ids > 0)[..., None]
            close(hidden * used, expected[f"{case}.hidden"], f"{case}.hidden")
        total = expected[f"{case}.nll"].sum()
        assert relative_error(np.asarray(loss), total) < LIMIT, case


@pytest.mark.parametrize(
    "family", ["llama3", "qwen2", "qwen3", "mixtral", "qwen2_moe", "qwen3_moe"]
)
def test_decoders_give_the_same_gradients(family: str) -> None:
    config, params, rules = imported(family)
    inputs, expected = arrays(family)
    rows = batch(inputs, "padded", expected["padded.nll"])
    gradients = jax.jit(jax.grad(lambda p: run(config, p, rows)[2]))(params["decoder"])
    check_gradients({"decoder": gradients}, expected, rules)


# ---- encoders ------------------------------------------------------------------------------------


def check_probe(
    config: ModelConfig, name: str, params: Any, rows: ModuleRows, family: str, rolled: bool = False
) -> None:
    """Gradients of the stored weighted sum of an encoder's states."""
    expected, rules = arrays(family)[1], imported(family)[2]
    probe = np.roll(expected["probe"], -1, axis=1) if rolled else expected["probe"]

    def loss(params: Any) -> jax.Array:
        return jnp.sum(states(config, name, params, rows)[1] * probe)

    check_gradients({name: jax.jit(jax.grad(loss))(params)}, expected, rules)


@pytest.mark.parametrize("family", ["siglip", "siglip2"])
def test_siglip_sees_the_same(family: str) -> None:
    config, whole, _ = imported(family)
    params, own = whole["vision"], config.encoders["vision"]
    inputs, expected = arrays(family)
    rows = image_rows(*cut(inputs["pixel_values"], 4), own)
    embeddings, hidden = jax.jit(partial(states, config, "vision"))(params, rows)
    close(embeddings, expected["embeddings"], "embeddings")
    close(hidden, expected["hidden"], "hidden")
    if "probe" in expected:
        check_probe(config, "vision", params, rows, family)


def test_naflex_sees_the_same() -> None:
    """Images of different sizes, each with positions that are averaged to its own."""
    config, whole, _ = imported("siglip2_naflex")
    inputs, expected = arrays("siglip2_naflex")
    grids = inputs["spatial_shapes"]
    assert (grids < 4).any()
    assert (grids > 4).any()
    rows = image_rows(inputs["pixel_values"], grids, config.encoders["vision"])
    real = rows.segment_ids[..., None]
    np.testing.assert_array_equal(real[..., 0], inputs["pixel_attention_mask"])
    run = jax.jit(partial(states, config, "vision"))
    embeddings, hidden = run(whole["vision"], rows)
    close(embeddings * real, expected["embeddings"], "embeddings")
    close(hidden * real, expected["hidden"], "hidden")


def test_clip_sees_the_same() -> None:
    """The class token is last here and first there."""
    config, whole, _ = imported("clip")
    params, own = whole["vision"], config.encoders["vision"]
    inputs, expected = arrays("clip")
    rows = image_rows(*cut(inputs["pixel_values"], 4), own)
    embeddings, hidden = jax.jit(partial(states, config, "vision"))(params, rows)
    close(np.roll(embeddings, 1, axis=1), expected["embeddings"], "embeddings")
    close(np.roll(hidden, 1, axis=1), expected["hidden"], "hidden")
    check_probe(config, "vision", params, rows, "clip", rolled=True)


def frame_rows(features: np.ndarray) -> ModuleRows:
    """Log-mel features `[clips, mels, frames]`, each clip in a row of its own."""
    clips, _, frames = features.shape
    positions = np.tile(np.arange(frames, dtype=np.int32)[:, None], (clips, 1, 1))
    return ModuleRows(features.swapaxes(1, 2), np.ones((clips, frames), np.int32), positions)


def test_whisper_hears_the_same() -> None:
    """A window of silence and all, and a clip that nothing is after."""
    config, whole, _ = imported("whisper")
    params = whole["audio"]
    inputs, expected = arrays("whisper")
    features = inputs["input_features"]
    go = jax.jit(partial(states, config, "audio"))
    embeddings, hidden = go(params, frame_rows(features))
    close(embeddings, expected["embeddings"], "embeddings")
    close(hidden, expected["hidden"], "hidden")
    close(go(params, frame_rows(features[:, :, :36]))[1], expected["short.hidden"], "short")
    check_probe(config, "audio", params, frame_rows(features), "whisper")
