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


def case(vocab: int = VOCAB) -> tuple[Any, Any, Any, Any]:
    """Columns behind `vocab` are no zeros, and targets behind it have no weight."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(TOKENS, WIDTH)).astype(np.float32)
    kernel = (10 * rng.normal(size=(WIDTH, VOCAB))).astype(np.float32)
    weights = rng.random(TOKENS) * rng.integers(0, 2, TOKENS)
    targets = np.where(weights, rng.integers(0, vocab, TOKENS), vocab).astype(np.int32)
    return hidden, kernel, targets, weights.astype(np.float32)


def split(function: Any, inputs: tuple[P, ...], outputs: Any) -> Any:
    mesh = jax.make_mesh((4,), ("tensor",), (AxisType.Auto,), devices=jax.devices()[:4])
    return quick(jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs))


def plain_loss(hidden: Any, kernel: Any, targets: Any, weights: Any) -> jax.Array:
    logs = jax.nn.log_softmax(jnp.matmul(hidden, kernel))
    own = jnp.take_along_axis(logs, targets[:, None], axis=1, mode="clip")[:, 0]
    return -jnp.sum(weights * own)


@pytest.mark.parametrize("chunk", [3, 10, 64])
def test_cross_entropy_does_not_depend_on_chunks(chunk: int) -> None:
    inputs = case()
    actual = vocabulary.cross_entropy(*inputs, VOCAB, chunk, View())
    assert float(actual) == pytest.approx(float(plain_loss(*inputs)), rel=1e-5)


@pytest.mark.parametrize("vocab", [VOCAB, 13, 9])
def test_split_cross_entropy_and_its_gradients(vocab: int) -> None:
    """The vocabulary fills all ranks, ends within the last, or leaves the last rank nothing."""
    inputs = case(vocab)

    def plain(hidden: Any, kernel: Any, targets: Any, weights: Any) -> jax.Array:
        return plain_loss(hidden, kernel[:, :vocab], targets, weights)

    expected, wanted = jax.value_and_grad(plain, argnums=(0, 1))(*inputs)

    def loss(hidden: Any, kernel: Any, targets: Any, weights: Any) -> jax.Array:
        return vocabulary.cross_entropy(hidden, kernel, targets, weights, vocab, 4, SPLIT)

    kernel = P(None, "tensor")
    step = split(
        jax.value_and_grad(loss, argnums=(0, 1)), (P(), kernel, P(), P()), (P(), (P(), kernel))
    )
    actual, gradients = step(*inputs)
    assert float(actual) == pytest.approx(float(expected), rel=1e-5)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert not gradients[1][:, vocab:].any()


#: Compiled once for every number of tokens and of tokens in a chunk.
PLAIN = jax.jit(jax.value_and_grad(plain_loss, argnums=(0, 1)))
CHUNKED = jax.jit(
    jax.value_and_grad(vocabulary.cross_entropy, argnums=(0, 1)), static_argnums=(4, 5, 6)
)


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=TOKENS, max_size=TOKENS),
    st.sampled_from([1, TOKENS - 3, TOKENS]),
    st.integers(1, 4),
)
def test_gradients_whichever_tokens_have_a_loss(
    weights: list[float], count: int, chunk: int
) -> None:
    hidden, kernel, targets, _ = case()
    targets = np.minimum(targets[:count], VOCAB - 1)
    inputs = hidden[:count], kernel, targets, np.array(weights[:count], np.float32)
    expected, wanted = PLAIN(*inputs)
    actual, gradients = CHUNKED(*inputs, VOCAB, chunk, View())
    assert float(actual) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_nothing_is_computed_of_tokens_without_a_loss() -> None:
    """Tokens that share a chunk with others are the exception: here there are none."""
    hidden, kernel, targets, _ = case()
    weights = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 0], np.float32)
    hidden[weights == 0] = np.nan
    loss = jax.value_and_grad(vocabulary.cross_entropy, argnums=(0, 1))
    actual, gradients = loss(hidden, kernel, targets, weights, VOCAB, 2, View())
    assert np.isfinite(actual)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_kernel_that_does_not_train_costs_no_gradient() -> None:
    loss = jax.grad(vocabulary.cross_entropy)
    both = jax.grad(vocabulary.cross_entropy, argnums=(0, 1))
    products = [
        jax.jit(own, static_argnums=(4, 5, 6)).lower(*case(), VOCAB, 4, View()).compile().as_text()
        for own in (loss, both)
    ]
    assert [str(text).count(" dot(") for text in products] == [2, 3]


def test_the_loss_is_float32_for_bfloat16_activations() -> None:
    hidden, *rest = case()
    half = jnp.asarray(hidden, jnp.bfloat16)
    actual = vocabulary.cross_entropy(half, rest[0], rest[1], rest[2], VOCAB, 4, View())
    assert actual.dtype == jnp.float32
    assert float(actual) == pytest.approx(float(plain_loss(hidden, *rest)), rel=2e-2)


def test_argmax_takes_the_first_of_equals_across_devices() -> None:
    hidden, kernel, *_ = case()
    kernel[:, 9] = kernel[:, 2] = kernel[:, 13] = kernel.max(axis=1)
    expected = np.argmax(hidden @ kernel[:, :13], axis=1)
    assert 2 in expected
    run = split(
        lambda hidden, kernel: vocabulary.argmax(hidden, kernel, 13, 4, SPLIT),
        (P(), P(None, "tensor")),
        P(),
    )
    np.testing.assert_array_equal(run(hidden, kernel), expected)
    alone = vocabulary.argmax(jnp.asarray(hidden), jnp.asarray(kernel[:, :13]), 13, 4, View())
    np.testing.assert_array_equal(alone, expected)
