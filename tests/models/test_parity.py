"""Released checkpoints compute here what the public implementation computes; see `tests/parity`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.models import decoder, multimodal
from mllm_jax.models.config import ModelConfig
from mllm_jax.models.parameters import run_layers
from mllm_jax.models.pretrained.configs import (
    decoder_config,
    read_config,
    siglip_config,
    whisper_config,
)
from mllm_jax.models.pretrained.files import open_tensors
from mllm_jax.models.pretrained.load import check, load
from mllm_jax.models.pretrained.rules import Rule, decoder_rules, siglip_rules, whisper_rules
from mllm_jax.train.regroup import leaf_name
from mllm_jax.train.verify import relative_error
from sharding.grid import JointGrid, View, shardings
from sharding.plan import ParallelPlan
from sharding.rules import layouts

ROOT = Path(__file__).parent.parent / "parity"
DECODERS = ("llama3", "qwen2", "qwen2_5", "qwen3")
LIMIT = 2e-5


def parameters(config: ModelConfig, folder: Path, module: str, rules: list[Rule]) -> Any:
    """Those of one module on one device, what no rule gives as it is initialised."""
    grid = JointGrid.build(dict.fromkeys(("decoder", *config.encoders), ParallelPlan()))
    shapes, axes = multimodal.abstract_parameters(config)
    fresh = multimodal.init_parameters(config, jax.random.key(0))
    if module != "decoder":
        shapes, axes, fresh = shapes["encoders"], axes["encoders"], fresh["encoders"]
    specs = jax.tree.map(lambda leaf: leaf.spec, layouts(axes[module], grid.views[module]))
    lay = shardings(grid.mesh(jax.devices()[:1]), specs)
    target = jax.tree.map(
        lambda leaf, own: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=own),
        shapes[module],
        lay,
    )
    found = load(open_tensors(folder), rules, by_name(target))
    return jax.device_get(
        jax.tree_util.tree_map_with_path(
            lambda path, leaf: found.get(leaf_name(path), leaf), fresh[module]
        )
    )


def by_name(tree: Any) -> dict[str, Any]:
    return {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def check_gradients(got: Any, expected: dict[str, np.ndarray], rules: list[Rule]) -> None:
    """All gradients that are stored, by their released names."""
    leaves, checked = by_name(got), 0
    for rule in rules:
        for layer, name in enumerate(rule.names):
            if (wanted := expected.get(f"gradient.{name}")) is None:
                continue
            leaf = np.asarray(leaves[rule.parameter])
            ours = rule.form.released_from(leaf if rule.layers is None else leaf[layer])
            assert relative_error(ours, wanted) < LIMIT, name
            checked += 1
    assert checked == sum(name.startswith("gradient.") for name in expected) > 2


@cache
def imported(family: str) -> tuple[ModelConfig, Any]:
    """The model of a folder, and its decoder's parameters."""
    folder = ROOT / family
    own = decoder_config(read_config(folder))
    config = ModelConfig(decoder=own, dtype="float32", attention="reference", loss_chunk=8)
    rules = decoder_rules(own)
    unused = ("lm_head.weight",) if own.tie_embeddings else ()
    check(open_tensors(folder), rules, unused)
    return config, parameters(config, folder, "decoder", rules)


def batch(inputs: dict[str, np.ndarray], case: str, nll: np.ndarray) -> dict[str, Any]:
    """Rows of a case; what is learnt is what has a loss."""
    tokens = inputs[f"{case}.input_ids"]
    counted = np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), tokens.shape)
    mask = inputs.get(f"{case}.attention_mask", np.ones_like(tokens))
    return {
        "tokens": tokens,
        "targets": np.roll(tokens, -1, axis=1),
        "loss_weight": (nll != 0).astype(np.float32),
        "segment_ids": inputs.get(f"{case}.segment_ids", mask),
        "positions": inputs.get(f"{case}.position_ids", counted),
        "media": {},
    }


def stored(family: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What goes in and what comes out."""
    inputs, expected = (np.load(ROOT / family / f"{name}.npz") for name in ("inputs", "expected"))
    return dict(inputs), dict(expected)


def run(config: ModelConfig, params: Any, rows: dict[str, Any]) -> tuple[jax.Array, ...]:
    """Hidden states, logits and the loss."""
    hidden = multimodal.decode_hidden(params, rows, None, config, View())
    kernel = decoder.head_kernel(decoder.decoder_tower(config.decoder, "reference"), params, View())
    return hidden, hidden @ kernel, multimodal.loss(params, hidden, rows, config, View())


def close(got: Any, expected: np.ndarray, where: str) -> None:
    assert np.abs(np.asarray(got) - expected).max() < LIMIT, where


@pytest.mark.parametrize("family", DECODERS)
def test_decoders_give_the_same_logits(family: str) -> None:
    config, params = imported(family)
    inputs, expected = stored(family)
    go = jax.jit(partial(run, config))
    for case, last in (("single", [[18, 19]]), ("padded", [[19], [12], [6]]), ("packed", None)):
        rows = batch(inputs, case, expected[f"{case}.nll"])
        hidden, logits, loss = go(params, rows)
        if last is None:
            last = [np.flatnonzero(np.diff(rows["segment_ids"][0], append=0)).tolist()]
        picked = jnp.take_along_axis(logits, np.array(last)[..., None], axis=1)
        close(picked, expected[f"{case}.logits"], f"{case}.logits")
        if case != "padded":
            used = (rows["segment_ids"] > 0)[..., None]
            close(hidden * used, expected[f"{case}.hidden"], f"{case}.hidden")
        total = expected[f"{case}.nll"].sum()
        assert relative_error(np.asarray(loss), total) < LIMIT, case


@pytest.mark.parametrize("family", ["llama3", "qwen2", "qwen3"])
def test_decoders_give_the_same_gradients(family: str) -> None:
    config, params = imported(family)
    inputs, expected = stored(family)
    rows = batch(inputs, "padded", expected["padded.nll"])
    gradients = jax.jit(jax.grad(lambda p: run(config, p, rows)[2]))(params)
    check_gradients(gradients, expected, decoder_rules(config.decoder))


# ---- encoders ------------------------------------------------------------------------------------


def with_encoder(name: str, encoder: Any) -> ModelConfig:
    """A model of one encoder beside a decoder that is not looked at."""
    sizes = {"layers": 1, "d_model": 8, "heads": 1, "d_ff": 8, "vocab": 8}
    return ModelConfig.model_validate(
        {
            "decoder": sizes,
            "encoders": {name: encoder.model_dump(mode="json")},
            "dtype": "float32",
            "attention": "reference",
        }
    )


def states(config: ModelConfig, name: str, params: Any, rows: dict[str, Any]) -> tuple[Any, Any]:
    """What goes into the layers, and what comes out of the last norm."""
    encoder = multimodal.Encoder(config, name, View())
    x = encoder.embed(params, rows)
    layers = encoder.tower["layers"], params["layers"]
    out = run_layers(*layers, x, encoder.context(rows), View(), "none")
    return x, encoder.tower["norm"].bind(params["norm"], View())(out)


def patch_rows(pixels: np.ndarray, patch: int) -> dict[str, Any]:
    """Images `[images, channels, height, width]`, each in a row of its own; leftovers are cut."""
    side = pixels.shape[2] // patch
    cut = pixels[:, :, : side * patch, : side * patch]
    images, channels = cut.shape[:2]
    tiles = cut.reshape(images, channels, side, patch, side, patch).transpose(0, 2, 4, 3, 5, 1)
    grid = np.moveaxis(np.indices((side, side), np.int32), 0, -1).reshape(-1, 2)
    return {
        "inputs": tiles.reshape(images, side * side, -1),
        "segment_ids": np.ones((images, side * side), np.int32),
        "positions": np.tile(grid, (images, 1, 1)),
        "sizes": np.full((images, side * side, 2), side, np.int32),
    }


@pytest.mark.parametrize("family", ["siglip", "siglip2"])
def test_siglip_sees_the_same(family: str) -> None:
    own = siglip_config(read_config(ROOT / family))
    config, rules = with_encoder("vision", own), siglip_rules(own)
    params = parameters(config, ROOT / family, "vision", rules)
    inputs, expected = stored(family)
    rows = patch_rows(inputs["pixel_values"], own.patch[0])
    embeddings, hidden = jax.jit(partial(states, config, "vision"))(params, rows)
    close(embeddings, expected["embeddings"], "embeddings")
    close(hidden, expected["hidden"], "hidden")
    if "probe" in expected:

        def loss(params: Any) -> jax.Array:
            return jnp.sum(states(config, "vision", params, rows)[1] * expected["probe"])

        check_gradients(jax.jit(jax.grad(loss))(params), expected, rules)


def frame_rows(features: np.ndarray) -> dict[str, Any]:
    """Log-mel features `[clips, mels, frames]`, each clip in a row of its own."""
    clips, _, frames = features.shape
    return {
        "inputs": features.swapaxes(1, 2),
        "segment_ids": np.ones((clips, frames), np.int32),
        "positions": np.tile(np.arange(frames, dtype=np.int32), (clips, 1)),
    }


def test_whisper_hears_the_same() -> None:
    """A window of silence and all, and a clip that nothing is behind."""
    folder = ROOT / "whisper"
    own = whisper_config(read_config(folder))
    config, rules = with_encoder("audio", own), whisper_rules(own)
    params = parameters(config, folder, "audio", rules)
    inputs, expected = stored("whisper")
    features = inputs["input_features"]
    go = jax.jit(partial(states, config, "audio"))
    embeddings, hidden = go(params, frame_rows(features))
    close(embeddings, expected["embeddings"], "embeddings")
    close(hidden, expected["hidden"], "hidden")
    close(go(params, frame_rows(features[:, :, :36]))[1], expected["short.hidden"], "short")

    def loss(params: Any) -> jax.Array:
        return jnp.sum(states(config, "audio", params, frame_rows(features))[1] * expected["probe"])

    check_gradients(jax.jit(jax.grad(loss))(params), expected, rules)
