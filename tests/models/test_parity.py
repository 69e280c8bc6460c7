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
from mllm_jax.models.pretrained.configs import decoder_config, read_config
from mllm_jax.models.pretrained.files import open_tensors
from mllm_jax.models.pretrained.load import check, load
from mllm_jax.models.pretrained.rules import decoder_rules
from mllm_jax.train.regroup import leaf_name
from mllm_jax.train.verify import relative_error
from sharding.grid import JointGrid, View, shardings
from sharding.plan import ParallelPlan
from sharding.rules import layouts

ROOT = Path(__file__).parent.parent / "parity"
DECODERS = ("llama3", "qwen2", "qwen2_5", "qwen3")
LIMIT = 2e-5


@cache
def imported(family: str) -> tuple[ModelConfig, dict[str, Any]]:
    """The model of a folder, and its decoder's parameters on one device."""
    folder = ROOT / family
    own = decoder_config(read_config(folder))
    config = ModelConfig(decoder=own, dtype="float32", attention="reference", loss_chunk=8)
    tensors, rules = open_tensors(folder), decoder_rules(own)
    check(tensors, rules, unused=("lm_head.weight",) if own.tie_embeddings else ())
    shapes, axes = multimodal.abstract_parameters(config)
    grid = JointGrid.build({"decoder": ParallelPlan()})
    specs = jax.tree.map(lambda leaf: leaf.spec, layouts(axes["decoder"], grid.decoder))
    target = jax.tree.map(
        lambda leaf, layout: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=layout),
        shapes["decoder"],
        shardings(grid.mesh(jax.devices()[:1]), specs),
    )
    leaves = {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(target)}
    found = load(tensors, rules, leaves)
    tree = jax.tree_util.tree_map_with_path(lambda path, _: found[leaf_name(path)], target)
    return config, jax.device_get(tree)


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
    flat = jax.tree_util.tree_leaves_with_path(gradients)
    leaves = {leaf_name(path): np.asarray(leaf) for path, leaf in flat}
    checked = 0
    for rule in decoder_rules(config.decoder):
        for layer, name in enumerate(rule.names):
            if (wanted := expected.get(f"gradient.{name}")) is None:
                continue
            leaf = leaves[rule.parameter]
            got = rule.form.released_from(leaf if rule.layers is None else leaf[layer])
            assert relative_error(got, wanted) < LIMIT, name
            checked += 1
    assert checked == sum(name.startswith("gradient.") for name in expected) > 2
