"""A step that trains adapters: what it keeps, what it changes and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_train_step
from tests.configs import ONE_DEVICE
from tests.train.runs import initial_state

LORA = {"targets": ["decoder.layers.*", "decoder.lm_head", "vision.connector.fc1"], "rank": 2}


def test_a_step_changes_adapters_and_what_trains_in_full(
    small_config: Callable[..., ExperimentConfig],
) -> None:
    """Bases stay, in bfloat16 and without moments; frozen parts as well."""
    config = small_config(train__lora=LORA, train__freeze=["vision"], parallel=ONE_DEVICE)
    step = build_train_step(config)
    state = initial_state(step)
    old = jax.tree.map(np.asarray, state["params"])
    budgets = {name: config.data.budgets[name] for name in config.model.buckets}
    own = config.data.rows, config.data.budgets["tokens"], budgets
    batches = [synthetic_batch(config.model, *own, seed) for seed in range(config.train.accumulate)]
    new, scalars = step.update(state, step.prime_batch(old, place_microbatches(batches, step)))
    assert np.isfinite(scalars["loss"])
    trained, constant = step.program.frozen.partition(new["params"])
    before = dict(jax.tree_util.tree_leaves_with_path(old))
    for path, leaf in jax.tree_util.tree_leaves_with_path(constant):
        np.testing.assert_array_equal(leaf, before[path])
        assert path[-1].key == "fixed" or leaf.dtype == jnp.bfloat16
    assert {*trained} == {"decoder", "vision", "audio"}
    changed = {
        path[-1].key
        for path, leaf in jax.tree_util.tree_leaves_with_path(trained)
        if np.any(np.asarray(leaf) != before[path])
    }
    assert "lora_b" in changed
    moments = [leaf for leaf in jax.tree.leaves(new["optimizer"]) if leaf.ndim]
    assert len(moments) == 2 * len(jax.tree.leaves(trained))
    assert {leaf.dtype for leaf in moments} == {jnp.dtype("float32")}


def test_a_target_of_no_layer_is_refused(small_config: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"train\.lora\.targets: q_proj matches no linear layer"):
        small_config(train__lora={"targets": ["q_proj"]})


def test_all_may_be_frozen_but_adapters(small_config: Callable[..., ExperimentConfig]) -> None:
    whole = small_config().model.parts
    config = small_config(train__lora={"targets": ["*.self_attn.*"]}, train__freeze=list(whole))
    assert config.frozen.adapted == ("decoder", *config.model.encoders)
    assert not any(config.frozen.trains(part) for part in whole)


def test_of_a_part_with_adapters_nothing_else_trains_though_it_be_frozen_by_name() -> None:
    """A connector trains beside its frozen encoder, and other parts as without adapters."""
    frozen = FrozenParameters.from_parts(
        FrozenParts.from_config(("audio", "decoder"), ("decoder",))
    )
    layers = {"q_proj": {"kernel": 0, "lora_a": 1, "lora_b": 2}, "norm": {"scale": 3}}
    audio = {"layers": {"kernel": 5}, "connector": {"fc1": {"kernel": 6}}}
    vision = {"layers": {"kernel": 4}}
    params = {"decoder": {"layers": layers}, "vision": vision, "audio": audio}
    trained, constant = frozen.partition(params)
    assert {*jax.tree.leaves(trained)} == {1, 2, 4, 6}
    assert {*jax.tree.leaves(constant)} == {0, 3, 5}
    masked = jax.tree.map(lambda own, hidden: (own, hidden), params, frozen.frozen_mask(params))
    pairs = jax.tree.leaves(masked, is_leaf=lambda own: isinstance(own, tuple))
    assert {own for own, hidden in pairs if hidden} == {0, 3, 5}
    assert frozen.dtype == "bfloat16"
