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

from mllm_jax.layers import vocabulary
from sharding.grid import MeshView
from tests.models.towers import quick

AXES = (("tensor", 4),)
SPLIT = MeshView(tensor=("tensor",), sizes=AXES)
TOKENS, WIDTH, VOCAB = 10, 6, 16


def case(vocab: int = VOCAB) -> tuple[Any, Any, Any, Any]:
    """Columns after `vocab` are no zeros, and targets after it have no weight."""
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


def chunked_loss(hidden: Any, kernel: Any, *rest: Any) -> jax.Array:
    """Of logits of one term."""
    return vocabulary.cross_entropy([(hidden, kernel)], *rest)


@pytest.mark.parametrize("chunk", [3, 10, 64])
def test_cross_entropy_does_not_depend_on_chunks(chunk: int) -> None:
    inputs = case()
    actual = chunked_loss(*inputs, VOCAB, chunk, MeshView())
    assert float(actual) == pytest.approx(float(plain_loss(*inputs)), rel=1e-5)


@pytest.mark.parametrize("vocab", [VOCAB, 13, 9])
def test_split_cross_entropy_and_its_gradients(vocab: int) -> None:
    """The vocabulary fills all ranks, ends within the last, or leaves the last rank nothing.

    Logits are a sum of two products, as beside an adapter.
    """
    hidden, kernel, targets, weights = case(vocab)
    rng = np.random.default_rng(1)
    low, high = (rng.normal(size=size).astype(np.float32) for size in ((WIDTH, 2), (2, VOCAB)))

    def plain(hidden: Any, kernel: Any, low: Any, high: Any) -> jax.Array:
        return plain_loss(hidden, (kernel + low @ high)[:, :vocab], targets, weights)

    def loss(hidden: Any, kernel: Any, low: Any, high: Any) -> jax.Array:
        terms = [(hidden, kernel), (hidden @ low, high)]
        return vocabulary.cross_entropy(terms, targets, weights, vocab, 4, SPLIT)

    every, run = (hidden, kernel, low, high), P(None, "tensor")
    expected, wanted = jax.value_and_grad(plain, argnums=(0, 1, 2, 3))(*every)
    own = P(), run, P(), run
    step = split(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)), own, (P(), own))
    actual, gradients = step(*every)
    assert float(actual) == pytest.approx(float(expected), rel=1e-5)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max())
    assert not gradients[1][:, vocab:].any()
    assert not gradients[3][:, vocab:].any()


#: Compiled once for every number of tokens and of tokens in a chunk.
PLAIN = jax.jit(jax.value_and_grad(plain_loss, argnums=(0, 1)))
CHUNKED = jax.jit(jax.value_and_grad(chunked_loss, argnums=(0, 1)), static_argnums=(4, 5, 6))


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
    actual, gradients = CHUNKED(*inputs, VOCAB, chunk, MeshView())
    assert float(actual) == pytest.approx(float(expected), rel=1e-5, abs=1e-6)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_nothing_is_computed_of_tokens_without_a_loss() -> None:
    """Tokens that share a chunk with others are the exception: here there are none."""
    hidden, kernel, targets, _ = case()
    weights = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0, 0], np.float32)
    hidden[weights == 0] = np.nan
    loss = jax.value_and_grad(chunked_loss, argnums=(0, 1))
    actual, gradients = loss(hidden, kernel, targets, weights, VOCAB, 2, MeshView())
    assert np.isfinite(actual)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_kernel_that_does_not_train_costs_no_gradient() -> None:
    """Neither beside what an adapter makes, which does."""

    def adapted(hidden: Any, low: Any, high: Any, kernel: Any, *rest: Any) -> jax.Array:
        return vocabulary.cross_entropy([(hidden, kernel), (low, high)], *rest)

    hidden, kernel, *rest = case()
    low, high = hidden[:, :2], kernel[:2]
    products = [
        jax.jit(lambda *own, loss=loss, of=of: jax.grad(loss, of)(*own, VOCAB, 4, MeshView()))
        .lower(*inputs, *rest)
        .compile()
        .as_text()
        for loss, of, inputs in (
            (chunked_loss, (0,), (hidden, kernel)),
            (chunked_loss, (0, 1), (hidden, kernel)),
            (adapted, (0, 1, 2), (hidden, low, high, kernel)),
            (adapted, (0, 1, 2, 3), (hidden, low, high, kernel)),
        )
    ]
    assert [str(text).count(" dot(") for text in products] == [2, 3, 5, 6]


def test_the_loss_is_float32_for_bfloat16_activations() -> None:
    hidden, *rest = case()
    half = jnp.asarray(hidden, jnp.bfloat16)
    actual = chunked_loss(half, rest[0], rest[1], rest[2], VOCAB, 4, MeshView())
    assert actual.dtype == jnp.float32
    assert float(actual) == pytest.approx(float(plain_loss(hidden, *rest)), rel=2e-2)


def test_argmax_takes_the_first_of_equals_across_devices() -> None:
    hidden, kernel, *_ = case()
    kernel[:, 9] = kernel[:, 2] = kernel[:, 13] = kernel.max(axis=1)
    expected = np.argmax(hidden @ kernel[:, :13], axis=1)
    assert 2 in expected
    run = split(
        lambda hidden, kernel: vocabulary.argmax([(hidden, kernel)], 13, 4, SPLIT),
        (P(), P(None, "tensor")),
        P(),
    )
    np.testing.assert_array_equal(run(hidden, kernel), expected)
    terms = [(jnp.asarray(hidden), jnp.asarray(kernel[:, :13]))]
    alone = vocabulary.argmax(terms, 13, 4, MeshView())
    np.testing.assert_array_equal(alone, expected)
