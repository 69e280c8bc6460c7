"""Weights of experts, and their gradients, are float32 beside tokens of a smaller type."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sharding.dispatch import ExpertDispatch, through_experts

EXPERTS, TOKENS, WIDTH, CHOICES = 4, 6, 64, 2
#: One rank has all experts: nothing moves, and all rounding is that of the products.
ALONE = ExpertDispatch((), EXPERTS, slots=16)


def same(params: None, rows: jax.Array, counts: jax.Array) -> jax.Array:
    """Experts that give back what they get."""
    del params, counts
    return rows


def test_a_product_with_a_weight_is_rounded_once() -> None:
    dtype = jnp.bfloat16
    draw = np.random.default_rng(0)
    tokens = jnp.asarray(draw.normal(size=(TOKENS, WIDTH)), dtype)
    experts = jnp.asarray(draw.integers(EXPERTS, size=(TOKENS, CHOICES)), jnp.int32)
    weights = jnp.asarray(1 / draw.uniform(2, 9, (TOKENS, CHOICES)), jnp.float32)
    target = jnp.asarray(draw.normal(size=(TOKENS, WIDTH)), dtype)

    def made(tokens: jax.Array, weights: jax.Array) -> jax.Array:
        return through_experts(same, None, tokens, experts, weights, ALONE)

    @jax.jit
    def run(tokens: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        result, pull = jax.vjp(made, tokens, weights)
        return result, pull(target.astype(jnp.float32))

    result, (of_tokens, of_weights) = run(tokens, weights)
    assert result.dtype == jnp.float32
    wide, factors = np.asarray(tokens, np.float32), np.asarray(weights)
    np.testing.assert_allclose(result, wide * factors.sum(1)[:, None], rtol=1e-6)

    gradient = np.asarray(target, np.float32)
    copies = jnp.asarray(gradient[:, None] * factors[..., None], dtype).astype(jnp.float32)
    np.testing.assert_array_equal(of_tokens, copies.sum(1).astype(dtype))
    expected = np.repeat((gradient * wide).sum(1)[:, None], CHOICES, axis=1)
    assert of_weights.dtype == jnp.float32
    np.testing.assert_allclose(of_weights, expected, rtol=1e-5, atol=1e-5)
