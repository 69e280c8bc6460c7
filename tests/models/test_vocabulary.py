"""Cross entropy and argmax over a vocabulary that is split over devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from mllm_jax.models import vocabulary
from sharding.grid import View
from tests.models.towers import quick

AXES = (("tensor", 4),)
SPLIT = View(tensor=("tensor",), sizes=AXES)
TOKENS, WIDTH, VOCAB = 10, 6, 16


def case() -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(TOKENS, WIDTH)).astype(np.float32)
    kernel = (10 * rng.normal(size=(WIDTH, VOCAB))).astype(np.float32)
    targets = rng.integers(0, VOCAB, TOKENS).astype(np.int32)
    weights = rng.random(TOKENS) * rng.integers(0, 2, TOKENS)
    return hidden, kernel, targets, weights.astype(np.float32)


def split(function: Any, inputs: tuple[P, ...], outputs: Any) -> Any:
    mesh = jax.make_mesh((4,), ("tensor",), (AxisType.Auto,), devices=jax.devices()[:4])
    return quick(jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs))


def plain_loss(hidden: Any, kernel: Any, targets: Any, weights: Any) -> jax.Array:
    logs = jax.nn.log_softmax(jnp.matmul(hidden, kernel))
    return -jnp.sum(weights * jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0])


@pytest.mark.parametrize("chunk", [3, 10, 64])
def test_cross_entropy_does_not_depend_on_chunks(chunk: int) -> None:
    inputs = case()
    actual = vocabulary.cross_entropy(*inputs, chunk, View())
    assert float(actual) == pytest.approx(float(plain_loss(*inputs)), rel=1e-5)


def test_split_cross_entropy_and_its_gradients() -> None:
    inputs = case()
    expected, wanted = jax.value_and_grad(plain_loss, argnums=(0, 1))(*inputs)

    def loss(hidden: Any, kernel: Any, targets: Any, weights: Any) -> jax.Array:
        return vocabulary.cross_entropy(hidden, kernel, targets, weights, 4, SPLIT)

    kernel = P(None, "tensor")
    step = split(
        jax.value_and_grad(loss, argnums=(0, 1)), (P(), kernel, P(), P()), (P(), (P(), kernel))
    )
    actual, gradients = step(*inputs)
    assert float(actual) == pytest.approx(float(expected), rel=1e-5)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=TOKENS), st.integers(1, 4))
def test_gradients_whichever_tokens_have_a_loss(weights: list[float], chunk: int) -> None:
    count = len(weights)
    hidden, kernel, targets, _ = case()
    inputs = hidden[:count], kernel, targets[:count], np.array(weights, np.float32)
    expected, wanted = jax.value_and_grad(plain_loss, argnums=(0, 1))(*inputs)
    loss = jax.value_and_grad(vocabulary.cross_entropy, argnums=(0, 1))
    actual, gradients = loss(*inputs, chunk, View())
    assert float(actual) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_nothing_is_computed_of_tokens_without_a_loss() -> None:
    """But for those in a chunk with others: here there are none."""
    hidden, kernel, targets, _ = case()
    weights = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 0], np.float32)
    hidden[weights == 0] = np.nan
    loss = jax.value_and_grad(vocabulary.cross_entropy, argnums=(0, 1))
    actual, gradients = loss(hidden, kernel, targets, weights, 2, View())
    assert np.isfinite(actual)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_kernel_that_does_not_train_costs_no_gradient() -> None:
    loss = jax.grad(vocabulary.cross_entropy)
    both = jax.grad(vocabulary.cross_entropy, argnums=(0, 1))
    products = [
        jax.jit(own, static_argnums=(4, 5)).lower(*case(), 4, View()).compile().as_text()
        for own in (loss, both)
    ]
    assert [str(text).count(" dot(") for text in products] == [2, 3]


def test_the_loss_is_float32_for_bfloat16_activations() -> None:
    hidden, *rest = case()
    half = jnp.asarray(hidden, jnp.bfloat16)
    actual = vocabulary.cross_entropy(half, rest[0], rest[1], rest[2], 4, View())
    assert actual.dtype == jnp.float32
    assert float(actual) == pytest.approx(float(plain_loss(hidden, *rest)), rel=2e-2)


def test_argmax_takes_the_first_of_equals_across_devices() -> None:
    hidden, kernel, *_ = case()
    kernel[:, 9] = kernel[:, 2] = kernel.max(axis=1)
    expected = np.argmax(hidden @ kernel, axis=1)
    run = split(
        lambda hidden, kernel: vocabulary.argmax(hidden, kernel, 4, SPLIT),
        (P(), P(None, "tensor")),
        P(),
    )
    np.testing.assert_array_equal(run(hidden, kernel), expected)
    alone = vocabulary.argmax(jnp.asarray(hidden), jnp.asarray(kernel), 4, View())
    np.testing.assert_array_equal(alone, expected)
