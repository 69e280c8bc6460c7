"""The choice of experts, its weights and its losses, each computed by hand as its source says."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.layers.experts.router import Router, TokenRouting
from mllm_jax.layers.modules import LayerContext
from sharding.grid import MeshView

WIDTH, COUNT = 6, 8
IDS = np.array([[1, 1, 1, 2, 2, 2, 2, 0], [1, 1, 0, 2, 3, 3, 3, 3]], np.int32)


def routed(
    ids: np.ndarray = IDS, *, bias: Any = 0.0, **changes: Any
) -> tuple[TokenRouting, np.ndarray]:
    """What a router of random values makes of random tokens, and its logits."""
    config = ExpertsConfig(**{"count": COUNT, "top_k": 2, "d_ff": 4} | changes)
    router = Router(config, WIDTH, nnx.Rngs(0))
    router.load_bias[...] = jnp.broadcast_to(jnp.asarray(bias, jnp.float32), (COUNT,))
    x = np.random.default_rng(0).normal(size=(*ids.shape, WIDTH)).astype(np.float32)
    return router(jnp.asarray(x), LayerContext(jnp.asarray(ids)), MeshView()), x @ router.kernel[
        ...
    ]


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("normalise", [True, False])
def test_weights_are_the_best_scores_of_a_softmax(normalise: bool) -> None:
    found, logits = routed(normalise=normalise, top_k=3)
    scores = softmax(logits)
    best = np.argsort(-scores, axis=-1)[..., :3]
    expected = np.take_along_axis(scores, best, -1)
    expected = expected / expected.sum(-1, keepdims=True) if normalise else expected
    real = IDS > 0
    np.testing.assert_array_equal(np.asarray(found.choice)[real], best[real])
    np.testing.assert_allclose(np.asarray(found.weights)[real], expected[real], rtol=1e-5)
    assert (np.asarray(found.choice)[~real] == COUNT).all()
    assert not np.any(np.asarray(found.weights)[~real])


def test_a_sigmoid_router_chooses_groups_first_by_biased_scores() -> None:
    """DeepSeek-V3, section 2.1.2: the bias counts in the choice, and not in the weights."""
    bias = np.linspace(0.4, -0.4, COUNT)
    own: dict[str, Any] = {
        "router": "sigmoid",
        "groups": 4,
        "top_groups": 2,
        "top_k": 3,
        "scale": 2.5,
    }
    found, logits = routed(bias=bias, **own)
    scores = 1 / (1 + np.exp(-logits))
    for row, place in np.argwhere(IDS > 0):
        biased = scores[row, place] + bias
        pairs = biased.reshape(4, 2)
        groups = np.argsort(-np.sort(pairs, axis=-1)[:, -2:].sum(-1))[:2]
        allowed = [e for e in range(COUNT) if e // 2 in groups]
        best = sorted(allowed, key=lambda e: -biased[e])[:3]
        weights = 2.5 * scores[row, place][best] / scores[row, place][best].sum()
        assert found.choice[row, place].tolist() == best
        np.testing.assert_allclose(found.weights[row, place], weights, rtol=1e-5)
    plain, _ = routed(**own)
    assert (np.asarray(plain.choice) != np.asarray(found.choice)).any()


def public_balance(logits: Any, top_k: int) -> float:
    """`load_balancing_loss_func` of the public implementations, of one layer and one text."""
    scores = softmax(logits)
    chosen = np.argsort(-scores, axis=-1)[:, :top_k]
    per_expert = np.eye(COUNT)[chosen].mean(0)
    return float(np.sum(per_expert * scores.mean(0)[None]) * COUNT)


def test_the_balance_loss_of_one_text_is_that_of_the_public_implementations() -> None:
    ids = np.ones((1, 8), np.int32)
    found, logits = routed(ids, balance_weight=1.0)
    assert float(found.losses["balance"]) / 8 == pytest.approx(public_balance(logits[0], 2), 1e-5)


def test_losses_are_sums_over_segments_and_never_see_padding() -> None:
    found, logits = routed(balance_weight=1.0, z_weight=1.0)
    balance = z = 0.0
    for row, number in ((0, 1), (0, 2), (1, 1), (1, 2), (1, 3)):
        own = logits[row][IDS[row] == number]
        balance += len(own) * public_balance(own, 2)
        z += float((np.log(np.exp(own).sum(-1)) ** 2).sum())
    assert float(found.losses["balance"]) == pytest.approx(balance, 1e-5)
    assert float(found.losses["router_z"]) == pytest.approx(z, 1e-5)


def test_in_the_place_of_the_gradient_of_the_bias_is_the_load() -> None:
    config = ExpertsConfig(count=COUNT, top_k=2, d_ff=4)
    graph, state = nnx.split(Router(config, WIDTH, nnx.Rngs(0)))
    x = jax.random.normal(jax.random.key(0), (*IDS.shape, WIDTH))

    def total(state: Any) -> tuple[jax.Array, jax.Array]:
        found = nnx.merge(graph, state)(x, LayerContext(jnp.asarray(IDS)), MeshView())
        return jnp.sum(jnp.sin(found.weights)), found.choice

    gradients, choice = jax.grad(total, has_aux=True)(state)
    counted = np.bincount(np.asarray(choice).ravel(), minlength=COUNT + 1)
    np.testing.assert_array_equal(gradients["load_bias"][...], counted[:COUNT])
    assert counted[:COUNT].sum() == 2 * (IDS > 0).sum()
